"""A real rubric reward model on a fake engine, which answers what a criterion's text asks."""

from __future__ import annotations

import json
import re
from typing import Any

from reward_serve.config.models import RemoteModel
from reward_serve.engines.base import LabelOutput, Prompt, Sampling, TextOutput
from reward_serve.reward_models.rubric import RubricJudge
from reward_serve.schema import Usage

_CRITERION = re.compile(r"(?m)^(\w+) \(.*?\): It contains (.+?)(?:, unless (.+))?\.$")


def containing(**texts: str) -> list[dict[str, Any]]:
    """Criteria by name, such as ``"18"``; ``"18, unless 17"`` has no answer where there is a 17."""
    return [{"name": name, "text": f"It contains {text}."} for name, text in texts.items()]


class FakeEngine:
    """Answers criteria of ``containing``, all in one text."""

    tokenizer = None
    max_model_len = 8192

    def describe(self) -> dict[str, str]:
        return {"weights": "fake"}

    async def generate(self, prompt: Prompt, sampling: Sampling) -> TextOutput:
        response, said = prompt.fields["response"], {}
        for name, text, obstacle in _CRITERION.findall(prompt.fields["criterion"]):
            if not obstacle or obstacle not in response:
                said[name] = "yes" if text in response else "no"
        return TextOutput(json.dumps(said), False, Usage())

    async def label_logprobs(self, prompt: Prompt, labels: Any) -> LabelOutput:
        raise NotImplementedError

    async def fatal_error(self) -> str | None:
        return None

    def close(self) -> None: ...


def fake_rubric() -> RubricJudge:
    """A rubric that has a score if one criterion has."""
    fields: dict[str, Any] = {"remote": {"model": "fake"}, "rubric": {"min_answered": 0.01}}
    config = RemoteModel.model_validate({"name": "rubric", "kind": "remote", **fields})
    return RubricJudge(config, FakeEngine())
