from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest

from reward_serve.config.models import RuleConfig, VerifierName
from reward_serve.reward_models.rule import make_verifier
from reward_serve.schema import ScoreRequest

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


def test_the_documentation_lists_every_verifier() -> None:
    page = Path(__file__).parents[3] / "docs/reference/judge.md"
    rows = page.read_text(encoding="utf-8").partition("| `rule.verifier` |")[2].partition("\n\n")[0]
    cells = [row.split("|")[1] for row in rows.splitlines()[2:]]
    assert re.findall(r"`(\w+)`", " ".join(cells)) == list(get_args(VerifierName))
