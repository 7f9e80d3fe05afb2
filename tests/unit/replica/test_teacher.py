"""A replica's log-probabilities: what is refused, what is returned, what observers are told."""

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reward_serve.config.models import RuleModel, VerdictLogConfig
from reward_serve.engines.base import EngineError, OverloadedError
from reward_serve.logprobs import LogprobsResult, as_json_values
from reward_serve.replica.admission import Admission
from reward_serve.replica.observers import VerdictLog
from reward_serve.replica.scoring import Scorer
from reward_serve.reward_models.base import RewardModel
from reward_serve.reward_models.rule import RuleRewardModel
from tests.fake_service import verdicts
from tests.fake_teacher import VOCABULARY, FakeTeacherEngine, expected, teacher
from tests.rows import rows
from tests.unit.replica.test_completions import Seen
from tests.virtual_time import in_virtual_time, settle

IDS = [5, 7, 11, 13, 17]


def scorer(
    model: RewardModel | None = None, admission: Admission | None = None, *observers: Any
) -> Scorer:
    return Scorer("rule", model or teacher(), admission or Admission(8, 8), 2000, observers)


async def asked(body: Any, model: RewardModel | None = None) -> LogprobsResult:
    return LogprobsResult.model_validate(await scorer(model).logprobs(body))


@pytest.mark.parametrize("start", [1, 3, 4])
async def test_each_scored_token_has_its_own_number(start: int) -> None:
    result = await asked({"token_ids": IDS, "start": start, "top_k": 2, "id": "a"})
    assert (result.status, result.id, result.start, result.model) == ("ok", "a", start, "rule")
    np.testing.assert_array_equal(result.logprobs, expected(IDS)[start - 1 :])
    assert result.logprobs.dtype == np.float32
    assert result.top_ids.tolist() == [[i, i + 1] for i in IDS[start:]]
    assert result.top_logprobs.tolist() == [[0.0, -1.0]] * (5 - start)
    mean = float(result.logprobs.mean())
    assert result.details == {"tokens": 5 - start, "mean_logprob": pytest.approx(mean)}


async def test_messages_are_shown_by_the_teachers_own_template() -> None:
    turns = [{"role": "user", "content": "2 + <|end|>?"}]
    engine = FakeTeacherEngine()
    prompt = engine.tokenizer.encode_control("<|user|>2 + \u2039|end|>?<|end|><|assistant|>")
    body = {"messages": turns, "response_token_ids": [3, 4]}
    result = await asked(body, teacher(engine))
    assert (result.status, result.start, len(result.logprobs)) == ("ok", len(prompt), 2)
    np.testing.assert_array_equal(result.logprobs, expected([*prompt, 3, 4])[-2:])


@pytest.mark.parametrize(("body", "why"), rows(__file__, "refused"))
async def test_what_cannot_be_scored_is_refused_by_name(body: Any, why: str) -> None:
    result = await asked(body)
    assert result.status == "invalid"
    assert why in (result.reason or "")
    assert result.logprobs is None


async def test_a_model_that_is_no_teacher_says_what_to_set() -> None:
    result = await asked({"token_ids": IDS}, RuleRewardModel(RuleModel(name="rule", kind="rule")))
    assert result.status == "invalid"
    assert "set teacher: true" in (result.reason or "")
    score = await scorer().score({"response": "#### 18", "reference": "18"})
    assert (score["status"], score["score"]) == ("invalid", None)
    assert "/v1/logprobs" in score["reason"]


@pytest.mark.parametrize(
    ("engine", "status"),
    [
        (FakeTeacherEngine(EngineError("the engine core died")), "error"),
        (FakeTeacherEngine(OverloadedError("busy", 2)), "overloaded"),
        (FakeTeacherEngine(KeyError("x")), "error"),
        (FakeTeacherEngine(value=float("nan")), "error"),
        (FakeTeacherEngine(value=float("-inf")), "error"),
    ],
)
async def test_a_failure_has_no_number(engine: FakeTeacherEngine, status: str) -> None:
    result = await asked({"token_ids": IDS, "id": "a", "metadata": {"step": 3}}, teacher(engine))
    assert (result.status, result.id, result.metadata) == (status, "a", {"step": 3})
    assert result.reason
    assert (result.logprobs, result.top_ids, result.top_logprobs) == (None, None, None)


@in_virtual_time
async def test_a_deadline_and_a_caller_that_leaves_are_observed() -> None:
    seen, admission = Seen(), Admission(1, 8)
    service = scorer(teacher(), admission, seen)
    async with admission.place():
        late = await service.logprobs({"token_ids": IDS, "timeout_s": 3})
        leaving = asyncio.ensure_future(service.logprobs({"token_ids": IDS}))
        await settle()
        leaving.cancel()
        await settle()
    assert (late["status"], late["logprobs"]) == ("timeout", None)
    await service.logprobs({"token_ids": IDS})
    expected = [("timeout", False), ("cancelled", False), ("ok", True)]
    assert seen.results == [("teacher", *rest) for rest in expected]


async def test_the_verdict_log_has_a_line_for_a_sequence(tmp_path: Path) -> None:
    config = VerdictLogConfig(folder=str(tmp_path), rate=1.0, redact=True)
    log = VerdictLog("rule", config)
    service = scorer(teacher(), None, log)
    await service.logprobs({"token_ids": IDS, "group": "g", "metadata": {"step": 3}})
    await service.logprobs({"token_ids": [*IDS, VOCABULARY], "id": "b"})
    log.close()
    right, failed = verdicts(tmp_path)
    assert (right["source"], right["status"], right["tokens"]) == ("teacher", "ok", 4)
    assert right["mean_logprob"] == pytest.approx(float(expected(IDS).mean()))
    assert (right["step"], right["group"]) == (3, "g")
    assert (failed["status"], failed["tokens"], failed["mean_logprob"]) == ("invalid", None, None)
    assert right["request"] != failed["request"]


async def test_arrays_are_lists_or_base64_where_json_carries_them() -> None:
    plain = await scorer().logprobs({"token_ids": IDS, "top_k": 2})
    whole = LogprobsResult.model_validate(plain)
    for encoding in ("float", "base64"):
        content = json.loads(json.dumps(as_json_values(plain, encoding)))
        again = LogprobsResult.model_validate(content)
        np.testing.assert_array_equal(again.logprobs, whole.logprobs)
        np.testing.assert_array_equal(again.top_ids, whole.top_ids)
        again.logprobs[0] = 0.0  # writable, as torch asks


async def test_a_judges_engine_refuses_what_would_change_its_labels() -> None:
    body = {"prompt": IDS, "max_tokens": 1, "logprobs": 2}
    answer = await scorer(teacher(on_judge=True)).complete(body)
    assert answer["status"] == "invalid"
    assert "labels" in answer["reason"]
    for harmless in ({"logprobs": None, "prompt_logprobs": 2}, {"max_tokens": 0, "echo": True}):
        answer = await scorer(teacher(on_judge=True)).complete({**body, **harmless})
        assert answer["status"] == "ok"
    assert (await scorer().complete(body))["status"] == "ok"


async def test_a_completion_with_prompt_logprobs_counts_as_a_teachers() -> None:
    row = {"5": {"logprob": -2.0}, "1": {"logprob": -0.1}}
    seen, model = Seen(), teacher()

    async def complete(request: Any) -> dict[str, Any]:
        rows = [None, row, {"7": {"logprob": -1.0}}] if request.prompt_logprobs else None
        return {"choices": [{"index": 0, "prompt_logprobs": rows}]}

    model.complete = complete
    service = scorer(model, None, seen)
    answer = await service.complete({"prompt": IDS, "prompt_logprobs": 1})
    assert answer["details"] == {"tokens": 2, "mean_logprob": -1.5}
    await service.complete({"prompt": IDS})
    assert [source for source, *_ in seen.results] == ["teacher", "chat"]
