from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from reward_serve.config.models import ClassifierModel
from reward_serve.engines.base import EngineError, LogitsOutput
from reward_serve.replica.admission import Admission
from reward_serve.replica.scoring import Scorer
from reward_serve.reward_models.base import InvalidRequestError, Trace
from reward_serve.reward_models.classifier import Classifier, conversation
from reward_serve.schema import ScoreRequest, Status, Usage
from tests.unit.judging.test_conversation import FakeTokenizer, text_of


class FakeEngine:
    """Gives the logits it was made with, and keeps what it was asked."""

    max_model_len = 65

    def __init__(self, *logits: float) -> None:
        self.tokenizer = FakeTokenizer()
        self.asked: list[str] = []
        self.broken = False
        self.closed = False
        self._logits = logits

    def describe(self) -> dict[str, str]:
        return {"weights": "w", "dtype": "float32"}

    async def logits(self, token_ids: Sequence[int]) -> LogitsOutput:
        if self.broken:
            raise EngineError("the engine is gone")
        self.asked.append(text_of(list(token_ids)))
        return LogitsOutput(self._logits, Usage(prompt_tokens=len(token_ids)))

    async def fatal_error(self) -> str | None:
        return "gone" if self.broken else None

    def close(self) -> None:
        self.closed = True


def classifier(engine: FakeEngine, **settings: Any) -> Classifier:
    model = {"name": "r", "kind": "classifier", "engine": {"model": "org/reward"}}
    return Classifier(ClassifierModel.model_validate({**model, "classifier": settings}), engine)


ASKED = ScoreRequest(question="2 + 3?", response="It is 5.")


async def test_the_logit_is_the_reward() -> None:
    engine = FakeEngine(-3.25)
    verdict = await classifier(engine).score(ASKED)

    assert (verdict.score, verdict.source, verdict.status) == (-3.25, "classifier", Status.OK)
    assert verdict.details == {"logits": [-3.25]}
    assert verdict.usage.prompt_tokens == 18
    assert engine.asked == ["<|user|>2 + 3?<|end|><|assistant|>It is 5.<|end|>"]


@pytest.mark.parametrize(
    ("settings", "score"),
    [
        ({"normalisation": "sigmoid"}, 1 / (1 + math.exp(-2.0))),
        ({"normalisation": "affine", "scale": 0.5, "shift": 1.0}, 2.0),
    ],
)
async def test_it_is_normalised_as_the_deployment_says(
    settings: dict[str, Any], score: float
) -> None:
    verdict = await classifier(FakeEngine(2.0), **settings).score(ASKED)
    assert verdict.score == pytest.approx(score)


@pytest.mark.parametrize("logit", [-1e4, 1e4])
async def test_a_sigmoid_of_any_logit_is_a_number(logit: float) -> None:
    verdict = await classifier(FakeEngine(logit), normalisation="sigmoid").score(ASKED)
    assert verdict.score in (0.0, 1.0)


async def test_the_deployment_chooses_among_several_logits() -> None:
    assert (await classifier(FakeEngine(1.0, 7.0), label=1).score(ASKED)).score == 7.0
    for settings in ({}, {"label": 2}):
        with pytest.raises(ValueError, match=r"classifier\.label: "):
            await classifier(FakeEngine(1.0, 7.0), **settings).score(ASKED)


@pytest.mark.parametrize("logit", [math.nan, math.inf])
async def test_a_logit_that_is_no_number_is_an_error(logit: float) -> None:
    verdict = await classifier(FakeEngine(logit)).score(ASKED)
    assert (verdict.status, verdict.score) == (Status.ERROR, None)


async def test_what_was_cut_is_reported() -> None:
    verdict = await classifier(FakeEngine(1.0)).score(
        ScoreRequest(question="2 + 3?", response="x" * 100)
    )
    assert verdict.details is not None
    assert verdict.details["cut_characters"] == 46


def test_messages_come_before_the_response() -> None:
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    asked = ScoreRequest.model_validate({"messages": messages, "response": "r"})
    assert conversation(asked) == [*messages, {"role": "assistant", "content": "r"}]


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({}, id="neither"),
        pytest.param({"question": "q", "messages": [{"role": "user", "content": "u"}]}, id="both"),
        pytest.param({"messages": [{"role": "assistant", "content": "a"}]}, id="two answers"),
    ],
)
def test_what_is_no_conversation_is_refused_by_name(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError, match="messages: "):
        conversation(ScoreRequest.model_validate({"response": "r", **fields}))


async def test_an_engine_that_fails_is_an_error_without_a_score() -> None:
    engine = FakeEngine(1.0)
    model = classifier(engine)
    engine.broken = True
    result = await Scorer("r", model, Admission(1, 1)).score(ASKED.model_dump())
    assert (result["status"], result["score"]) == ("error", None)
    assert await model.fatal_error() == "gone"
    model.close()
    assert engine.closed


async def test_the_fingerprint_holds_what_a_score_depends_on() -> None:
    fingerprints = {
        classifier(FakeEngine(1.0), **settings).describe()["fingerprint"]
        for settings in ({}, {"normalisation": "sigmoid"}, {"label": 0})
    }
    assert len(fingerprints) == 3
    assert all(one.startswith("weights=w;dtype=float32;context=65;") for one in fingerprints)


async def test_the_conversation_that_is_shown_is_the_one_that_the_model_read() -> None:
    engine, trace = FakeEngine(1.0), Trace()
    verdict = await classifier(engine).score(ASKED, trace)
    (prompt,) = [shown() for shown in trace.prompts]

    assert (verdict.score, trace.model, trace.cached) == (1.0, verdict, False)
    assert prompt.text == engine.asked[0]
    assert (prompt.mode, prompt.token_count) == ("classify", 18)
    places = {each.field: prompt.text[each.start : each.end] for each in prompt.fields}
    assert places == {"question": "2 + 3?", "response": "It is 5."}
    assert set(trace.seconds) == {"rendering", "engine"}


async def test_what_a_classifier_does_not_see_is_shown_by_field_and_turn() -> None:
    messages = [
        {"role": "user", "content": "old " * 10},
        {"role": "assistant", "content": "older"},
        {"role": "user", "content": "last?"},
    ]
    asked = ScoreRequest.model_validate({"messages": messages, "response": "y" * 100})
    engine, trace = FakeEngine(1.0), Trace()
    await classifier(engine).score(asked, trace)
    (prompt,) = [shown() for shown in trace.prompts]
    cuts = {(cut.field, cut.turn): (cut.start, cut.end) for cut in prompt.cut}

    assert prompt.text == engine.asked[0]
    assert cuts == {("messages", 0): (0, 40), ("messages", 1): (0, 5), ("response", None): (0, 45)}
    assert [(each.field, each.turn) for each in prompt.fields] == [
        ("messages", 2),
        ("response", None),
    ]
