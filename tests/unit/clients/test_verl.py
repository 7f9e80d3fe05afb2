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
from reward_serve_verl.probe import check_first_rows
from reward_serve_verl.requests import references, request_for
from tests.fake_service import FakeService, Reply, dead_url

MISSING: list[Any] = [None, math.nan, np.float64("nan"), "", "  ", [], [None], np.array([None]), {}]
RIGHT, WRONG, UNDECIDED = "#### 18", "#### 17", "18 or 17, who knows?"


def test_verl_awaits_the_configured_function() -> None:
    assert inspect.iscoroutinefunction(compute_score)
    assert not inspect.iscoroutinefunction(compute_score_sync)


async def test_a_row_earns_what_the_service_says(service: FakeService) -> None:
    right = await compute_score("gsm8k", RIGHT, "#### 18", {"index": 3}, url=service.url)
    wrong = compute_score_sync("gsm8k", WRONG, "18", None, url=service.url)

    assert (right["score"], right["acc"], right["by_rule"]) == (1.0, 1.0, 1.0)
    assert (wrong["score"], wrong["acc"], wrong["fallback"]) == (0.0, 0.0, 0.0)
    assert right.keys() == wrong.keys()
    assert all(type(value) is float for value in right.values())


def test_a_batch_is_answered_in_order(service: FakeService) -> None:
    scored = compute_score_batched(
        ["gsm8k"] * 3, [RIGHT, WRONG, RIGHT], ["18", "18", "17"], url=service.url, on_failure=0.0
    )

    assert [one["score"] for one in scored] == [1.0, 0.0, 0.0]


def test_a_batch_of_verls_may_be_arrays(
    service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources: Any = np.array(["gsm8k"] * 2, object)
    truths: Any = np.array(["18", "17"], object)
    infos: Any = np.array([{"question": "?"}, None], object)
    scored = compute_score_batched(
        sources, [RIGHT, RIGHT], truths, infos, url=service.url, on_failure=0.0
    )
    assert [one["score"] for one in scored] == [1.0, 0.0]

    monkeypatch.setenv("LLM_JUDGE_SERVER_URL", service.url)
    batch: dict[str, Any] = {"data_sources": sources, "ground_truths": truths, "extra_infos": infos}
    assert drop_in.compute_score(solution_strs=[RIGHT, RIGHT], **batch) == [1.0, 0.0]


def test_without_a_service_the_rule_decides_and_reports_it() -> None:
    url = dead_url()
    scored = compute_score_sync("gsm8k", RIGHT, "18", {"timeout": 1}, url=url, max_attempts=2)

    assert (scored["score"], scored["fallback"], scored["undecided"]) == (1.0, 1.0, 0.0)
    assert scored["failed_error"] + scored["failed_timeout"] == 1.0


@pytest.mark.parametrize("on_failure", ["rule", "none", "raise"])
async def test_an_undecided_sample_raises(service: FakeService, on_failure: str) -> None:
    service.replies["/v1/score/batch"] = Reply({"detail": "no"}, 400)
    settings = {"url": service.url, "on_failure": on_failure}

    with pytest.raises(ScoringError, match="no verdict: invalid"):
        await compute_score("gsm8k", UNDECIDED, "18", None, **settings)
    with pytest.raises(ScoringError, match="no verdict: invalid"):
        compute_score_sync("gsm8k", UNDECIDED, "18", None, **settings)


def test_a_named_reward_replaces_it(service: FakeService) -> None:
    service.replies["/v1/score/batch"] = Reply({"detail": "no"}, 400)
    scored = compute_score_sync("gsm8k", UNDECIDED, "18", None, url=service.url, on_failure=0.25)

    assert (scored["score"], scored["fallback"], scored["failed_invalid"]) == (0.25, 1.0, 1.0)


@pytest.mark.parametrize("on_failure", ["rule", "none", "raise"])
def test_a_batch_of_numbers_cannot_leave_a_sample_out(on_failure: str) -> None:
    with pytest.raises(ValueError, match="cannot leave undecided samples out"):
        compute_score_batched(
            ["gsm8k"], [RIGHT], ["18"], [{}], url="http://x", on_failure=on_failure
        )


@pytest.mark.parametrize(
    ("prompt_template", "template"),
    [(None, None), ("default", None), ("solution", "solution"), ("{PROBLEM}...", "{PROBLEM}...")],
)
def test_a_template_goes_by_name_or_as_it_is(
    prompt_template: str | None, template: str | None
) -> None:
    asked = request_for(RIGHT, "18", {"prompt_template": prompt_template})

    assert asked.get("template") == template


def test_the_rows_address_takes_precedence_over_the_variables(
    service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLM_JUDGE_SERVER_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("LLM_JUDGE_SERVER_API_KEY", "of the environment")
    info = {"server_url": service.url, "api_key": "of the row"}
    scored = compute_score_sync("gsm8k", RIGHT, "18", info)

    assert scored["score"] == 1.0
    assert service.calls[0].headers["authorization"] == "Bearer of the row"


def test_the_variables_say_where_to_ask(
    service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLM_JUDGE_SERVER_URL", service.url)
    monkeypatch.setenv("LLM_JUDGE_SERVER_API_KEY", "secret")

    assert compute_score_sync("gsm8k", RIGHT, "18")["score"] == 1.0
    assert service.calls[0].headers["authorization"] == "Bearer secret"


@pytest.mark.parametrize(("info", "key"), [({}, "of the file"), ({"api_key": "of-row"}, "of-row")])
def test_a_key_in_a_file_comes_after_the_rows_and_before_the_variables(
    service: FakeService,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    info: dict[str, str],
    key: str,
) -> None:
    monkeypatch.setenv("LLM_JUDGE_SERVER_API_KEY", "of-the-environment")
    (tmp_path / ".env").write_text("REWARD_SERVE_API_KEY=of the file", encoding="utf-8")
    settings = {"url": service.url, "api_key_file": str(tmp_path / ".env")}
    compute_score_sync("gsm8k", RIGHT, "18", info, **settings)

    assert service.calls[0].headers["authorization"] == f"Bearer {key}"


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
    ("info", "options"),
    [
        ({"enable_thinking": True}, {"enable_thinking": True, "mode": "generate"}),
        ({"enable_thinking": False}, {"enable_thinking": False}),
        ({"prompt_template": "detailed"}, {"mode": "generate"}),
        ({"prompt_template": "solution"}, None),
    ],
)
def test_a_judge_that_thinks_or_reasons_writes(
    info: dict[str, Any], options: dict[str, Any] | None
) -> None:
    assert request_for(RIGHT, "18", info).get("options") == options


@pytest.mark.parametrize("truth", MISSING)
def test_a_row_without_a_gold_answer_sends_no_reference(truth: Any) -> None:
    asked = request_for(RIGHT, truth, {"question": math.nan, "model_name": math.nan})

    assert asked == {"response": RIGHT}


@pytest.mark.parametrize("truth", [["18", None], {"a": "18", "b": None}, ["18", math.nan, ""]])
def test_missing_ones_of_several_gold_answers_are_left_out(truth: Any) -> None:
    assert request_for(RIGHT, truth, {})["reference"] == ["18"]


def test_the_rows_prompt_selects_gold_answers_before_its_question() -> None:
    info = {"filter_gt_by_prompt_token": True, "question": "Apples", "prompt": "Now the pears"}

    assert request_for(RIGHT, ["18 apples", "19 pears"], info)["reference"] == ["19 pears"]


@pytest.mark.parametrize(
    ("truth", "info", "expected"),
    [
        ("18", {}, ["18"]),
        (["18", "19"], {}, ["18", "19"]),
        ({"a": "18", "b": "19"}, {}, ["18", "19"]),
        ({"a": "18", "b": "19"}, {"target_gt": "b"}, ["19"]),
        (["18", "19"], {"target_gt": ["19"]}, ["19"]),
        (["18", "19"], {"target_gt": "20"}, ["18", "19"]),
        (["18 apples", "19 Pears."], {"filter_gt_by_prompt_token": True}, ["19 Pears."]),
        (["1 pearstem", "2 plums"], {"filter_gt_by_prompt_token": True}, ["1 pearstem", "2 plums"]),
    ],
)
def test_which_gold_answers_count(truth: Any, info: dict[str, Any], expected: list[str]) -> None:
    assert references(truth, "Count the pears", info) == expected


@pytest.mark.parametrize("info", [{"model_name": "Qwen/Qwen3-32B"}, {"temperature": 9}])
def test_a_run_ends_where_the_service_refuses_a_row(
    service: FakeService, info: dict[str, Any]
) -> None:
    with pytest.raises(
        RefusedRowError, match=r"row 0 .* cannot have a verdict: (model|options\.temperature): "
    ):
        check_first_rows(
            [{"reward_model": {"ground_truth": "18"}, "extra_info": info}], {"url": service.url}
        )


@pytest.mark.parametrize("row", [{}, {"reward_model": None}, {"reward_model": {"style": "rule"}}])
def test_a_run_ends_where_a_row_has_no_gold_answer(
    service: FakeService, row: dict[str, Any]
) -> None:
    with pytest.raises(RefusedRowError, match=r"row 1 .*: reference: is missing"):
        check_first_rows([{"reward_model": {"ground_truth": "18"}}, row], {"url": service.url})


def test_a_run_begins_where_its_rows_are_taken(service: FakeService) -> None:
    check_first_rows([{"reward_model": {"ground_truth": "18"}}] * 2, {"url": service.url})

    assert [call.body["requests"][0]["reference"] for call in service.calls] == [["18"]] * 2


def test_a_run_begins_without_its_service(caplog: pytest.LogCaptureFixture) -> None:
    settings = {"url": dead_url(), "timeout_s": 1, "on_failure": "rule"}
    check_first_rows([{"reward_model": {"ground_truth": "18"}, "extra_info": None}], settings)

    assert "a probe had no verdict: error" in caplog.text


@pytest.fixture
def addressed(service: FakeService, monkeypatch: pytest.MonkeyPatch) -> FakeService:
    monkeypatch.setenv("LLM_JUDGE_SERVER_URL", service.url)
    return service


def test_the_drop_in_has_the_signatures_of_what_it_replaces() -> None:
    single = inspect.signature(drop_in.compute_score)
    batched = inspect.signature(drop_in.compute_score_batched)

    one = ["data_source", "solution_str", "ground_truth", "extra_info"]
    several = ["data_sources", "solution_strs", "ground_truths", "extra_infos"]
    assert list(single.parameters) == one + several
    assert [p.kind.name for p in single.parameters.values()] == (
        ["POSITIONAL_OR_KEYWORD"] * 4 + ["KEYWORD_ONLY"] * 4
    )
    assert list(batched.parameters) == several
    assert not inspect.iscoroutinefunction(drop_in.compute_score)


def test_the_drop_in_returns_floats(addressed: FakeService) -> None:
    one = drop_in.compute_score("gsm8k", RIGHT, ["17", "18"], {"problem": "9 + 9?"})
    several = drop_in.compute_score_batched(["gsm8k"] * 2, [RIGHT, WRONG], ["18", ["18"]])
    by_name = drop_in.compute_score(solution_strs=[WRONG], ground_truths=["18"], extra_infos=[{}])

    assert (one, type(one)) == (1.0, float)
    assert (several, by_name) == ([1.0, 0.0], [0.0])
    assert {type(score) for score in several} == {float}


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


@pytest.mark.parametrize("given", [{}, {"ground_truth": "18"}])
def test_the_drop_in_asks_for_a_response(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="solution_str: is missing"):
        drop_in.compute_score("gsm8k", **given)


@pytest.mark.parametrize(
    ("truth", "info", "reason"),
    [(None, {}, "reference: is missing"), ("18", {"model_name": "nobody/model"}, "model: ")],
)
def test_the_drop_in_ends_a_run_whose_first_row_is_refused(
    addressed: FakeService, truth: str | None, info: dict[str, str], reason: str
) -> None:
    with pytest.raises(RefusedRowError, match=f"cannot have a verdict: .*{reason}"):
        drop_in.compute_score("gsm8k", RIGHT, truth, info)  # a rule would decide the second


def test_the_drop_in_has_no_score_for_a_row_that_is_refused_later(addressed: FakeService) -> None:
    assert drop_in.compute_score("gsm8k", RIGHT, "18") == 1.0
    with pytest.raises(ScoringError, match="invalid: reference: is missing"):
        drop_in.compute_score("gsm8k", RIGHT, None)
    with pytest.raises(ScoringError, match="invalid: reference: is missing"):
        drop_in.compute_score_batched(["gsm8k"] * 2, [RIGHT] * 2, ["18", math.nan])


async def test_an_unknown_setting_is_refused(service: FakeService) -> None:
    with pytest.raises(ValueError, match="reward_kwargs: on_failur: unknown; choose from url, app"):
        await compute_score("gsm8k", RIGHT, "18", url=service.url, on_failur="none")


PARTS: dict[str, Any] = {
    "status": "ok",
    "score": 0.5,
    "components": {
        "true": {"score": 1.0, "status": "ok"},
        "brief": {"score": None, "status": "timeout", "reason": "late"},
    },
}


async def test_components_have_the_same_keys_in_every_row(service: FakeService) -> None:
    service.replies["/v1/score/batch"] = Reply({"results": [PARTS]})
    settings = {"url": service.url, "components": ["true", "brief", "of another rubric"]}
    scored = await compute_score("poems", "A poem.", None, {"rubric": "style"}, **settings)

    assert scored["component_true"] == 1.0
    assert math.isnan(scored["component_brief"])
    assert math.isnan(scored["component_of another rubric"])
    assert service.calls[0].body["requests"][0]["rubric"] == "style"


def test_a_rubric_of_a_row_is_sent_without_arrows_empty_fields() -> None:
    row = np.array([{"name": "a", "text": "b", "choices": {"A": 1.0, "yes": None}, "weight": None}])
    asked = request_for("A poem.", None, {"rubric": row})

    assert asked["rubric"] == [{"name": "a", "text": "b", "choices": {"A": 1.0}}]
    assert "rubric" not in request_for("A poem.", None, {"rubric": None})


PATTERN = ["llm_judge_remote_*"]


@pytest.fixture
def verls_own(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A fake of verl's ``default_compute_score``; the data sources that it was asked about."""
    asked: list[str] = []

    def scored(data_source: str, solution: str, truth: Any, info: Any) -> float | dict[str, Any]:
        asked.append(data_source)
        if data_source.startswith("math"):
            return {"score": -1.0, "acc": False, "pred": solution}
        return 0.75

    own = ModuleType("verl.utils.reward_score")
    own.default_compute_score = scored  # type: ignore[attr-defined]
    for name, module in (("verl", ModuleType("verl")), ("verl.utils", ModuleType("verl.utils"))):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, own.__name__, own)
    return asked


async def test_rows_that_match_no_pattern_are_verls_own(
    service: FakeService, verls_own: list[str]
) -> None:
    settings: dict[str, Any] = {"url": service.url, "judged_data_sources": PATTERN}
    judged = await compute_score("llm_judge_remote_math", RIGHT, "18", None, **settings)
    own = await compute_score("openai/gsm8k", RIGHT, "18", None, **settings)
    as_dict = compute_score_sync("math_dapo", RIGHT, "18", None, **settings)

    assert (judged["score"], judged["judged"], judged["ok"]) == (1.0, 1.0, 1.0)
    assert (own["score"], own["acc"], own["judged"], own["ok"]) == (0.75, 1.0, 0.0, 0.0)
    assert (as_dict["score"], as_dict["acc"]) == (-1.0, 0.0)
    assert judged.keys() == own.keys() == as_dict.keys()
    assert all(type(value) is float for value in as_dict.values())
    assert verls_own == ["openai/gsm8k", "math_dapo"]
    assert len(service.calls) == 1


def test_a_batch_is_divided_by_data_source(service: FakeService, verls_own: list[str]) -> None:
    sources = ["openai/gsm8k", "llm_judge_remote_a", "math", "llm_judge_remote_b"]
    settings: dict[str, Any] = {"judged_data_sources": PATTERN[0], "on_failure": 0.0}
    scored = compute_score_batched(
        sources, [RIGHT] * 4, ["18", "18", "18", "17"], url=service.url, **settings
    )

    assert [one["score"] for one in scored] == [0.75, 1.0, -1.0, 0.0]
    assert [one["judged"] for one in scored] == [0.0, 1.0, 0.0, 1.0]


def test_only_judged_rows_are_probed(service: FakeService) -> None:
    rows = [
        {"data_source": "code", "reward_model": {}},  # would be refused
        {"data_source": "llm_judge_remote_a", "reward_model": {"ground_truth": "18"}},
    ]
    check_first_rows(rows, {"url": service.url, "judged_data_sources": PATTERN})
    assert len(service.calls) == 1


@pytest.mark.parametrize("patterns", [3, [3], {"a": "b"}])
def test_patterns_that_are_none_are_refused(patterns: Any) -> None:
    with pytest.raises(ValueError, match=r"reward_kwargs\.judged_data_sources: .* list of them"):
        compute_score_sync("gsm8k", RIGHT, "18", None, url="http://x", judged_data_sources=patterns)


def test_texts_are_compared_by_their_words_where_the_service_is_away() -> None:
    settings: dict[str, Any] = {"url": dead_url(), "max_attempts": 1}
    info = {"timeout": 1}
    scored = compute_score_sync(
        "llm_judge_remote_qa", "the capital of France", "Paris, the capital", info,
        **settings, on_failure="lexical",
    )  # fmt: skip

    assert scored["score"] == pytest.approx(4 / 7)
    assert scored["fallback"] == 1.0


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
