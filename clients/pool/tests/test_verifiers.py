"""Judges of verifiers 0.4.0 ask the pool: its own code, with the pool in their configuration."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, Literal

import pytest
import verifiers.v1 as vf
from openai import BadRequestError
from pydantic import BaseModel
from verifiers.v1.judges.reference import ReferenceJudge, ReferenceJudgeConfig
from verifiers.v1.judges.rubric import RubricJudge, RubricJudgeConfig
from verifiers.v1.trace import AgentInfo, Trace, TraceTask

from clients.pool.tests.conftest import KEY

VERDICT = {"enum": ["yes", "no"]}


class Problem(vf.TaskData):
    answer: str


def only(schema: dict[str, Any]) -> dict[str, Any]:
    """The sampling of a judge whose reply must have this schema."""
    wanted = {"name": "verdict", "schema": schema}
    return {"max_tokens": 64, "response_format": {"type": "json_schema", "json_schema": wanted}}


@pytest.fixture
def pool(url: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("POOL_KEY", KEY)
    return {"base_url": url, "api_key_var": "POOL_KEY", "model": "judge"}


@pytest.fixture
def trace() -> Trace:
    task = Problem(prompt="What is 9 + 9?", answer="18")
    agent = AgentInfo(config=vf.AgentConfig())
    return Trace(task=TraceTask(type="Task", data=task), agent=agent, root_reply="It is 18.")


def test_the_reference_judge_scores_a_reply(pool: dict[str, Any], trace: Trace) -> None:
    judge = ReferenceJudge(ReferenceJudgeConfig(**pool, sampling=only(VERDICT)))
    assert asyncio.run(judge.score(trace.task.data, trace)) in (0.0, 1.0)
    (call,) = trace.info["judge_calls"]
    assert call["response"]["usage"]["completion_tokens"] > 0


def test_the_rubric_judge_scores_every_criterion(
    pool: dict[str, Any], trace: Trace, tmp_path: Path
) -> None:
    names = ["number", "polite"]
    rubric = tmp_path / "rubric.json"
    criteria = [{"name": name, "text": f"The response is {name}."} for name in names]
    rubric.write_text(json.dumps({"criteria": criteria}))
    rows = [
        {
            "type": "object",
            "properties": {
                "name": {"enum": [name]},
                "reason": {"type": "string", "maxLength": 40},
                "verdict": VERDICT,
            },
            "required": ["name", "reason", "verdict"],
            "additionalProperties": False,
        }
        for name in names
    ]
    verdicts = {"type": "array", "prefixItems": rows, "items": False, "minItems": 2}
    reply = {"type": "object", "properties": {"verdicts": verdicts}, "required": ["verdicts"]}
    sampling = only({**reply, "additionalProperties": False}) | {"max_tokens": 200}
    config = RubricJudgeConfig(**pool, path=rubric, view="last_reply", sampling=sampling)
    assert asyncio.run(RubricJudge(config).score(trace.task.data, trace)) in (0.0, 0.5, 1.0)
    assert set(trace.metrics) == {"rubric/number", "rubric/polite"}


class Verdict(BaseModel):
    verdict: Literal["yes", "no"]


class OwnJudge(vf.Judge[Verdict]):
    prompt = "Question: {question}\nAnswer: {answer}\nResponse: {response}\nCorrect?"
    schema = Verdict


def test_a_judge_with_a_schema_of_its_own_parses_the_reply(pool: dict[str, Any]) -> None:
    fields = {"question": "9 + 9?", "answer": "18", "response": "18"}
    result = asyncio.run(OwnJudge(vf.JudgeConfig(**pool)).evaluate(**fields))
    assert result.parsed.verdict in ("yes", "no")


def test_sampling_of_vllm_is_passed_on_and_what_cannot_be_had_is_named(
    pool: dict[str, Any],
) -> None:
    sampling = {"top_k": 1, "repetition_penalty": 1.1, "max_tokens": 4, "stop": ["."]}
    judge = vf.Judge(vf.JudgeConfig(**pool, sampling=sampling))
    assert 0 < asyncio.run(judge.complete("Say a word.")).usage.completion_tokens <= 4
    with pytest.raises(BadRequestError, match="logprobs: is not supported; remove it"):
        asyncio.run(judge.complete("Say a word.", logprobs=True))
