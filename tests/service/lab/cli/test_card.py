from pathlib import Path

import pytest
import yaml

from tests.fake_service import FakeService
from tests.unit.lab.fakes import invoke


def test_a_card_of_a_service_over_http(
    service: FakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the real rule, which has no model to measure alone."""
    monkeypatch.chdir(tmp_path)
    result = invoke("card", "--url", service.url, "--attacks", 50)
    assert result.exit_code == 0, result.output
    text = Path("cards/rule.yaml").read_text(encoding="utf-8")
    card = yaml.safe_load(text)
    formats = card["labelled"]["formats"]["served"]
    assert (formats["n"], formats["confusion"]["false_accept"]) == (563, 0)
    assert formats["unscored"] == 563 - formats["statuses"]["ok"] > 0
    assert formats["agreement"] == 1.0  # of what the rule decides
    assert card["attacks"]["served"]["false_accepts"] == 0
    assert card["machine"]["CPU cores"]
    assert card["verdicts_per_s"]["model_alone"] is None
    assert service.url not in text
