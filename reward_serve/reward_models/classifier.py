"""Kind ``classifier``: a sequence-classification reward model scores a conversation.

The conversation consists of ``messages``, or of the question, followed by the response if there is
one. The model's own chat template shows it, with its tools.

A process reward model gives, at a token after each step of the response, the probability that the
step is right (Zhang et al., 2025, arXiv:2501.07301).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any

from reward_serve.config.models import ClassifierModel
from reward_serve.engines.base import ClassifierEngine, LogitsOutput
from reward_serve.explanation import Cut, FieldSpan, ShownPrompt
from reward_serve.messages import as_template_turn
from reward_serve.off_loop import RENDERED, off_loop
from reward_serve.prompts.conversation import Conversation, ConversationRenderer
from reward_serve.reward_models.base import InvalidRequestError, RewardModel, Trace, timed
from reward_serve.reward_models.turns import scored_states, with_turns
from reward_serve.schema import Component, ScoreRequest, ScoreResult, Status, failure

_TAG = "<extra_0>"
_BLANK_LINES = re.compile(r"\n\s*\n")
_AGGREGATES: Mapping[str, Callable[[Sequence[float]], float]] = {
    "min": min,
    "mean": fmean,
    "product": math.prod,
    "last": lambda steps: steps[-1],
}


class Classifier(RewardModel):
    """A reward model; raises ``ValueError`` if ``classifier.steps`` does not fit the engine's."""

    scores_turns = True

    def __init__(self, config: ClassifierModel, engine: ClassifierEngine) -> None:
        self._config = config.classifier
        self.reads_rubric = config.reads_rubric
        self.engine: ClassifierEngine = engine
        # vLLM's scheduler reserves a place for a generated token: a prompt that fills the whole
        # context and takes more than one step never finishes.
        self._renderer = ConversationRenderer(engine.tokenizer, engine.max_model_len - 1)
        self._about = engine.describe()
        key = ";".join(f"{name}={value}" for name, value in self._about.items())
        settings = self._config.model_dump(exclude_none=True)
        suffix = ";".join(f"{name}={value}" for name, value in settings.items())
        self._fingerprint = f"{key};context={engine.max_model_len};{suffix}"
        self._tag = engine.tokenizer.encode_control(_TAG) if self._config.steps else []
        if bool(self._tag) is not engine.scores_steps or len(self._tag) > 1:
            scores = f"steps, by {_TAG}" if engine.scores_steps else "whole responses"
            raise ValueError(f"classifier.steps: this model scores {scores}")

    async def score(self, request: ScoreRequest, trace: Trace | None = None) -> ScoreResult:
        """The conversation's logit, normalised as configured."""
        if request.turns:
            return with_turns(await scored_states(request, self._score, trace))
        return await self._score(request, trace)

    async def _score(self, request: ScoreRequest, trace: Trace | None = None) -> ScoreResult:
        turns = conversation(request)
        steps = self._steps(request, turns) if self._config.steps else []
        render = partial(self._renderer.render, turns, request.tools)
        if steps:
            render = partial(self._renderer.render_steps, turns, steps, *self._tag)
        cost = RENDERED * (sum(request.sizes.values()) + 32 * len(turns))
        try:
            with timed(trace, "rendering"):
                rendered = await off_loop(cost, render)
        except ValueError as error:
            raise InvalidRequestError(str(error)) from None
        except RecursionError:
            raise InvalidRequestError("messages or tools: are nested too deeply") from None
        if trace is not None:
            trace.prompts.append(partial(self._shown, request, turns, rendered))
        with timed(trace, "engine"):
            output = await self.engine.logits(rendered.token_ids, *self._tag)
        result = self._result(turns, rendered, output)
        if trace is not None:
            trace.model, trace.cached = result, False
        return result

    def _steps(self, request: ScoreRequest, turns: Sequence[Mapping[str, Any]]) -> list[str]:
        last = turns[-1]
        if request.turns or request.tools or last["role"] != "assistant" or "tool_calls" in last:
            raise InvalidRequestError(
                "messages: this model scores the steps of a last turn of the assistant, without "
                "tools; leave turns and tools out, and end with that turn or send response"
            )
        if not (text := last["content"].strip()):
            raise InvalidRequestError("response: is blank, and has no step to score; send its text")
        return [step.strip() for step in _BLANK_LINES.split(text)]

    def _result(
        self, turns: Sequence[object], rendered: Conversation, output: LogitsOutput
    ) -> ScoreResult:
        cut_turns, cut_characters = len(turns) - len(rendered.shown), sum(rendered.shown.values())
        details: dict[str, Any] = {"logits": list(output.logits)}
        details |= {"cut_turns": cut_turns} if cut_turns else {}
        details |= {"cut_characters": cut_characters} if cut_characters else {}
        fields: dict[str, Any] = {"fingerprint": self._fingerprint, "usage": output.usage}
        if not all(map(math.isfinite, output.logits)):
            reason = "the model's logit is NaN or infinite; check its weights and dtype"
            return failure(Status.ERROR, reason, **fields)
        if self._config.steps:
            pairs = zip(output.logits[::2], output.logits[1::2], strict=True)
            if len(output.logits) != 2 * rendered.token_ids.count(*self._tag):
                raise ValueError("the engine returned another number of steps than it was sent")
            right = [0.5 * (1 + math.tanh((yes - no) / 2)) for no, yes in pairs]
            score = _AGGREGATES[self._config.steps](right)
            parts = {
                f"step_{n}": Component(score=p, status=Status.OK) for n, p in enumerate(right, 1)
            }
            fields |= {"components": parts}
        else:
            score = self._normalised(output.logits)
        return ScoreResult(
            status=Status.OK, score=score, source="classifier", details=details, **fields
        )

    def _shown(
        self, request: ScoreRequest, turns: list[dict[str, Any]], rendered: Conversation
    ) -> ShownPrompt:
        text, fields, cut = "", [], []
        for part, place in self._renderer.texts(turns, rendered.shown, request.tools):
            if place is not None:
                span = {"start": len(text), "end": len(text) + len(part)}
                fields.append(FieldSpan(**_place(request, turns, place), **span))
            text += part
        for number, as_shown in enumerate(self._renderer.contents(turns)):
            size = len(turns[number]["content"])
            if end := min(rendered.shown.get(number, size), size):
                exact = end == size or as_shown == turns[number]["content"]
                cut.append(Cut(**_place(request, turns, number), start=0, end=end, exact=exact))
        count = len(rendered.token_ids)
        return ShownPrompt(mode="classify", text=text, fields=fields, cut=cut, token_count=count)

    def describe(self) -> dict[str, Any]:
        """Kind, settings and fingerprint."""
        return {
            "kind": "classifier",
            "engine": self._about,
            **self._config.model_dump(),
            "max_model_len": self.engine.max_model_len,
            "fingerprint": self._fingerprint,
        }

    def _normalised(self, logits: Sequence[float]) -> float:
        label, count = self._config.label, len(logits)
        if (label or 0) >= count or (label is None and count > 1):
            raise ValueError(
                f"classifier.label: the model has {count} logits, and {label} is not the index of "
                "one; set the reward's"
            )
        logit = logits[label or 0]
        if self._config.normalisation == "sigmoid":
            return 0.5 * (1 + math.tanh(logit / 2))
        return self._config.scale * logit + self._config.shift


def _place(request: ScoreRequest, turns: Sequence[object], turn: int) -> dict[str, Any]:
    """The field of the request that a turn comes from."""
    if turn == len(turns) - 1 and request.response is not None:
        return {"field": "response"}
    return {"field": "messages", "turn": turn} if request.messages else {"field": "question"}


def conversation(request: ScoreRequest) -> list[dict[str, Any]]:
    """The turns of a request with messages or a question as a chat template takes them."""
    if bool(request.messages) is bool(request.question):
        raise InvalidRequestError(
            "messages: a classifier scores a conversation; send messages or a question, not both"
        )
    if any(turn.images for turn in request.conversation):
        raise InvalidRequestError("messages: an image; a classifier reads text, so remove it")
    return [as_template_turn(turn) for turn in request.conversation]
