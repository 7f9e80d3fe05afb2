from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest

from reward_serve.config.models import RuleConfig, VerifierName
from reward_serve.reward_models.rule import RULES, make_verifier
from reward_serve.schema import ScoreRequest
from reward_serve.templates import load_template, template_names

SETTINGS: dict[str, dict[str, Any]] = {
    "regex": {"pattern": r"#### (\S+)"},
    "function": {"function": "tests.own_functions:is_it"},
}


@pytest.mark.parametrize("name", get_args(VerifierName))
async def test_every_name_makes_a_verifier_that_tells_right_from_wrong(name: str) -> None:
    config = RuleConfig.model_validate({"verifier": name, **SETTINGS.get(name, {})})
    verifier = make_verifier(config)
    right, wrong = ("18", "17") if name in ("exact", "function") else ("#### 18", "#### 17")
    right, wrong, reference = ("(B)", "A", "B") if name == "choice" else (right, wrong, "18")
    assert (await verifier.verify(ScoreRequest(response=right), reference)).score == 1.0
    assert (await verifier.verify(ScoreRequest(response=wrong), reference)).score == 0.0
    assert verifier.fingerprint.startswith(f"verifier={name};")
    verifier.close()


async def test_a_judges_rules_and_the_verifier_of_the_same_name_agree() -> None:
    assert {load_template(name).rules for name in template_names()} == {None, *RULES}
    for name, rules in RULES.items():
        verifier = make_verifier(RuleConfig(verifier=name))
        for response in ("#### 18", "The answer is 18.", "18 or 17", "#### 17", ""):
            grade = await verifier.verify(ScoreRequest(response=response), "18")
            assert grade.rule == rules(response, ["18"]).rule


def test_the_documentation_lists_every_verifier() -> None:
    page = Path(__file__).parents[3] / "docs/reference/judge.md"
    rows = page.read_text(encoding="utf-8").partition("| `rule.verifier` |")[2].partition("\n\n")[0]
    cells = [row.split("|")[1] for row in rows.splitlines()[2:]]
    assert re.findall(r"`(\w+)`", " ".join(cells)) == list(get_args(VerifierName))
