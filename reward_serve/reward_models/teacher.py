"""Kind ``teacher``: a language model says how probable each token of a sequence is.

A judge with ``teacher: true`` does so too, on the same engine: label requests and log-probabilities
of prompts leave each other's numbers as they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reward_serve.config.models import JudgeModel, TeacherModel
from reward_serve.engines.base import TeacherEngine
from reward_serve.logprobs import (
    MAX_RESULT_BYTES,
    LogprobsRequest,
    LogprobsResult,
    places_of,
    result_bytes,
)
from reward_serve.messages import as_template_turn, with_texts
from reward_serve.off_loop import RENDERED, off_loop
from reward_serve.reward_models.base import InvalidRequestError, Places, RewardModel, Trace
from reward_serve.reward_models.chat import CompletionRequest
from reward_serve.schema import ScoreRequest, ScoreResult, Status


class Teacher(RewardModel):
    """A teacher on one engine, its own or a judge's."""

    def __init__(self, config: TeacherModel | JudgeModel, engine: TeacherEngine) -> None:
        self._has_labels = isinstance(config, JudgeModel)
        self.engine: TeacherEngine = engine
        self.logprobs, self.complete = self._logprobs, self._complete
        self._engine_fields = engine.describe()
        self._fingerprint = ";".join(f"{k}={v}" for k, v in self._engine_fields.items())

    async def score(self, request: ScoreRequest, trace: Trace | None = None) -> ScoreResult:
        """Refuse: a teacher scores tokens, not responses."""
        raise InvalidRequestError(
            "model: is a teacher, which scores tokens; ask /v1/logprobs, or a model of another kind"
        )

    async def _logprobs(self, request: LogprobsRequest, place: Places) -> LogprobsResult:
        ids, start = await self._sequence(request)
        scored = len(ids) - start
        size = result_bytes(scored, request.top_k)
        if size > MAX_RESULT_BYTES:
            raise InvalidRequestError(
                f"top_k: {request.top_k} for {scored} tokens are {size} bytes; the limit is "
                f"{MAX_RESULT_BYTES}, so lower it, or set start"
            )
        async with place(places_of(len(ids), scored, request.top_k)):
            output = await self.engine.prompt_logprobs(ids, start, request.top_k)
        finite = np.isfinite(output.logprobs).all() and not np.isnan(output.top_logprobs).any()
        fields: dict[str, Any] = {"fingerprint": self._fingerprint, "usage": output.usage}
        if not finite:
            reason = "a log-probability is NaN or infinite; check the model's weights and dtype"
            return LogprobsResult(status=Status.ERROR, reason=reason, **fields)
        if request.top_k:
            fields |= {"top_ids": output.top_ids, "top_logprobs": output.top_logprobs}
        mean = float(output.logprobs.mean())
        return LogprobsResult(
            status=Status.OK,
            start=start,
            logprobs=output.logprobs,
            top_k=request.top_k,
            details={"tokens": scored, "mean_logprob": mean},
            **fields,
        )

    async def _sequence(self, request: LogprobsRequest) -> tuple[list[int], int]:
        """The token ids, and the index of the first to score."""
        ids, start = request.token_ids or [], request.start or 1
        if request.messages is not None:
            sizes = sum(turn.size for turn in request.messages) + 32 * len(request.messages)
            prompt = await off_loop(RENDERED * sizes, self._prompt, request)
            ids, start = prompt + (request.response_token_ids or []), len(prompt)
        most = self.engine.max_model_len - 1  # vLLM generates a token
        if len(ids) > most:
            raise InvalidRequestError(
                f"token_ids: {len(ids)} tokens with the prompt; the limit is {most}, "
                "engine.max_model_len less the token that vLLM generates"
            )
        if (highest := max(ids)) >= self.engine.vocabulary:
            raise InvalidRequestError(
                f"token_ids: {highest} is outside the model's vocabulary of "
                f"{self.engine.vocabulary}; send ids of the teacher's own tokenizer"
            )
        if 0 <= self.engine.max_top_k < request.top_k:
            raise InvalidRequestError(
                f"top_k: {request.top_k} is above engine_kwargs.max_logprobs, "
                f"{self.engine.max_top_k}; lower it"
            )
        return ids, start

    def _prompt(self, request: LogprobsRequest) -> list[int]:
        tokenizer, messages = self.engine.tokenizer, request.messages or []
        if any(turn.images for turn in messages):
            raise InvalidRequestError("messages: an image; a teacher reads text, so remove it")
        turns = with_texts([as_template_turn(turn) for turn in messages], tokenizer.defused)
        try:
            return tokenizer.encode_control(tokenizer.chat(turns, enable_thinking=True))
        except Exception as error:  # of the checkpoint's template
            why = f"{type(error).__name__}: {error}"
            raise InvalidRequestError(
                f"messages: this model's chat template does not take them: {why}"
            ) from None

    async def _complete(self, request: CompletionRequest) -> dict[str, Any]:
        if self._has_labels and request.samples_logprobs:
            raise InvalidRequestError(
                "logprobs: of sampled tokens would be mixed up with the judge's labels in vLLM's "
                "sampler; ask for prompt_logprobs, or a model of kind teacher"
            )
        return await self.engine.complete(request.passed_on)

    def describe(self) -> dict[str, Any]:
        """Kind, limits and fingerprint."""
        return {
            "kind": "teacher",
            "engine": self._engine_fields,
            "max_model_len": self.engine.max_model_len,
            "fingerprint": self._fingerprint,
        }
