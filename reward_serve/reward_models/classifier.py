"""Kind ``classifier``: a sequence-classification reward model scores a conversation.

The conversation is ``messages`` followed by the response, or the question followed by it.
"""

from __future__ import annotations

import math
from typing import Any

from reward_serve.config.models import ClassifierModel
from reward_serve.engines.base import ClassifierEngine
from reward_serve.judging.conversation import ConversationRenderer
from reward_serve.reward_models.base import InvalidRequestError, Verdict
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
        turns = conversation(request)
        try:
            rendered = self._renderer.render(turns)
        except ValueError as error:
            raise InvalidRequestError(str(error)) from None
        output = await self._engine.logits(rendered.token_ids)
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
