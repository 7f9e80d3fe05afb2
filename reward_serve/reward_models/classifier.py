"""Kind ``classifier``: a sequence-classification reward model scores a conversation.

The conversation is ``messages`` followed by the response, or the question followed by it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from reward_serve.config.models import ClassifierModel
from reward_serve.engines.base import ClassifierEngine, LogitsOutput
from reward_serve.explanation import Cut, FieldSpan, ShownPrompt
from reward_serve.judging.conversation import Conversation, ConversationRenderer
from reward_serve.reward_models.base import InvalidRequestError, Verdict
from reward_serve.reward_models.findings import Findings
from reward_serve.reward_models.recording import shown_tokens
from reward_serve.schema import ScoreRequest, Status


class Classifier:
    """A reward model on one engine."""

    def __init__(self, config: ClassifierModel, engine: ClassifierEngine) -> None:
        self._config = config.classifier
        self._engine = engine
        self._renderer = ConversationRenderer(engine.tokenizer, engine.max_model_len)
        self._about = engine.describe()
        key = ";".join(f"{name}={value}" for name, value in self._about.items())
        settings = self._config.model_dump(exclude_none=True)
        told = ";".join(f"{name}={value}" for name, value in settings.items())
        self._fingerprint = f"{key};context={engine.max_model_len};{told}"

    async def score(self, request: ScoreRequest) -> Verdict:
        """The conversation's logit, normalised as the deployment says."""
        rendered = self._rendered(conversation(request))
        return self._verdict(rendered, await self._engine.logits(rendered.token_ids))

    async def explain(self, request: ScoreRequest, findings: Findings) -> Verdict:
        """The same, and the conversation as the model reads it."""
        turns = conversation(request)
        with findings.timed("rendering"):
            rendered = self._rendered(turns)
        findings.prompts.append(lambda: self._shown(request, turns, rendered, findings.tokens))
        with findings.timed("engine"):
            output = await self._engine.logits(rendered.token_ids)
        findings.model, findings.cached = self._verdict(rendered, output), False
        return findings.model

    def _rendered(self, turns: list[dict[str, str]]) -> Conversation:
        try:
            return self._renderer.render(turns)
        except ValueError as error:
            raise InvalidRequestError(str(error)) from None

    def _verdict(self, rendered: Conversation, output: LogitsOutput) -> Verdict:
        details: dict[str, Any] = {"logits": list(output.logits)}
        details |= {"cut_turns": rendered.cut_turns} if rendered.cut_turns else {}
        details |= {"cut_characters": rendered.cut_characters} if rendered.cut_characters else {}
        logit = self._logit(output.logits)
        if not all(map(math.isfinite, output.logits)):
            return Verdict(
                status=Status.ERROR,
                reason="the model gave a logit that is no number; its weights or dtype are broken",
                fingerprint=self._fingerprint,
                usage=output.usage,
            )
        return Verdict(
            score=self._normalised(logit),
            source="classifier",
            details=details,
            fingerprint=self._fingerprint,
            usage=output.usage,
        )

    def _shown(
        self,
        request: ScoreRequest,
        turns: list[dict[str, str]],
        rendered: Conversation,
        tokens: bool,
    ) -> ShownPrompt:
        text, fields, cut = "", [], []
        for part, turn, begin in self._renderer.texts(turns, rendered.shown):
            if turn >= 0:
                place = _place(request, turns, turn)
                fields.append(FieldSpan(**place, start=len(text), end=len(text) + len(part)))
                if rendered.shown[turn]:
                    cut.append(Cut(**place, start=begin - rendered.shown[turn], end=begin))
            text += part
        for turn in sorted(set(range(len(turns))) - set(rendered.shown)):
            place = _place(request, turns, turn)
            cut.append(Cut(**place, start=0, end=len(turns[turn]["content"])))
        ids = rendered.token_ids
        shown = shown_tokens(self._engine.tokenizer, ids) if tokens else None
        return ShownPrompt(
            mode="classify", text=text, fields=fields, cut=cut, token_count=len(ids), tokens=shown
        )

    def describe(self) -> dict[str, Any]:
        """Kind, settings and fingerprint."""
        return {
            "kind": "classifier",
            "engine": self._about,
            **self._config.model_dump(),
            "max_model_len": self._engine.max_model_len,
            "fingerprint": self._fingerprint,
        }

    async def failure(self) -> str | None:
        """Why the engine can serve no more; None while it can."""
        return await self._engine.failure()

    def close(self) -> None:
        """End the engine."""
        self._engine.close()

    def _logit(self, logits: Any) -> float:
        label = self._config.label
        if label is None and len(logits) > 1:
            raise ValueError(
                f"classifier.label: the model has {len(logits)} logits; say which is the reward"
            )
        if (label or 0) >= len(logits):
            raise ValueError(f"classifier.label: {label} where the model has {len(logits)} logits")
        return float(logits[label or 0])

    def _normalised(self, logit: float) -> float:
        if self._config.normalisation == "sigmoid":
            return 0.5 * (1 + math.tanh(logit / 2))
        return self._config.scale * logit + self._config.shift


def _place(request: ScoreRequest, turns: Sequence[Mapping[str, str]], turn: int) -> dict[str, Any]:
    """Which of the request's fields a turn is."""
    if turn == len(turns) - 1:
        return {"field": "response"}
    return {"field": "messages", "turn": turn} if request.messages else {"field": "question"}


def conversation(request: ScoreRequest) -> list[dict[str, str]]:
    """The turns that a request stands for, the response last.

    Raises:
        InvalidRequestError: it has neither messages nor a question, both, or two last answers.
    """
    if bool(request.messages) is bool(request.question):
        raise InvalidRequestError(
            "messages: a classifier scores a conversation; send either messages or a question"
        )
    turns = [{"role": "user", "content": request.question or ""}]
    if request.messages:
        turns = [message.model_dump() for message in request.messages]
        if turns[-1]["role"] == "assistant":
            raise InvalidRequestError(
                "messages: end with an assistant's turn, and the response follows them; leave "
                "that turn out, or send it as the response"
            )
    return [*turns, {"role": "assistant", "content": request.response}]
