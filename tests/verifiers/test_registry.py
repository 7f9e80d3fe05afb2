from __future__ import annotations

from typing import Any, get_args

import pytest

from reward_serve.config.kinds import RuleConfig, VerifierName
from reward_serve.schema import ScoreRequest
from reward_serve.verifiers.registry import make_verifier

SETTINGS: dict[str, dict[str, Any]] = {
    "regex": {"pattern": r"#### (\S+)"},
    "function": {"function": "tests.verifiers.own_functions:is_it"},
}


@pytest.mark.parametrize("name", get_args(VerifierName))
async def test_every_name_makes_a_verifier_that_tells_right_from_wrong(name: str) -> None:
    config = RuleConfig.model_validate({"verifier": name, **SETTINGS.get(name, {})})
    verifier = make_verifier(config)
    right, wrong = ("18", "17") if name in ("exact", "function") else ("#### 18", "#### 17")
    assert (await verifier.verify(ScoreRequest(response=right), "18")).score == 1.0
    assert (await verifier.verify(ScoreRequest(response=wrong), "18")).score == 0.0
    assert verifier.fingerprint.startswith(f"verifier={name};")
    verifier.close()
