from __future__ import annotations

import asyncio
import inspect
import math
import sys
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from reward_serve.client import ScoringError
from reward_serve.client.rows import RefusedRowError
from reward_serve.schema import Status
from reward_serve_verl import compute_score, compute_score_batched, compute_score_sync
from reward_serve_verl import llm_judge_remote as drop_in
from reward_serve_verl.requests import references, request_for
from reward_serve_verl.scoring import check_first_rows
from tests.fake_service import FakeService, Reply, dead_url

MISSING: list[Any] = [None, np.float64("nan"), "  ", [], [None], np.array([None]), {}]
RIGHT, WRONG, UNDECIDED = "#### 18", "#### 17", "18 or 17, who knows?"


@pytest.fixture
def addressed(service: FakeService, monkeypatch: pytest.MonkeyPatch) -> FakeService:
    """A service that the variables name."""
    monkeypatch.setenv("LLM_JUDGE_SERVER_URL", service.url)
    monkeypatch.setenv("LLM_JUDGE_SERVER_API_KEY", "of the environment")
    return service


async def test_a_row_earns_what_the_service_says(service: FakeService) -> None:
    assert inspect.iscoroutinefunction(compute_score), "verl awaits it"
    right = await compute_score("gsm8k", RIGHT, "#### 18", {"index": 3}, url=service.url)
    wrong = compute_score_sync("gsm8k", WRONG, "18", None, url=service.url)

    assert (right["score"], right["acc"], right["by_rule"]) == (1.0, 1.0, 1.0)
    assert (wrong["score"], wrong["acc"], wrong["fallback"]) == (0.0, 0.0, 0.0)
    assert right.keys() == wrong.keys()
    assert all(type(value) is float for value in right.values())


def test_a_batch_of_arrays_is_answered_in_order(addressed: FakeService) -> None:
    sources: Any = np.array(["gsm8k"] * 3, object)
    truths: Any = np.array(["18", "18", "17"], object)
    infos: Any = np.array([{"question": "?"}, None, None], object)
    said = [RIGHT, WRONG, RIGHT]
    scored = compute_score_batched(sources, said, truths, infos, url=addressed.url, on_failure=0.0)
    assert [one["score"] for one in scored] == [1.0, 0.0, 0.0]

    batch: dict[str, Any] = {"data_sources": sources, "ground_truths": truths, "extra_infos": infos}
    assert drop_in.compute_score(solution_strs=said, **batch) == [1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("response", "truth", "on_failure", "score"),
    [
        (RIGHT, "18", "rule", 1.0),
        ("the capital of France", "Paris, the capital", "lexical", 4 / 7),
        (UNDECIDED, "18", 0.25, 0.25),
    ],
)
def test_without_a_service_a_fallback_decides_and_reports_it(
    response: str, truth: str, on_failure: Any, score: float
) -> None:
    settings: dict[str, Any] = {"url": dead_url(), "max_attempts": 1, "on_failure": on_failure}
    scored = compute_score_sync("gsm8k", response, truth, {"timeout": 1}, **settings)

    assert scored["score"] == pytest.approx(score)
    assert (scored["fallback"], scored["undecided"]) == (1.0, 0.0)
    assert scored["failed_error"] + scored["failed_timeout"] == 1.0


@pytest.mark.parametrize("on_failure", ["rule", "none", "raise"])
async def test_an_undecided_sample_raises_and_no_batch_can_leave_it_out(
    service: FakeService, on_failure: str
) -> None:
    service.replies["/v1/score/batch"] = Reply({"detail": "no"}, 400)
    settings: dict[str, Any] = {"url": service.url, "on_failure": on_failure}

    with pytest.raises(ScoringError, match="no verdict: invalid"):
        await compute_score("gsm8k", UNDECIDED, "18", None, **settings)
    with pytest.raises(ScoringError, match="no verdict: invalid"):
        compute_score_sync("gsm8k", UNDECIDED, "18", None, **settings)
    with pytest.raises(ValueError, match="cannot leave undecided samples out"):
        compute_score_batched(["gsm8k"], [RIGHT], ["18"], [{}], **settings)


def test_a_rows_address_and_key_come_before_a_file_and_that_before_the_variables(
    addressed: FakeService, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".env").write_text("REWARD_SERVE_API_KEY=of the file", encoding="utf-8")
    file = {"api_key_file": str(tmp_path / ".env")}
    compute_score_sync("gsm8k", RIGHT, "18")
    compute_score_sync("gsm8k", RIGHT, "18", {}, url=addressed.url, **file)
    monkeypatch.setenv("LLM_JUDGE_SERVER_URL", "http://127.0.0.1:1")
    info = {"server_url": addressed.url, "api_key": "of the row"}
    compute_score_sync("gsm8k", RIGHT, "18", info, **file)

    keys = [call.headers["authorization"].removeprefix("Bearer ") for call in addressed.calls]
    assert keys == ["of the environment", "of the file", "of the row"]


def test_a_row_becomes_a_request() -> None:
    info = {
        "problem": "How many?",
        "model_name": "judge",
        "temperature": 0.5,
        "max_new_tokens": 64,
        "split": "train",
        "index": 7,
        "prompt_template": "final_answer",
    }

    assert request_for(RIGHT, "18", info) == {
        "response": RIGHT,
        "reference": ["18"],
        "question": "How many?",
        "model": "judge",
        "template": "final_answer",
        "group": "train/7",
        "options": {"temperature": 0.5, "max_tokens": 64},
    }


@pytest.mark.parametrize(
    ("info", "asked"),
    [
        ({"prompt_template": "default"}, {}),
        ({"prompt_template": "{PROBLEM}..."}, {"template": "{PROBLEM}..."}),
        ({"enable_thinking": True}, {"options": {"enable_thinking": True, "mode": "generate"}}),
        ({"enable_thinking": False}, {"options": {"enable_thinking": False}}),
        (
            {"prompt_template": "detailed"},
            {"template": "detailed", "options": {"mode": "generate"}},
        ),
        ({"question": math.nan, "model_name": math.nan, "rubric": None}, {}),
        ({"rubric": np.array([{"name": "a", "weight": None}])}, {"rubric": [{"name": "a"}]}),
    ],
)
def test_a_rows_template_options_and_rubric_go_as_they_are_meant(
    info: dict[str, Any], asked: dict[str, Any]
) -> None:
    assert request_for(RIGHT, "18", info) == {"response": RIGHT, "reference": ["18"], **asked}


@pytest.mark.parametrize("truth", MISSING)
def test_a_row_without_a_gold_answer_sends_no_reference(truth: Any) -> None:
    assert request_for(RIGHT, truth, {}) == {"response": RIGHT}


@pytest.mark.parametrize(
    ("truth", "info", "expected"),
    [
        (["18", "19"], {}, ["18", "19"]),
        (["18", None, math.nan, ""], {}, ["18"]),
        ({"a": "18", "b": "19", "c": None}, {}, ["18", "19"]),
        ({"a": "18", "b": "19"}, {"target_gt": "b"}, ["19"]),
        (["18", "19"], {"target_gt": ["19"]}, ["19"]),
        (["18", "19"], {"target_gt": "20"}, ["18", "19"]),
        (["18 apples", "19 Pears."], {"filter_gt_by_prompt_token": True}, ["19 Pears."]),
        (["1 pearstem", "2 plums"], {"filter_gt_by_prompt_token": True}, ["1 pearstem", "2 plums"]),
    ],
)
def test_which_gold_answers_count(truth: Any, info: dict[str, Any], expected: list[str]) -> None:
    assert references(truth, "Count the pears", info) == expected


def test_the_rows_prompt_selects_gold_answers_before_its_question() -> None:
    info = {"filter_gt_by_prompt_token": True, "question": "Apples", "prompt": "Now the pears"}
    assert request_for(RIGHT, ["18 apples", "19 pears"], info)["reference"] == ["19 pears"]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"reward_model": {"ground_truth": "18"}, "extra_info": {"model_name": "Q/Q3"}}, "model"),
        (
            {"reward_model": {"ground_truth": "18"}, "extra_info": {"temperature": 9}},
            r"options\.temperature",
        ),
        ({}, "reference: is missing"),
        ({"reward_model": None}, "reference: is missing"),
        ({"reward_model": {"style": "rule"}}, "reference: is missing"),
    ],
)
def test_a_run_ends_where_the_service_refuses_a_row(
    service: FakeService, row: dict[str, Any], reason: str
) -> None:
    good = {"reward_model": {"ground_truth": "18"}, "extra_info": None}
    check_first_rows([good, good], {"url": service.url})
    assert [call.body["requests"][0]["reference"] for call in service.calls] == [["18"]] * 2
    with pytest.raises(RefusedRowError, match=rf"row 1 .* cannot have a verdict: .*{reason}"):
        check_first_rows([good, row], {"url": service.url})


def test_a_run_begins_without_its_service(caplog: pytest.LogCaptureFixture) -> None:
    settings = {"url": dead_url(), "timeout_s": 1, "on_failure": "rule"}
    check_first_rows([{"reward_model": {"ground_truth": "18"}}], settings)

    assert "a probe had no verdict: error" in caplog.text


def test_the_drop_in_has_the_signatures_and_floats_of_what_it_replaces(
    addressed: FakeService,
) -> None:
    single = inspect.signature(drop_in.compute_score)
    batched = inspect.signature(drop_in.compute_score_batched)
    one = ["data_source", "solution_str", "ground_truth", "extra_info"]
    several = ["data_sources", "solution_strs", "ground_truths", "extra_infos"]
    assert list(single.parameters) == one + several
    assert list(batched.parameters) == several
    assert not inspect.iscoroutinefunction(drop_in.compute_score)

    score = drop_in.compute_score("gsm8k", RIGHT, ["17", "18"], {"problem": "9 + 9?"})
    assert (score, type(score)) == (1.0, float)
    scores = drop_in.compute_score_batched(["gsm8k"] * 2, [RIGHT, WRONG], ["18", ["18"]])
    assert (scores, {type(each) for each in scores}) == ([1.0, 0.0], {float})
    with pytest.raises(ValueError, match="solution_str: is missing"):
        drop_in.compute_score("gsm8k", ground_truth="18")


def test_the_drop_in_says_that_it_cannot_leave_a_sample_out(
    addressed: FakeService, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drop_in, "_undecided", count(1))
    error = {"status": "error", "reason": "down"}
    addressed.replies["/v1/score/batch"] = Reply({"results": [error]})
    monkeypatch.setenv("LLM_JUDGE_SERVER_TIMEOUT", "0.1")

    assert drop_in.compute_score("gsm8k", RIGHT, "18") == 1.0  # the rule's
    assert "undecided samples" not in caplog.text
    assert drop_in.compute_score("gsm8k", UNDECIDED, "18") == 0.0
    assert "1 undecided samples so far were scored 0.0" in caplog.text


@pytest.mark.parametrize(
    ("truth", "info", "reason"),
    [(None, {}, "reference: is missing"), ("18", {"model_name": "nobody/model"}, "model: ")],
)
def test_the_drop_in_ends_a_run_whose_first_row_is_refused_and_scores_no_later_one(
    addressed: FakeService, truth: str | None, info: dict[str, str], reason: str
) -> None:
    with pytest.raises(RefusedRowError, match=f"cannot have a verdict: .*{reason}"):
        drop_in.compute_score("gsm8k", RIGHT, truth, info)  # a rule would decide the second
    assert drop_in.compute_score("gsm8k", RIGHT, "18") == 1.0
    with pytest.raises(ScoringError, match="invalid: reference: is missing"):
        drop_in.compute_score("gsm8k", RIGHT, None)


async def test_unknown_settings_are_refused(service: FakeService) -> None:
    with pytest.raises(ValueError, match="reward_kwargs: on_failur: unknown; choose from url, app"):
        await compute_score("gsm8k", RIGHT, "18", url=service.url, on_failur="none")
    settings: dict[str, Any] = {"url": service.url, "judged_data_sources": {"a": "b"}}
    with pytest.raises(ValueError, match=r"reward_kwargs\.judged_data_sources: .* list of them"):
        compute_score_sync("gsm8k", RIGHT, "18", None, **settings)


async def test_components_have_the_same_keys_in_every_row(service: FakeService) -> None:
    late = {"score": None, "status": "timeout", "reason": "late"}
    parts = {"true": {"score": 1.0, "status": "ok"}, "brief": late}
    reply = {"status": "ok", "score": 0.5, "components": parts}
    service.replies["/v1/score/batch"] = Reply({"results": [reply]})
    settings = {"url": service.url, "components": ["true", "brief", "of another rubric"]}
    scored = await compute_score("poems", "A poem.", None, {"rubric": "style"}, **settings)

    assert scored["component_true"] == 1.0
    assert math.isnan(scored["component_brief"])
    assert math.isnan(scored["component_of another rubric"])
    assert service.calls[0].body["requests"][0]["rubric"] == "style"


@pytest.fixture
def verls_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fake of verl's ``default_compute_score``."""

    def scored(data_source: str, solution: str, truth: Any, info: Any) -> float | dict[str, Any]:
        if data_source.startswith("math"):
            return {"score": -1.0, "acc": False, "pred": solution}
        return 0.75

    own = ModuleType("verl.utils.reward_score")
    own.default_compute_score = scored  # type: ignore[attr-defined]
    for name, module in (("verl", ModuleType("verl")), ("verl.utils", ModuleType("verl.utils"))):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, own.__name__, own)


async def test_rows_that_match_no_pattern_are_verls_own(
    service: FakeService, verls_own: None
) -> None:
    sources = ["openai/gsm8k", "llm_judge_remote_a", "math_dapo", "llm_judge_remote_b"]
    settings: dict[str, Any] = {"url": service.url, "judged_data_sources": ["llm_judge_remote_*"]}
    truths = ["18", "18", "18", "17"]
    batch = compute_score_batched(sources, [RIGHT] * 4, truths, on_failure=0.0, **settings)
    own = await compute_score("openai/gsm8k", RIGHT, "18", None, **settings)
    check_first_rows([{"data_source": "code", "reward_model": {}}], settings)  # not probed

    assert [one["score"] for one in batch] == [0.75, 1.0, -1.0, 0.0]
    assert [one["acc"] for one in batch] == [1.0, 1.0, 0.0, 0.0]
    assert [one["judged"] for one in batch] == [0.0, 1.0, 0.0, 1.0]
    assert own == batch[0] and own["ok"] == 0.0
    assert len({tuple(one) for one in batch}) == 1, "verl raises where keys vary"
    assert all(type(value) is float for one in batch for value in one.values())
    assert len(service.calls) == 1


async def test_the_samples_of_a_row_are_judged_against_each_other(service: FakeService) -> None:
    info = {"index": 3, "question": "How many?"}
    settings = {"url": service.url, "group_size": 3}
    samples = ("a", "aa", "aaaa")
    scored = await asyncio.gather(
        *(compute_score("gsm8k", sample, None, info, **settings) for sample in samples)
    )
    assert [one["score"] for one in scored] == [0.25, 0.5, 1.0]


async def test_a_sample_that_its_group_cannot_place_is_undecided(service: FakeService) -> None:
    info = {"index": 3, "question": "How many?"}
    settings = {"url": service.url, "group_size": 2}
    placed, lost = await asyncio.gather(
        *(compute_score("gsm8k", each, "18", info, **settings) for each in ("#### 18", "")),
        return_exceptions=True,
    )

    assert isinstance(placed, dict) and placed["score"] == 1.0
    assert isinstance(lost, ScoringError) and lost.result.status is Status.TIMEOUT
