from pathlib import Path

import pytest
import yaml

import reward_serve_lab.cli.card
from reward_serve.cli.options import deployments_file
from reward_serve.cli.serve import card_line
from reward_serve_lab.evaluation.bulk import FORMATS
from tests.unit.lab.fakes import invoke


def test_serve_knows_the_card_of_the_judge_that_it_serves(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = FORMATS.read_text(encoding="utf-8").splitlines()
    (few := tmp_path / "few.jsonl").write_text("\n".join(lines[::40]), encoding="utf-8")
    monkeypatch.setattr(reward_serve_lab.cli.card, "FORMATS", few)
    monkeypatch.chdir(tmp_path)
    result = invoke("card", "--url", url, "--attacks", 16)
    assert result.exit_code == 0, result.output
    card = yaml.safe_load(Path("cards/judge.yaml").read_text(encoding="utf-8"))
    served, alone = (card["labelled"]["few"][way] for way in ("served", "model_alone"))
    assert served["unscored"] == alone["unscored"] == 0
    assert served["by_rules"] > alone["by_rules"] == 0
    assert {*card["attacks"]} == {"served", "model_alone"}
    assert card["verdicts_per_s"]["model_alone"] > 0
    (judge,) = deployments_file("bundled", {}, fields=["group={}"]).models
    assert card_line(judge) == f"card: {card['summary']}"
