import math
from collections.abc import Sequence
from typing import Any

import pytest

from reward_serve.config.models import ClassifierModel
from reward_serve.engines.base import FrozenModel, LogitsOutput
from reward_serve.reward_models.base import InvalidRequestError, Trace
from reward_serve.reward_models.classifier import Classifier, conversation
from reward_serve.schema import ScoreRequest, Status, Usage
from tests.unit.prompts.test_conversation import SPECIAL, FakeTokenizer, text_of


class FakeEngine(FrozenModel):
    """Gives the logits it was made with, and keeps what it was asked."""

    max_model_len = 65
    scores_steps = False

    def __init__(self, *logits: float) -> None:
        self.tokenizer = FakeTokenizer()
        self.asked: list[str] = []
        self._logits = logits

    def describe(self) -> dict[str, str]:
        return {"weights": "w", "dtype": "float32"}

    async def logits(self, token_ids: Sequence[int], tag: int | None = None) -> LogitsOutput:
        self.asked.append(text_of(list(token_ids)))
        return LogitsOutput(self._logits, Usage(prompt_tokens=len(token_ids)))


def classifier(engine: FakeEngine, **settings: Any) -> Classifier:
    model = {"name": "r", "kind": "classifier", "engine": {"model": "org/reward"}}
    return Classifier(ClassifierModel.model_validate({**model, "classifier": settings}), engine)


ASKED = ScoreRequest(question="2 + 3?", response="It is 5.")
STEPS = ScoreRequest(question="2+3?", response="\n2 + 3\n\n \nis <extra_0>5.\n\nSo 5")
RIGHT = [0.0, math.log(3), 1.0, 1.0, 0.0, math.log(4)]  # 0.75, 0.5, 0.8


def process_reward_model(*logits: float, steps: str = "min") -> tuple[FakeEngine, Classifier]:
    engine = FakeEngine(*logits)
    engine.scores_steps = True
    return engine, classifier(engine, steps=steps)


async def test_a_conversation_is_shown_and_its_logit_is_the_reward() -> None:
    engine = FakeEngine(-3.25)
    verdict = await classifier(engine).score(ASKED)
    assert (verdict.score, verdict.source, verdict.status) == (-3.25, "classifier", Status.OK)
    assert (verdict.details, verdict.usage.prompt_tokens) == ({"logits": [-3.25]}, 18)
    assert engine.asked == ["<|user|>2 + 3?<|end|><|assistant|>It is 5.<|end|>"]


@pytest.mark.parametrize(
    ("logits", "settings", "score"),
    [
        ([2.0], {"normalisation": "sigmoid"}, 1 / (1 + math.exp(-2.0))),
        ([-1e4], {"normalisation": "sigmoid"}, 0.0),
        ([2.0], {"normalisation": "affine", "scale": 0.5, "shift": 1.0}, 2.0),
        ([1.0, 7.0], {"label": 1}, 7.0),
        ([math.nan], {}, None),
        ([math.inf], {"normalisation": "sigmoid"}, None),
    ],
)
async def test_the_deployment_chooses_and_normalises_the_logit_and_one_that_is_no_number_is_none(
    logits: list[float], settings: dict[str, Any], score: float | None
) -> None:
    verdict = await classifier(FakeEngine(*logits), **settings).score(ASKED)
    assert verdict.score == (None if score is None else pytest.approx(score))
    assert verdict.status is (Status.ERROR if score is None else Status.OK)


@pytest.mark.parametrize("settings", [{}, {"label": 2}])
async def test_among_several_logits_the_deployment_must_choose(settings: Any) -> None:
    with pytest.raises(ValueError, match=r"classifier\.label: "):
        await classifier(FakeEngine(1.0, 7.0), **settings).score(ASKED)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"question": "q", "messages": [{"role": "user", "content": "u"}]},
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
    ],
)
def test_what_is_no_conversation_is_refused_by_name(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError, match="messages: "):
        conversation(ScoreRequest.model_validate({"response": "r", **fields}))


async def test_each_turn_is_scored_in_its_state_and_each_state_extends_the_last() -> None:
    engine, trace = FakeEngine(1.5), Trace()
    turns = [
        {"role": "developer", "content": "Add."},
        {"role": "user", "content": "2 + 3?"},
        {"role": "assistant", "tool_calls": [{"name": "add", "arguments": ""}]},
        {"role": "tool", "content": "5"},
        {"role": "assistant", "content": "It is 5."},
    ]
    request = {"messages": turns, "tools": [{"name": "add"}], "turns": True}
    verdict = await classifier(engine).score(ScoreRequest.model_validate(request), trace)
    parts = verdict.components or {}
    assert {name: part.score for name, part in parts.items()} == {"turn_1": 1.5, "turn_2": 1.5}
    state = (
        "[add]<|system|>Add.<|end|><|user|>2 + 3?<|end|><|assistant|>(add)<|end|><|tool|>5<|end|>"
    )
    whole = f"{state}<|assistant|>It is 5.<|end|>"
    assert sorted(engine.asked) == sorted([state, whole])
    (prompt,) = [render() for render in trace.prompts]
    assert (prompt.text, prompt.cut) == (whole, [])
    seen = [(field.field, field.turn, whole[field.start : field.end]) for field in prompt.fields]
    expected = [(0, "Add."), (1, "2 + 3?"), (3, "5"), (4, "It is 5.")]
    assert seen == [("messages", *turn) for turn in expected]


async def test_the_fingerprint_holds_what_a_score_depends_on() -> None:
    fingerprints = {
        classifier(FakeEngine(1.0), **settings).describe()["fingerprint"]
        for settings in ({}, {"normalisation": "sigmoid"}, {"label": 0})
    }
    assert len(fingerprints) == 3
    assert all(text.startswith("weights=w;dtype=float32;context=65;") for text in fingerprints)


async def test_what_a_classifier_does_not_see_is_shown_by_field_and_turn() -> None:
    messages = [
        {"role": "user", "content": "old " * 10},
        {"role": "assistant", "content": "older"},
        {"role": "user", "content": "last?"},
    ]
    asked = ScoreRequest.model_validate({"messages": messages, "response": "y" * 100})
    engine, trace = FakeEngine(1.0), Trace()
    verdict = await classifier(engine).score(asked, trace)
    (prompt,) = [render() for render in trace.prompts]
    cuts = {(cut.field, cut.turn): (cut.start, cut.end) for cut in prompt.cut}

    assert (verdict.details or {})["cut_characters"] == 45
    assert prompt.text == engine.asked[0]
    assert cuts == {("messages", 0): (0, 40), ("messages", 1): (0, 5), ("response", None): (0, 45)}
    assert [(field.field, field.turn) for field in prompt.fields] == [
        ("messages", 2),
        ("response", None),
    ]


@pytest.mark.parametrize(
    ("aggregate", "score"), [("min", 0.5), ("mean", 2.05 / 3), ("product", 0.3), ("last", 0.8)]
)
async def test_a_process_reward_model_scores_each_step(aggregate: str, score: float) -> None:
    engine, model = process_reward_model(*RIGHT, steps=aggregate)
    trace = Trace()
    verdict = await model.score(STEPS, trace)
    parts = {name: part.score for name, part in (verdict.components or {}).items()}
    assert engine.asked == [
        "<|user|>2+3?<|end|><|assistant|>2 + 3{t}is {t}5.{t}So 5{t}<|end|>".format(t="<extra_0>")
    ]
    assert parts == {"step_1": pytest.approx(0.75), "step_2": 0.5, "step_3": pytest.approx(0.8)}
    assert verdict.score == pytest.approx(score)
    assert len(trace.prompts) == 1


async def test_a_step_without_a_number_leaves_no_score() -> None:
    _, model = process_reward_model(0.0, 1.0, math.nan, 1.0, 0.0, 1.0)
    verdict = await model.score(STEPS)
    assert (verdict.score, verdict.components, verdict.status) == (None, None, Status.ERROR)


ADDED = [
    {"role": "user", "content": "2 + 3?"},
    {"role": "assistant", "tool_calls": [{"name": "add", "arguments": ""}]},
]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"response": "a" * 80}, "response: with its conversation it has 86 tokens"),
        ({"tools": [{"name": "add"}], "response": "5"}, "messages: .* leave turns and tools out"),
        ({"messages": [*ADDED, {"role": "tool", "content": "5"}]}, "messages: .* end with that"),
    ],
)
async def test_what_has_no_steps_to_score_is_refused(fields: dict[str, Any], message: str) -> None:
    _, model = process_reward_model(*RIGHT)
    with pytest.raises(InvalidRequestError, match=message):
        asked = {} if "messages" in fields else {"question": "?"}
        await model.score(ScoreRequest.model_validate({**asked, **fields}))


def test_steps_are_process_reward_models_with_a_token_tag(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"classifier\.steps: .* scores whole responses"):
        classifier(FakeEngine(1.0), steps="min")
    engine, _ = process_reward_model()
    with pytest.raises(ValueError, match=r"classifier\.steps: .* steps, by <extra_0>"):
        classifier(engine)
    monkeypatch.delitem(SPECIAL, "<extra_0>")
    with pytest.raises(ValueError, match=r"classifier\.steps: .* by <extra_0>"):
        process_reward_model()
    with pytest.raises(ValueError, match=r"steps: .* remove normalisation and label"):
        classifier(engine, steps="min", label=1)


async def test_a_step_that_the_engine_left_out_is_a_fault_and_no_score() -> None:
    _, model = process_reward_model(*RIGHT[:4])
    with pytest.raises(ValueError, match="another number of steps"):
        await model.score(STEPS)
