from typing import Any

import pytest

from reward_serve.config.models import RuleModel
from reward_serve.reward_models.base import InvalidRequestError, Trace
from reward_serve.reward_models.rule import RuleRewardModel
from reward_serve.reward_models.turns import scored_states, with_turns
from reward_serve.schema import Component, ScoreRequest, ScoreResult, Status

TASK = {"role": "user", "content": "What is 12 + 30?"}
CALL = {"role": "assistant", "tool_calls": [{"name": "add", "arguments": {"x": 12, "y": 30}}]}
ANSWERED = {"role": "tool", "content": "42"}


def assistant(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def asked(*turns: Any, **fields: Any) -> ScoreRequest:
    return ScoreRequest.model_validate({"messages": [TASK, *turns], "turns": True, **fields})


async def scored(request: ScoreRequest, trace: Trace | None = None) -> ScoreResult:
    """Scores a state by what its last assistant turn says."""
    if request.judged.startswith("!"):
        raise RuntimeError(request.judged)
    score = float(request.judged)
    return ScoreResult(status=Status.OK, score=score, label="x", source="judge")


async def of(request: ScoreRequest, **options: Any) -> ScoreResult:
    return with_turns(await scored_states(request, scored, None), **options)


async def test_each_turn_is_a_component_and_the_whole_is_the_last_state() -> None:
    result = await of(asked(assistant("0.25"), TASK, assistant("0.5"), assistant("1")))
    assert result.score == 1.0
    parts = result.components or {}
    assert {name: part.score for name, part in parts.items()} == {
        "turn_1": 0.25, "turn_2": 0.5, "turn_3": 1.0
    }  # fmt: skip


async def test_a_turn_without_a_verdict_is_absent_and_so_is_a_mean() -> None:
    request = asked(assistant("0.5"), assistant("! lost"), assistant("1"))
    result = await of(request)
    absent = (result.components or {})["turn_2"]
    assert (result.score, absent.score, absent.status) == (1.0, None, Status.ERROR)
    averaged = await of(request, is_mean=True)
    assert (averaged.score, averaged.status) == (None, Status.ERROR)
    assert "turn_2" in (averaged.reason or "")
    assert (await of(asked(assistant("0.5"), assistant("1")), is_mean=True)).score == 0.75


async def test_a_whole_without_a_verdict_keeps_its_turns() -> None:
    result = await of(asked(assistant("0.5"), assistant("! lost")))
    assert (result.score, result.status) == (None, Status.ERROR)
    assert [part.score for part in (result.components or {}).values()] == [0.5, None]


def test_a_criterion_named_as_a_turn_is_refused() -> None:
    part = Component(score=1.0, status=Status.OK)
    whole = ScoreResult(status=Status.OK, score=1.0, components={"turn_1": part})
    with pytest.raises(InvalidRequestError, match="rubric: 'turn_1'"):
        with_turns([whole])


async def test_a_rule_scores_the_turns_that_state_an_answer() -> None:
    rule = RuleRewardModel(RuleModel(name="rule", kind="rule"))
    turns = [CALL, ANSWERED, assistant("#### 41"), TASK, assistant("#### 42"), CALL]
    result = await rule.score(asked(*turns, reference="42"))
    parts = result.components or {}
    assert [part.score for part in parts.values()] == [None, 0.0, 1.0, 0.0]
    assert parts["turn_1"].status is Status.UNPARSEABLE
    assert result.score == 0.0
