"""What ``serve`` prints of a judge's card."""

from pathlib import Path
from typing import Any

import pytest
import yaml

import reward_serve.cli.serve
from reward_serve.cli.options import deployments_file
from reward_serve.cli.serve import card_line
from reward_serve.templates import load_template
from reward_serve_answers import VERSION
from tests.unit.cli.test_main import invoke

GRADED = load_template("graded")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def line(*fields: str, model: str = "bundled", **given: Any) -> str | None:
    (judge,) = deployments_file(model, given, fields=fields).models
    return card_line(judge)


def write(name: str, content: object) -> None:
    Path("cards").mkdir(exist_ok=True)
    text = content if isinstance(content, str) else yaml.safe_dump(content)
    Path("cards", f"{name}.yaml").write_text(text, encoding="utf-8")


def test_the_shipped_card_is_of_the_shipped_judge() -> None:
    """Fails when rules or template change: write the card again by `reward-serve card`."""
    text = line() or ""
    assert text.startswith("card: ")
    assert "attacks accepted" in text and "verdicts/s on" in text


@pytest.mark.parametrize(
    ("fields", "given", "named"),
    [
        (["judge.rules_first=false"], {}, "rules"),
        ([], {"template": "graded"}, "template, rules"),
        ([], {"mode": "generate"}, "mode"),
    ],
)
def test_a_card_of_another_judge_is_not_shown_as_this_ones(
    fields: list[str], given: dict[str, Any], named: str
) -> None:
    text = line(*fields, **given) or ""
    assert f"card.yaml: is of other {named}; `reward-serve card` measures this judge" in text
    assert "%" not in text


def test_a_card_in_the_working_folder_is_the_users_own() -> None:
    assert line(model="org/my-judge") is None
    template = f"template={GRADED.name}@{GRADED.digest}"
    parts = f"weights=org/my-judge;dtype=bfloat16;mode=label;{template};rules=off-{VERSION}"
    write("my-judge", {"summary": "99% agreement", "fingerprint": parts})
    given = {"model": "org/my-judge", "template": "graded"}
    assert line(**given) == "card: 99% agreement"
    other = line("judge.min_probability=0.7", **given)
    assert "cards/my-judge.yaml: is of other min_probability;" in (other or "")
    write("my-judge", {"summary": "99% agreement", "fingerprint": parts.replace("@", "@0")})
    assert "cards/my-judge.yaml: is of other template;" in (line(**given) or "")
    write("judge", {"summary": "mine", "fingerprint": parts})  # before the shipped one
    assert "cards/judge.yaml: is of other weights, adapter, template, rules" in (line() or "")


def test_a_hosted_judges_card_is_found_by_its_name() -> None:
    (judge,) = deployments_file("openai.yaml", {}).models
    assert card_line(judge) is None
    write(judge.name, {"summary": "99%", "fingerprint": "weights=another-model"})
    assert "is of other weights, mode, template, rules" in (card_line(judge) or "")


@pytest.mark.parametrize("content", ["- [", "a", {"summary": 1}, {"summary": 1, "fingerprint": 2}])
def test_what_is_not_a_card_is_named(content: object) -> None:
    write("judge", content)
    assert line() == "cards/judge.yaml: is not a card; write it again by `reward-serve card`"


def test_serve_prints_the_line_before_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[object] = []
    monkeypatch.setattr(reward_serve.cli.serve, "_prepare", lambda models: None)
    monkeypatch.setattr(reward_serve.cli.serve, "interrupt_on_signals", lambda: None)
    monkeypatch.setattr(
        reward_serve.cli.serve, "serve_until_stopped", lambda *given: started.append(given)
    )
    result = invoke("serve")
    assert len(started) == 1
    assert result.stderr.startswith("card: ")
    assert "card" not in invoke("serve", "rule.yaml").stderr
