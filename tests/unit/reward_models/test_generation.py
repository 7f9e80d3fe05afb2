from typing import Any

import pytest

from reward_serve.config.models import JudgeModel
from reward_serve.reward_models.base import InvalidRequestError
from reward_serve.reward_models.judge import Judge
from reward_serve.schema import Options
from tests.rows import rows
from tests.unit.reward_models.test_judge import FakeEngine, judge, request


def thinker(engine: FakeEngine, **settings: Any) -> Judge:
    """A judge whose engine can end thinking."""
    config = {
        "name": "judge",
        "kind": "judge",
        "engine": {"engine_kwargs": {"reasoning_parser": "qwen3"}},
        "judge": {"mode": "generate", "audit_rate": 0.0, "rules_first": False, **settings},
    }
    return Judge(JudgeModel.model_validate(config), engine)


@pytest.mark.parametrize(("options", "expected"), rows(__file__, "prevail"))
async def test_requests_options_prevail(options: dict[str, Any], expected: list[Any]) -> None:
    engine = FakeEngine()
    scorer = thinker(engine, max_tokens=64, temperature=0.7, thinking_tokens=30)
    await scorer.score(request(options=Options(**options)))
    (sampling,) = engine.settings
    applied = sampling.temperature, sampling.top_p, sampling.max_tokens, sampling.thinking_tokens
    assert applied == tuple(expected)
    assert engine.prompts[0].endswith("<think>") is ("enable_thinking" in options)


async def test_a_request_may_turn_thinking_off() -> None:
    engine = FakeEngine()
    options = Options(enable_thinking=False)
    await thinker(engine, enable_thinking=True).score(request(options=options))
    assert not engine.prompts[0].endswith("<think>")


@pytest.mark.parametrize("rules_first", [False, True])
@pytest.mark.parametrize(("options", "message"), rows(__file__, "options"))
async def test_an_option_without_effect_or_above_the_limits_is_refused_with_the_remedy(
    options: dict[str, Any], message: str, rules_first: bool
) -> None:
    scorer = judge(FakeEngine(), mode="generate", rules_first=rules_first)
    with pytest.raises(InvalidRequestError, match=message):
        await scorer.score(request("#### 18", options=Options(**options)))


async def test_thinking_leaves_room_for_the_verdict() -> None:
    options = Options(thinking_tokens=512)
    with pytest.raises(InvalidRequestError, match="no room for a verdict in max_tokens: 512"):
        await thinker(FakeEngine(), enable_thinking=True).score(request(options=options))


async def test_a_template_file_judges_by_default_and_by_its_name() -> None:
    form = {"instruction": "End with 'MARK: <x>'.", "verdict": r"MARK: (\S+)"}
    data = {
        "description": "Ours.",
        "response_tokens": 64,
        "system": "You mark.",
        "user": "{REFERENCE_SOLUTION}\n<response>\n{CANDIDATE_SOLUTION}\n</response>",
        "generate": {**form, "example": "MARK: 1"},
    }
    engine = FakeEngine(text=lambda prompt: ("MARK: 0.5", False))
    scorer = judge(engine, template="mine/ours.yaml", template_data=data, mode="generate")
    for name in (None, "ours"):
        verdict = await scorer.score(request(template=name))
        assert (verdict.score, verdict.template) == (0.5, "ours")
    assert "18\n<response>\nIt is 18.\n</response>" in engine.prompts[0]
    assert scorer.describe()["templates"][0] == "ours"
