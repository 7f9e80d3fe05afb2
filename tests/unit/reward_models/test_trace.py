"""What a judge records of its prompts and answers when a result is explained."""

import asyncio
from collections.abc import Sequence

import pytest

from reward_serve.config.engine import RemoteConfig
from reward_serve.config.judge import JudgeConfig
from reward_serve.config.models import JudgeModel
from reward_serve.engines.base import EngineError, LabelOutput, Prompt
from reward_serve.explanation import ShownPrompt, Span
from reward_serve.reward_models.base import Trace
from reward_serve.reward_models.judge import Judge
from reward_serve.schema import Options, ScoreRequest, ScoreResult, Status
from tests.unit.reward_models.test_judge import FakeEngine, judge, request, says

RIGHT = says(p0=0.1, p1=0.9)


async def explained(
    model: Judge, asked: ScoreRequest
) -> tuple[ScoreResult, Trace, list[ShownPrompt]]:
    trace = Trace()
    verdict = await model.score(asked, trace)
    return verdict, trace, [render() for render in trace.prompts]


async def test_the_prompt_that_is_shown_is_the_one_that_the_engine_got() -> None:
    engine = FakeEngine(label=RIGHT)
    verdict, _, (prompt,) = await explained(judge(engine), request("It <b>is</b> {18}."))

    assert verdict.score == 1.0
    assert prompt.text == engine.prompts[0]
    assert (prompt.mode, prompt.reference, prompt.messages) == ("label", 0, None)
    assert prompt.token_count == len(engine.prompts[0])
    assert prompt.cut == []
    places = {field.field: prompt.text[field.start : field.end] for field in prompt.fields}
    assert places == {"response": "It <b>is</b> {18}.", "reference": "18 (present)"}


async def test_what_the_judge_does_not_see_is_shown() -> None:
    response = "x" * 5000 + " The answer is 18."
    model = judge(FakeEngine(label=RIGHT), response_tokens=20, template="solution")
    verdict, _, (prompt,) = await explained(model, request(response, question="How many?"))

    (cut,) = prompt.cut
    assert (cut.field, cut.exact) == ("response", True)
    assert cut.end - cut.start == (verdict.details or {})["cut_response_characters"]
    (place,) = [field for field in prompt.fields if field.field == "response"]
    assert (prompt.text or "")[place.start : place.end].endswith(response[cut.end :])


async def test_the_rules_and_the_model_are_both_shown_whichever_decides() -> None:
    engine = FakeEngine(label=says(p0=0.9, p1=0.1))
    asked = request("#### 18")
    for rules_first, decided in ((True, ("rule", 1.0)), (False, ("judge", 0.0))):
        verdict, trace, _ = await explained(judge(engine, rules_first=rules_first), asked)
        assert (verdict.source, verdict.score) == decided
        assert trace.rule is not None
        assert (trace.rule.outcome, trace.rule.rule) == ("right", "marker_matches")
        assert trace.rule.span == Span(start=5, end=7)
        assert trace.model is not None
        assert (trace.model.source, trace.model.score) == ("judge", 0.0)


@pytest.mark.parametrize(
    ("fault", "status"),
    [(EngineError("gone"), Status.ERROR), (KeyError("gone"), Status.ERROR), (None, Status.TIMEOUT)],
)
async def test_a_model_that_fails_or_hangs_fails_no_verdict_of_a_rule(
    fault: Exception | None, status: Status
) -> None:
    class FakeFaultyEngine(FakeEngine):
        async def label_logprobs(self, prompt: Prompt, labels: Sequence[str]) -> LabelOutput:
            if fault is not None:
                raise fault
            await asyncio.Event().wait()
            raise AssertionError

    model = judge(FakeFaultyEngine(), rules_first=True)
    asked = request("#### 18", timeout_s=10.0 if fault else 0.2)
    verdict, trace, _ = await asyncio.wait_for(explained(model, asked), 30)
    assert (verdict.score, verdict.source) == (1.0, "rule")
    assert trace.model is not None
    assert (trace.model.score, trace.model.status) == (None, status)


async def test_an_endpoint_that_renders_itself_is_shown_as_messages() -> None:
    class FakeEndpoint(FakeEngine):
        async def label_logprobs(self, prompt: Prompt, labels: Sequence[str]) -> LabelOutput:
            self.sent = prompt.messages
            return LabelOutput({"0": -9.0, "1": -0.1}, self._usage(prompt))

    engine = FakeEndpoint()
    engine.tokenizer = None
    config = JudgeModel(
        name="judge",
        kind="remote",
        remote=RemoteConfig(model="m", base_url="http://127.0.0.1:1", api_key_env=None),
        judge=JudgeConfig(rules_first=False),
    )
    _, _, (prompt,) = await explained(Judge(config, engine), request("eighteen"))

    assert (prompt.text, prompt.token_count) == (None, None)
    assert prompt.messages is not None
    assert [turn.model_dump(include={"role", "content"}) for turn in prompt.messages] == engine.sent
    user = prompt.messages[-1]
    (place,) = [field for field in user.fields if field.field == "response"]
    assert user.content[place.start : place.end] == "18", "numerals are canonical in this template"


async def test_explaining_gives_the_verdict_that_scoring_gives() -> None:
    for rules_first in (True, False):
        model = judge(FakeEngine(label=RIGHT), rules_first=rules_first)
        for response in ("#### 18", "eighteen", "#### 17", ""):
            asked = request(response, options=Options(cache=False))
            verdict, _, _ = await explained(model, asked)
            assert verdict == await model.score(asked)
