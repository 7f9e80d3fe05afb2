"""A judge of conversations: its turns, and the likelihood of a reference."""

import asyncio
import math
from typing import Any

import pytest

from reward_serve.engines.base import LabelOutput, OverloadedError
from reward_serve.reward_models.base import InvalidRequestError, Trace
from reward_serve.schema import ScoreRequest, ScoreResult, Status
from tests.unit.reward_models.test_judge import FakeEngine, judge

TASK = {"role": "user", "content": "What is 12 + 30?"}
CALL = {"role": "assistant", "tool_calls": [{"name": "add", "arguments": {"x": 12, "y": 30}}]}
ANSWERED = {"role": "tool", "content": "42"}
END = {"role": "assistant", "content": "It is 42."}
RUN = [TASK, CALL, ANSWERED, END]


def asked(*turns: Any, **fields: Any) -> ScoreRequest:
    fields = {"template": "task_done", **fields}
    return ScoreRequest.model_validate({"messages": [*turns], **fields})


def after(prompt: str) -> dict[str, float]:
    """The task is done if the prompt shows the answer, and else nearly not."""
    done = 0.9 if "It is 42." in prompt else 0.2
    return {"1": math.log(done), "0": math.log(1 - done)}


def components(result: ScoreResult) -> list[float | None]:
    return [part.score for part in (result.components or {}).values()]


async def test_a_state_has_its_expected_value_and_the_whole_its_verdict() -> None:
    result = await judge(FakeEngine(after)).score(asked(*RUN, turns=True))
    assert (result.score, result.label) == (1.0, "1")
    assert components(result) == pytest.approx([0.2, 0.9])
    assert result.usage.completion_tokens == 2


async def test_useful_turns_are_averaged() -> None:
    request = asked(*RUN, turns=True, template="turn_useful")
    result = await judge(FakeEngine(after)).score(request)
    assert result.score == pytest.approx(0.55)
    assert (result.label, result.probabilities) == (None, None)


async def test_a_turn_whose_engine_call_failed_is_absent() -> None:
    def fails(prompt: str) -> dict[str, float]:
        if "It is 42." not in prompt:
            raise RuntimeError("the engine is lost")
        return after(prompt)

    result = await judge(FakeEngine(fails)).score(asked(*RUN, turns=True))
    assert (result.score, components(result)) == (1.0, [None, pytest.approx(0.9)])
    useful = asked(*RUN, turns=True, template="turn_useful")
    assert (await judge(FakeEngine(fails)).score(useful)).status is Status.ERROR


async def test_a_template_of_responses_reads_the_last_turn_and_no_turn_that_only_calls() -> None:
    engine = FakeEngine(after)
    request = asked(*RUN, turns=True, template="final_answer", reference="42")
    result = await judge(engine).score(request)
    assert (result.score, components(result)) == (1.0, [None, 1.0])
    assert len(engine.prompts) == 1
    assert "add" not in engine.prompts[0]


async def test_what_a_conversation_lacks_is_not_shown() -> None:
    engine = FakeEngine(after)
    await judge(engine).score(asked(*RUN))
    await judge(engine).score(asked(*RUN, reference="42", tools=[{"name": "add"}]))
    without, with_both = engine.prompts
    assert "\n<reference>" not in without
    assert "\n<tools>" not in without
    assert "<reference>\n42\n</reference>" in with_both
    assert '<tools>\n{"type": "function", "function": {"name": "add"}}\n</tools>' in with_both


def digits(prompt: str) -> dict[str, float]:
    """The reference's tokens, likelier once a tool has returned it."""
    probability = 0.5 if 'role="tool"' in prompt else 0.25
    return {str(ord(digit)): math.log(probability) for digit in "0123456789"}


class LikelihoodEngine(FakeEngine):
    async def label_logprobs(self, prompt: Any, labels: Any) -> LabelOutput:
        logprobs = self.label(self._asked(prompt))
        return LabelOutput({label: logprobs[label] for label in labels}, self._usage(prompt))


LIKELIHOOD = {"template": "likelihood", "reference": "So 42.\n#### 42"}


async def test_a_likelihood_is_of_the_references_tokens_and_turns_have_its_changes() -> None:
    engine = LikelihoodEngine(digits)
    result = await judge(engine).score(asked(*RUN, turns=True, **LIKELIHOOD))
    assert result.score == pytest.approx(0.5)
    assert components(result) == pytest.approx([0.5, 0.5])
    details: Any = result.details
    assert details["logprob"] == pytest.approx(2 * math.log(0.5))
    assert details["reference_tokens"] == 2
    assert details["differences"] == {"turn_1": pytest.approx(2 * math.log(2)), "turn_2": 0.0}
    assert {prompt[-1] for prompt in engine.prompts} == {" ", "4"}


async def test_a_likelihood_is_for_single_answers_too() -> None:
    request = ScoreRequest.model_validate({"question": "?", "response": "42", **LIKELIHOOD})
    assert (await judge(LikelihoodEngine(digits)).score(request)).score == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"template": "likelihood"}, "reference: mode likelihood needs it"),
        ({"template": "likelihood", "reference": "9" * 33}, "reference: has 33 tokens"),
        ({"options": {"mode": "likelihood"}}, "options.mode: template 'task_done'"),
        ({"messages": [{**TASK, "content": "x" * 9000}, END]}, "messages: the task"),
        ({"messages": [TASK, *[END] * 9], "reference": ["42"] * 64, "turns": True}, "turns: by 64"),
    ],
)
async def test_what_cannot_be_asked_is_refused(fields: dict[str, Any], message: str) -> None:
    request = ScoreRequest.model_validate({"messages": RUN, "template": "task_done", **fields})
    with pytest.raises(InvalidRequestError, match=message):
        await judge(LikelihoodEngine(digits)).score(request)


@pytest.mark.parametrize("template", ["task_done", "likelihood"])
async def test_an_explanation_shows_the_conversation_and_what_was_cut(template: str) -> None:
    old = {"role": "tool", "content": "found " * 600}
    request = asked(TASK, CALL, old, *RUN[1:], template=template, reference="42")
    trace = Trace()
    await judge(LikelihoodEngine(lambda prompt: after(prompt) | digits(prompt))).score(
        request, trace
    )
    prompt = trace.prompts[0]()
    (span,) = [field for field in prompt.fields if field.field == "conversation"]
    assert (prompt.text or "")[span.start : span.end].startswith('<turn role="user">')
    (cut,) = prompt.cut
    assert (cut.field, cut.turn) == ("messages", 2)
    assert 0 < cut.start < cut.end < len(old["content"])


async def test_a_likelihood_counts_the_tasks_tokens_and_a_hang_leaves_the_other_turns() -> None:
    class Hanging(LikelihoodEngine):
        async def label_logprobs(self, prompt: Any, labels: Any) -> LabelOutput:
            text = "".join(map(chr, prompt.token_ids))
            if "of the task" in text and "It is 42." not in text:
                await asyncio.sleep(60)
            return await super().label_logprobs(prompt, labels)

    request = asked(*RUN, turns=True, **LIKELIHOOD)
    result = await judge(LikelihoodEngine(digits)).score(request)
    assert result.usage.completion_tokens == 6
    hung = asked(
        *({**turn, "content": "of the task"} if turn is TASK else turn for turn in RUN),
        turns=True,
        timeout_s=0.4,
        **LIKELIHOOD,
    )
    async with asyncio.timeout(30):  # half of the hang
        result = await judge(Hanging(digits)).score(hung)
    assert components(result) == [None, pytest.approx(0.5)]
    assert (result.details or {})["differences"] == {"turn_1": None, "turn_2": None}


async def test_turns_of_a_likelihood_compare_states_by_one_reference() -> None:
    request = asked(*RUN, turns=True, template="likelihood", reference=["42", "43"])
    with pytest.raises(InvalidRequestError, match="send one"):
        await judge(LikelihoodEngine(digits)).score(request)


async def test_a_mean_without_an_overloaded_turn_says_when_to_retry() -> None:
    def overloaded(prompt: str) -> dict[str, float]:
        if "It is 42." not in prompt:
            raise OverloadedError("the endpoint's rate limit", 20.0)
        return after(prompt)

    request = asked(*RUN, turns=True, template="turn_useful")
    result = await judge(FakeEngine(overloaded)).score(request)
    assert (result.status, (result.details or {})["retry_after_s"]) == (Status.OVERLOADED, 20.0)


async def test_the_states_of_a_conversation_read_its_tools_once() -> None:
    engine, read = FakeEngine(after, max_model_len=16_000), list[str]()
    plain = engine.tokenizer.encode_plain

    def encode_plain(text: str) -> Any:
        read.append(text)
        return plain(text)

    engine.tokenizer.encode_plain = encode_plain
    tools = [{"name": "add", "description": "x" * 5000}]
    result = await judge(engine).score(asked(*RUN * 3, tools=tools, turns=True))
    assert components(result) == pytest.approx([0.2, 0.9, 0.9, 0.9, 0.9, 0.9])
    assert sum("xxx" in text for text in read) == 1
