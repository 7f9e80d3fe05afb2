"""A teacher whose numbers say what it was asked."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from reward_serve.config.models import JudgeModel, TeacherModel
from reward_serve.engines.base import FrozenModel, LogprobsOutput
from reward_serve.reward_models.teacher import Teacher
from reward_serve.schema import Usage
from tests.unit.prompts.test_conversation import FakeTokenizer

VOCABULARY = 1000


class FakeTeacherEngine(FrozenModel):
    """A token's log-probability is minus its id, and less by a tenth of the one before."""

    max_model_len = 65
    max_top_k = 256
    vocabulary = VOCABULARY

    def __init__(self, fault: Exception | None = None, value: float | None = None) -> None:
        self.tokenizer = FakeTokenizer()
        self.completed: list[Mapping[str, Any]] = []
        self._fault, self._value = fault, value

    def describe(self) -> dict[str, str]:
        return {"weights": "w", "dtype": "float32"}

    async def prompt_logprobs(
        self, token_ids: Sequence[int], start: int, top_k: int
    ) -> LogprobsOutput:
        if self._fault:
            raise self._fault
        ids = np.array(token_ids, "<i4")
        values = expected(token_ids)[start - 1 :]
        if self._value is not None:
            values[-1] = self._value
        top_ids = np.arange(top_k, dtype="<i4") + ids[start:, None]
        top = -np.arange(top_k, dtype="<f4") + np.zeros((len(values), 1), "<f4")
        return LogprobsOutput(values, top_ids, top, Usage(prompt_tokens=len(ids)))

    async def complete(self, body: Mapping[str, Any]) -> dict[str, Any]:
        self.completed.append(body)
        prompt = body["prompt"]
        tokens = len(prompt)
        usage = {"prompt_tokens": tokens, "completion_tokens": 1, "total_tokens": tokens + 1}
        choice = {"index": 0, "text": "x", "prompt_logprobs": [None] + [prompt[0]] * (tokens - 1)}
        choice |= {"finish_reason": "length", "token_ids": [0]}
        about = {"id": "cmpl-1", "object": "text_completion", "created": 0, "usage": usage}
        return {**about, "choices": [choice]}


def expected(token_ids: Sequence[int]) -> Any:
    """The fake's log-probability of each token but the first."""
    ids = np.array(token_ids, "<f4")
    return (-ids[1:] - ids[:-1] / 10).astype("<f4")


def teacher(engine: FakeTeacherEngine | None = None, *, on_judge: bool = False) -> Teacher:
    """A teacher of its own, or one on a judge's engine."""
    fields = {"name": "rule", "engine": {"model": "org/model", "device": "cpu"}}
    if on_judge:
        config: Any = JudgeModel.model_validate({**fields, "kind": "judge", "teacher": True})
    else:
        config = TeacherModel.model_validate({**fields, "kind": "teacher"})
    return Teacher(config, engine or FakeTeacherEngine())
