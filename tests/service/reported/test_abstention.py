"""A judge that may say that it does not know: issue 74, `judge.min_probability`.

Reported: of 1,893 hidden rows that the bundled judge decided, those whose likelier label had less
than 0.8, or whose labels together had less than 0.001 of the mass, were 5.5%, and took 41 of 114
errors and 19 of 44 false accepts with them.
"""

import math
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from reward_serve.client import Client
from reward_serve.config.models import CascadeModel, JudgeModel, RubricModel
from reward_serve.engines.base import LabelOutput, Prompt
from reward_serve.explanation import Explanation
from reward_serve.reward_models.composite import Cascade
from reward_serve.reward_models.judge import Judge
from reward_serve.reward_models.rubric import RubricJudge
from reward_serve.schema import GroupRequest, Options, ScoreRequest, ScoreResult, Usage
from reward_serve_lab.evaluation.rescored import FINAL
from tests.fake_transport import FakeTransport
from tests.rows import rows
from tests.unit.reward_models.test_judge import FakeEngine
from tests.unit.reward_models.test_rubric import WordTokenizer

AT_LEAST = {"min_probability": 0.8, "audit_rate": 0.0}
ASKED = ScoreRequest(response="It is 18.", reference="18", question="How many?")
WHY = "the likelier label has probability {}, below judge.min_probability 0.8"


class FakeUnsureEngine(FakeEngine):
    """Gives the labels such shares of the probability of all tokens, by the prompt's fields."""

    def __init__(self, shares: Callable[[Mapping[str, str]], Sequence[float]]) -> None:
        super().__init__(tokenizer=WordTokenizer())
        self.shares = shares

    async def label_logprobs(self, prompt: Prompt, labels: Sequence[str]) -> LabelOutput:
        self.prompts.append("")
        logs = map(math.log, self.shares(prompt.fields))
        return LabelOutput(dict(zip(labels, logs, strict=True)), Usage())


def judge(engine: FakeEngine, group: Any = None, **settings: Any) -> Judge:
    section = AT_LEAST | {"rules_first": False} | settings
    fields = {"name": "judge", "kind": "judge", "judge": section, "group": group}
    return Judge(JudgeModel.model_validate(fields), engine)


@pytest.mark.parametrize(("template", "shares", "score", "reason"), rows(__file__, "verdicts"))
async def test_an_unsure_judge_gives_no_score_and_keeps_what_it_saw(
    template: str, shares: tuple[float, ...], score: float | None, reason: str | None
) -> None:
    """Reported: every verdict was a score, one of probability 0.51 like one of 0.99."""
    engine = FakeUnsureEngine(lambda fields: shares)
    result = await judge(engine, template=template).score(ASKED)
    assert result.score == (score if score is None else pytest.approx(score, abs=1e-3))
    assert (result.status, result.reason) == ("unparseable" if reason else "ok", reason)
    sure = await judge(engine, template=template, min_probability=0).score(ASKED)
    assert (sure.status, sure.label) == ("ok", result.label)
    assert sure.probabilities == result.probabilities
    assert sure.details == result.details
    assert sure.model_dump().keys() == result.model_dump().keys()
    assert f"{sure.fingerprint};min_probability=0.8" == result.fingerprint


async def test_in_generate_mode_it_is_neither_applied_nor_part_of_the_fingerprint() -> None:
    """Reported: it is label mode's."""
    options = Options(mode="generate")
    asked = ASKED.model_copy(update={"template": "detailed", "options": options})
    engine = FakeUnsureEngine(lambda fields: (0.5, 0.5))
    result = await judge(engine).score(asked)
    assert (result.score, "min_probability" in str(result.fingerprint)) == (1.0, False)


def test_the_bundled_judge_may_abstain_by_default_and_no_other() -> None:
    """Reported: the default should cost GSM8K-like rows nothing, and a third of false accepts."""

    def least(judge: Mapping[str, Any] | None = None, **engine: Any) -> float | None:
        fields = {"name": "judge", "kind": "judge", "judge": judge or {}, "engine": engine}
        return JudgeModel.model_validate(fields).judge.min_probability

    assert least() == 0.8
    assert least({"min_probability": 0.0}) == 0.0
    assert least({"mode": "generate"}) is None
    assert least({"template": "solution"}) is None
    assert least(adapter="none") is None
    assert least(model="org/judge") is None


@pytest.mark.parametrize("mode", ["generate", "likelihood"])
def test_where_no_label_is_read_the_setting_is_refused_by_name(mode: str) -> None:
    """Reported: it does not apply in generate mode, so it must not be ignored there."""
    with pytest.raises(ValueError, match=rf"min_probability: 0.8 has no effect in mode: {mode}"):
        JudgeModel.model_validate(
            {"name": "j", "kind": "judge", "judge": {"mode": mode, "min_probability": 0.8}}
        )
    remote = {"name": "j", "kind": "rubric", "remote": {"model": "m"}, "rubric": {}}
    with pytest.raises(ValueError, match=r"(?s)judge.*min_probability: 0.8 has no effect"):
        RubricModel.model_validate(remote | {"judge": {"min_probability": 0.8}})


async def test_an_undecided_criterion_is_absent_from_its_rubric() -> None:
    """Reported: in rubrics of label mode it applies to each criterion."""
    engine = FakeUnsureEngine(
        lambda fields: (0.3, 0.7) if "brief" in fields["criterion"] else (0.05, 0.95)
    )
    asked = [{"name": name, "text": f"It is {name}."} for name in ("true", "brief")]
    request = ScoreRequest.model_validate({"response": "A poem.", "rubric": asked})
    for answered, score in ((0.5, 1.0), (1.0, None)):
        fields = {"judge": AT_LEAST, "rubric": {"min_answered": answered}}
        model = RubricModel.model_validate({"name": "r", "kind": "rubric", **fields})
        result = await RubricJudge(model, engine).score(request)
        parts = result.components or {}
        assert (result.score, parts["true"].score, parts["brief"].score) == (score, 1.0, None)
        assert (parts["brief"].status, parts["brief"].reason) == ("unparseable", WHY.format(0.7))


async def test_an_undecided_pair_is_left_out_of_its_group() -> None:
    """Reported: in groups of label mode it applies to each comparison."""

    @asynccontextmanager
    async def place() -> AsyncIterator[None]:
        yield

    def shares(fields: Mapping[str, str]) -> tuple[float, float]:
        first, second = (int(fields[f"response_{n}"]) for n in (1, 2))
        if {first, second} == {1, 2}:
            return 0.6, 0.4
        return (0.95, 0.05) if first > second else (0.05, 0.95)

    groups = judge(FakeUnsureEngine(shares), group={}).groups
    assert groups is not None
    asked = {"question": "Which?", "responses": ["1", "2", "3"], "strategy": "all_pairs"}
    result = await groups.score(GroupRequest.model_validate(asked), place)
    undecided, *others = result.comparisons
    assert (undecided.probability, undecided.reason) == (None, f"unparseable: {WHY.format(0.6)}")
    assert [pair.probability for pair in others] == pytest.approx([0.05, 0.05])
    assert [member.status for member in result.results] == ["ok"] * 3


async def test_a_turn_that_is_undecided_has_no_score() -> None:
    """An undecided state must not get its expected value as a component's score."""
    messages = [{"role": "user", "content": "Add."}, {"role": "assistant", "content": "It is 42."}]
    request = ScoreRequest.model_validate({"messages": messages, "turns": True})
    model = judge(FakeUnsureEngine(lambda fields: (0.6, 0.4)), template="task_done")
    (turn,) = ((await model.score(request)).components or {}).values()
    assert (turn.score, turn.status, turn.reason) == (None, "unparseable", WHY.format(0.6))


async def test_a_cascade_asks_the_next_member_where_the_first_is_undecided() -> None:
    """Reported: to a cascade it is as any other absence."""

    def asks(*shares: float) -> Any:
        async def ask(body: dict[str, Any], explains: bool) -> Explanation:
            engine = FakeUnsureEngine(lambda fields: shares)
            return Explanation(result=await judge(engine).score(ASKED))

        return ask

    members = {"members": ["small", "large"], "unsure": [0.5, 0.5]}
    config = CascadeModel.model_validate({"name": "c", "kind": "cascade", "cascade": members})
    result = await Cascade(config, [asks(0.3, 0.7), asks(0.1, 0.9)]).score(ASKED)
    assert (result.score, (result.details or {})["decided_by"]) == (1.0, "large")
    both = await Cascade(config, [asks(0.7, 0.3), asks(0.3, 0.7)]).score(ASKED)
    assert (both.score, both.status) == (None, "unparseable")


async def test_neither_a_client_nor_rescore_asks_an_undecided_judge_again() -> None:
    """Reported: the same prompt has the same probabilities, so another attempt costs for nothing.

    The judge's cache keeps them, too: with another threshold they are read anew.
    """
    engine = FakeUnsureEngine(lambda fields: (0.6, 0.4))
    model, calls = judge(engine), []

    class Transport(FakeTransport):
        async def ascore_batch(self, requests: Sequence[Any]) -> list[ScoreResult]:
            calls.append(len(requests))
            return [await model.score(ScoreRequest.model_validate(body)) for body in requests]

    body = ASKED.model_dump(exclude_none=True, mode="json")
    result = await Client(Transport(), on_failure="none").ascore(body)
    assert (result.status, calls, len(engine.prompts)) == ("unparseable", [1], 1)
    assert result.status in FINAL
    again = await model.score(ASKED)
    assert (again.status, again.usage.cached_tokens) == ("unparseable", again.usage.prompt_tokens)
    assert len(engine.prompts) == 1
