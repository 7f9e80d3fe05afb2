from __future__ import annotations

import itertools
from typing import Any

import pytest

from reward_serve.config.models import JudgeModel
from reward_serve.reward_models.base import InvalidRequestError
from reward_serve.reward_models.judge import Judge, aggregate
from reward_serve.schema import Options, ScoreResult, Status, failure
from tests.unit.reward_models.test_judge import FakeEngine, judge, request


def writes(*texts: str) -> FakeEngine:
    """An engine that writes these in turn."""
    turns = itertools.cycle(texts)
    return FakeEngine(text=lambda prompt: (next(turns), False))


def thinker(engine: FakeEngine, **settings: Any) -> Judge:
    """A judge whose engine can end thinking."""
    config = {
        "name": "judge",
        "kind": "judge",
        "engine": {"engine_kwargs": {"reasoning_parser": "qwen3"}},
        "judge": {"mode": "generate", "audit_rate": 0.0, "rules_first": False, **settings},
    }
    return Judge(JudgeModel.model_validate(config), engine)


def samples(*scores: float | None) -> list[ScoreResult]:
    """A verdict a score; where it is None, unparseable."""
    return [
        failure(Status.UNPARSEABLE, "no verdict", text=f"text {i}")
        if score is None
        else ScoreResult(status=Status.OK, score=score, text=f"text {i}", label=f"{score:g}")
        for i, score in enumerate(scores)
    ]


@pytest.mark.parametrize(
    ("scores", "vote", "mean"),
    [
        ([1.0, 0.0, 1.0], 1.0, 2 / 3),
        ([1.0, 0.0], 0.0, 0.5),
        ([1.0, None, 1.0], 1.0, 1.0),
        ([0.2, 0.9, 0.4], 0.2, 0.5),
        ([1.0, None], None, None),
        ([None, 1.0, None], None, None),
    ],
)
def test_a_vote_takes_the_commonest_score_and_a_mean_the_mean_of_a_majority_of_verdicts(
    scores: list[float | None], vote: float | None, mean: float | None
) -> None:
    voted, averaged = (aggregate(samples(*scores), how) for how in ("vote", "mean"))
    assert voted.score == vote
    assert averaged.score == (None if mean is None else pytest.approx(mean))
    for verdict in (voted, averaged):
        assert verdict.details == {"samples": scores}
        if vote is None:
            assert verdict.status is Status.UNPARSEABLE
            assert f"of {len(scores)} samples: no verdict" in (verdict.reason or "")


def test_the_text_and_the_label_are_those_of_an_agreeing_sample() -> None:
    verdict = aggregate(samples(0.0, 1.0, 1.0), "vote")
    assert (verdict.text, verdict.label) == ("text 1", "1")
    assert aggregate(samples(0.0, 1.0), "mean").label is None


async def test_the_requested_answers_are_sampled_independently() -> None:
    engine = writes("VERDICT: 1", "VERDICT: 0", "VERDICT: 1")
    options = Options(mode="generate", samples=3, temperature=0.7)
    verdict = await judge(engine).score(request(options=options))
    assert (verdict.score, verdict.details) == (1.0, {"samples": [1.0, 0.0, 1.0]})
    assert [each.sample for each in engine.settings] == [0, 1, 2]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, (0.7, 1.0, 64, None)),
        ({"max_tokens": 10, "temperature": 0.0, "top_p": 0.5}, (0.0, 0.5, 10, None)),
        ({"enable_thinking": True}, (0.7, 1.0, 64, 30)),
        ({"enable_thinking": True, "thinking_tokens": 7}, (0.7, 1.0, 64, 7)),
    ],
)
async def test_a_requests_options_replace_the_deployments(
    options: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    engine = FakeEngine()
    scorer = thinker(engine, max_tokens=64, temperature=0.7, thinking_tokens=30)
    await scorer.score(request(options=Options(**options)))
    (sampling,) = engine.settings
    found = sampling.temperature, sampling.top_p, sampling.max_tokens, sampling.thinking_tokens
    assert found == expected
    assert engine.prompts[0].endswith("<think>") is ("enable_thinking" in options)


async def test_a_request_may_turn_thinking_off() -> None:
    engine = FakeEngine()
    options = Options(enable_thinking=False)
    await thinker(engine, enable_thinking=True).score(request(options=options))
    assert not engine.prompts[0].endswith("<think>")


@pytest.mark.parametrize("rules_first", [False, True])
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"samples": 9, "temperature": 1.0}, "options.samples: 9 is above .* raise judge.max"),
        ({"samples": 2}, "options.samples: 2 samples at temperature 0 .* set options.temperature"),
        ({"samples": 2, "mode": "label"}, "options.samples: has no effect in label mode"),
        ({"enable_thinking": True, "mode": "label"}, "options.enable_thinking: has no effect"),
        ({"thinking_tokens": 8, "mode": "label"}, "options.thinking_tokens: has no effect"),
        ({"max_tokens": 513}, "options.max_tokens: 513 is above .* maximum of 512; request"),
        ({"thinking_tokens": 8}, "options.thinking_tokens: thinking is off"),
        ({"thinking_tokens": 8, "enable_thinking": True}, "cannot limit thinking"),
    ],
)
async def test_an_option_without_effect_or_above_the_limits_is_refused_with_the_remedy(
    options: dict[str, Any], said: str, rules_first: bool
) -> None:
    scorer = judge(FakeEngine(), mode="generate", rules_first=rules_first)
    with pytest.raises(InvalidRequestError, match=said):
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
    engine = writes("MARK: 0.5")
    scorer = judge(engine, template="mine/ours.yaml", template_data=data, mode="generate")
    for name in (None, "ours"):
        verdict = await scorer.score(request(template=name))
        assert (verdict.score, verdict.template) == (0.5, "ours")
    assert "18\n<response>\nIt is 18.\n</response>" in engine.prompts[0]
    assert scorer.describe()["templates"][0] == "ours"
