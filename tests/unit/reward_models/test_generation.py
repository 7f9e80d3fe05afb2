from __future__ import annotations

import itertools
from typing import Any

import pytest

from reward_serve.config.models import JudgeModel
from reward_serve.reward_models.base import InvalidRequestError
from reward_serve.reward_models.judge import Judge, aggregate
from reward_serve.schema import Options, ScoreResult, Status, failure
from tests.unit.reward_models.test_judge import FakeEngine, judge, request

REASONING = {"engine_kwargs": {"reasoning_parser": "qwen3"}}


def writes(*texts: str) -> FakeEngine:
    """An engine that writes these in turn."""
    turns = itertools.cycle(texts)
    return FakeEngine(text=lambda prompt: (next(turns), False))


def thinker(engine: FakeEngine, **settings: Any) -> Judge:
    """A judge whose engine can end thinking."""
    config = {
        "name": "judge",
        "kind": "judge",
        "engine": REASONING,
        "judge": {"mode": "generate", "audit_rate": 0.0, "rules_first": False, **settings},
    }
    return Judge(JudgeModel.model_validate(config), engine)


def samples(*scores: float | None) -> list[ScoreResult]:
    """A verdict a score; where it is None, unparseable."""
    return [
        ScoreResult(
            status=Status.OK, score=score, source="judge", text=f"text {i}", label=f"{score:g}"
        )
        if score is not None
        else failure(Status.UNPARSEABLE, "no verdict", text=f"text {i}")
        for i, score in enumerate(scores)
    ]


class TestAggregate:
    @pytest.mark.parametrize(
        ("scores", "vote", "mean"),
        [
            ([1.0, 0.0, 1.0], 1.0, 2 / 3),
            ([1.0, 0.0], 0.0, 0.5),
            ([1.0, None, 1.0], 1.0, 1.0),
            ([0.2, 0.9, 0.4], 0.2, 0.5),
        ],
    )
    def test_a_vote_takes_the_commonest_score_and_a_mean_the_mean(
        self, scores: list[float | None], vote: float, mean: float
    ) -> None:
        assert aggregate(samples(*scores), "vote").score == vote
        assert aggregate(samples(*scores), "mean").score == pytest.approx(mean)

    @pytest.mark.parametrize("scores", [[1.0, None], [None, 1.0, None], [None, None]])
    @pytest.mark.parametrize("how", ["vote", "mean"])
    def test_without_a_majority_of_verdicts_there_is_no_score(
        self, scores: list[float | None], how: Any
    ) -> None:
        verdict = aggregate(samples(*scores), how)
        assert (verdict.status, verdict.score) == (Status.UNPARSEABLE, None)
        assert f"of {len(scores)} samples: no verdict" in (verdict.reason or "")

    def test_every_score_is_reported_and_the_text_is_of_an_agreeing_answer(self) -> None:
        verdict = aggregate(samples(0.0, 1.0, 1.0), "vote")
        assert verdict.details == {"samples": [0.0, 1.0, 1.0]}
        assert (verdict.text, verdict.label) == ("text 1", "1")
        assert aggregate(samples(0.0, 1.0), "mean").label is None


class TestSamples:
    async def test_the_requested_answers_are_sampled_independently(self) -> None:
        engine = writes("VERDICT: 1", "VERDICT: 0", "VERDICT: 1")
        options = Options(mode="generate", samples=3, temperature=0.7)
        verdict = await judge(engine).score(request(options=options))
        assert (verdict.score, verdict.details) == (1.0, {"samples": [1.0, 0.0, 1.0]})
        assert engine.budgets == [(None, 0), (None, 1), (None, 2)]

    @pytest.mark.parametrize("rules_first", [False, True])
    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"samples": 9, "temperature": 1.0}, "options.samples: 9 is above .* raise judge.max"),
            (
                {"samples": 2},
                "options.samples: 2 samples at temperature 0 .* set options.temperature",
            ),
            ({"samples": 2, "mode": "label"}, "options.samples: has no effect in label mode"),
            ({"enable_thinking": True, "mode": "label"}, "options.enable_thinking: has no effect"),
            ({"thinking_tokens": 8, "mode": "label"}, "options.thinking_tokens: has no effect"),
            ({"max_tokens": 513}, "options.max_tokens: 513 is above .* maximum of 512; request"),
            ({"thinking_tokens": 8}, "options.thinking_tokens: thinking is off"),
            ({"thinking_tokens": 8, "enable_thinking": True}, "cannot limit thinking"),
        ],
    )
    async def test_what_would_say_nothing_is_refused_with_the_remedy(
        self, options: dict[str, Any], said: str, rules_first: bool
    ) -> None:
        scorer = judge(FakeEngine(), mode="generate", rules_first=rules_first)
        with pytest.raises(InvalidRequestError, match=said):
            await scorer.score(request("#### 18", options=Options(**options)))


class TestThinking:
    @pytest.mark.parametrize(
        ("deployed", "asked", "thinks"),
        [(False, None, False), (True, None, True), (True, False, False), (False, True, True)],
    )
    async def test_a_request_may_turn_it_on_and_off(
        self, deployed: bool, asked: bool | None, thinks: bool
    ) -> None:
        engine = FakeEngine()
        scorer = thinker(engine, enable_thinking=deployed, thinking_tokens=100)
        await scorer.score(request(options=Options(enable_thinking=asked)))
        assert engine.prompts[0].endswith("<think>") is thinks
        assert engine.budgets == [(100 if thinks else None, 0)]

    async def test_a_request_may_set_the_budget_below_what_is_written(self) -> None:
        engine = FakeEngine()
        scorer = thinker(engine, enable_thinking=True)
        await scorer.score(request(options=Options(thinking_tokens=7)))
        assert engine.budgets == [(7, 0)]
        with pytest.raises(
            InvalidRequestError, match="leaves no room for a verdict in max_tokens: 512"
        ):
            await scorer.score(request(options=Options(thinking_tokens=512)))


class TestTemplateFile:
    @pytest.fixture
    def ours(self) -> dict[str, Any]:
        """A judge's settings once the file was read."""
        form = {"instruction": "End with 'MARK: <x>'.", "verdict": r"MARK: (\S+)"}
        data = {
            "description": "Ours.",
            "response_tokens": 64,
            "system": "You mark.",
            "user": "{REFERENCE_SOLUTION}\n<response>\n{CANDIDATE_SOLUTION}\n</response>",
            "generate": {**form, "example": "MARK: 1"},
        }
        return {"template": "mine/ours.yaml", "template_data": data, "mode": "generate"}

    async def test_it_judges_by_default_and_by_its_name(self, ours: dict[str, Any]) -> None:
        engine = writes("MARK: 0.5")
        scorer = judge(engine, **ours)
        for name in (None, "ours"):
            verdict = await scorer.score(request(template=name))
            assert (verdict.score, verdict.template) == (0.5, "ours")
        assert "18\n<response>\nIt is 18.\n</response>" in engine.prompts[0]
        assert scorer.describe()["templates"][0] == "ours"
