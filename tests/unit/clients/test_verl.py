import asyncio
import inspect
import math
import sys
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from reward_serve.client import ScoringError
from reward_serve.client.rows import RefusedRowError
from reward_serve.schema import ScoreResult, Status
from reward_serve_verl import compute_score
from reward_serve_verl import llm_judge_remote as drop_in
from reward_serve_verl.scoring import as_reward, check_first_rows, references, request_for
from tests.fake_service import FakeService, Reply, dead_url
from tests.rows import rows

MISSING: list[Any] = [None, np.float64("nan"), "  ", [], [None], np.array([None]), {}]
JUDGED = "llm_judge_remote_gsm8k"
RIGHT, WRONG, UNDECIDED = "#### 18", "#### 17", "18 or 17, who knows?"


@pytest.fixture
def addressed(service: FakeService, monkeypatch: pytest.MonkeyPatch) -> FakeService:
    """A service that the variables name."""
    monkeypatch.setenv("LLM_JUDGE_SERVER_URL", service.url)
    monkeypatch.setenv("LLM_JUDGE_SERVER_API_KEY", "of the environment")
    return service


def scored(
    response: str, truth: Any = "18", info: Any = None, source: str = "gsm8k", **settings: Any
) -> dict[str, float]:
    return asyncio.run(compute_score(source, response, truth, info, **settings))


def test_a_row_earns_what_the_service_says(service: FakeService) -> None:
    assert inspect.iscoroutinefunction(compute_score), "verl awaits it"
    right = scored(RIGHT, "#### 18", {"index": 3}, url=service.url)
    wrong = scored(WRONG, url=service.url)

    assert (right["score"], right["acc"], right["by_rule"]) == (1.0, 1.0, 1.0)
    assert (wrong["score"], wrong["acc"], wrong["fallback"]) == (0.0, 0.0, 0.0)
    assert right.keys() == wrong.keys()
    assert all(type(value) is float for value in right.values())


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
    fields = scored(response, truth, {"timeout": 1}, **settings)

    assert fields["score"] == pytest.approx(score)
    assert (fields["fallback"], fields["undecided"]) == (1.0, 0.0)
    assert fields["failed_error"] + fields["failed_timeout"] == 1.0


@pytest.mark.parametrize("on_failure", ["rule", "none", "raise"])
def test_an_undecided_sample_raises(service: FakeService, on_failure: str) -> None:
    with pytest.raises(ScoringError, match="no verdict: unparseable"):
        scored(UNDECIDED, url=service.url, on_failure=on_failure)


def test_a_rows_address_and_key_come_before_a_file_and_that_before_the_variables(
    addressed: FakeService, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".env").write_text("REWARD_SERVE_API_KEY=of the file", encoding="utf-8")
    file = {"api_key_file": str(tmp_path / ".env")}
    scored(RIGHT)
    scored(RIGHT, url=addressed.url, **file)
    monkeypatch.setenv("LLM_JUDGE_SERVER_URL", "http://127.0.0.1:1")
    scored(RIGHT, "18", {"server_url": addressed.url, "api_key": "of the row"}, **file)

    keys = [call.headers["authorization"].removeprefix("Bearer ") for call in addressed.calls]
    assert keys == ["of the environment", "of the file", "of the row"]


def test_a_rows_own_service_is_never_sent_the_configured_key(
    service: FakeService, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "key").write_text("of-the-trainer", encoding="utf-8")
    for variable in ("REWARD_SERVE_API_KEY", "LLM_JUDGE_SERVER_API_KEY"):
        monkeypatch.setenv(variable, "of-the-trainer")
    row = {"server_url": service.url}
    for given in ({}, {"api_key": "of-the-trainer"}, {"api_key_file": str(tmp_path / "key")}):
        scored(RIGHT, "18", row, url=dead_url(), **given)
    assert [call.headers.get("authorization") for call in service.calls] == [None] * 3
    scored(RIGHT, "18", row, url=service.url)  # a row may repeat the configured one
    assert service.calls[-1].headers["authorization"] == "Bearer of-the-trainer"


@pytest.mark.parametrize("hosts", [[], "judge-*", ["judge.internal"]])
def test_the_hosts_of_rows_can_be_limited(service: FakeService, hosts: Any) -> None:
    with pytest.raises(ValueError, match=r"extra_info.server_url: .* not in reward_kwargs.row_ho"):
        scored(RIGHT, "18", {"server_url": service.url}, row_hosts=hosts)
    for allowed in (None, ["127.*"]):
        scored(RIGHT, "18", {"server_url": service.url}, row_hosts=allowed)
    assert len(service.calls) == 2


@pytest.mark.parametrize(
    ("info", "asked"),
    [
        *rows(__file__, "requests"),
        ({"question": math.nan, "model_name": math.nan, "rubric": None}, {}),
        ({"rubric": np.array([{"name": "a", "weight": None}])}, {"rubric": [{"name": "a"}]}),
    ],
)
def test_a_row_becomes_a_request(info: dict[str, Any], asked: dict[str, Any]) -> None:
    assert request_for(RIGHT, "18", info) == {"response": RIGHT, "reference": ["18"], **asked}


@pytest.mark.parametrize("truth", MISSING)
def test_a_row_without_a_gold_answer_sends_no_reference(truth: Any) -> None:
    assert request_for(RIGHT, truth, {}) == {"response": RIGHT}


@pytest.mark.parametrize(
    ("truth", "info", "expected"),
    [*rows(__file__, "gold"), (["18", None, math.nan, ""], {}, ["18"])],
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
        ({}, "reference: is missing"),
        ({"reward_model": None}, "reference: is missing"),
    ],
)
def test_a_run_ends_at_a_refusal(service: FakeService, row: dict[str, Any], reason: str) -> None:
    good = {"reward_model": {"ground_truth": "18"}, "extra_info": None}
    check_first_rows([good, good], {"url": service.url})
    with pytest.raises(
        RefusedRowError, match=rf"(row 1 .* cannot|no row can) have a verdict: .*{reason}"
    ):
        check_first_rows([good, row], {"url": service.url})


def test_a_rows_data_set_is_sent_with_it(addressed: FakeService) -> None:
    scored(RIGHT, source="openai/gsm8k")
    scored(RIGHT, source="openai/gsm8k", info={"judge_metadata": {"step": 3}})
    check_first_rows([{"data_source": "mmlu", "reward_model": {"ground_truth": "18"}}], {})
    drop_in.compute_score(JUDGED, RIGHT, "18")
    drop_in.compute_score(None, RIGHT, "18")
    sent = [r.get("metadata") for call in addressed.calls for r in call.body["requests"]]
    of_row = {"data_source": "openai/gsm8k"}
    others = [{"data_source": "mmlu"}, {"data_source": JUDGED}, None]
    assert sent == [of_row, {**of_row, "step": 3}, *others]


def test_a_run_begins_without_its_service(caplog: pytest.LogCaptureFixture) -> None:
    settings = {"url": dead_url(), "timeout_s": 1, "on_failure": "rule"}
    check_first_rows([{"reward_model": {"ground_truth": "18"}}], settings)

    assert "a probe had no verdict: error" in caplog.text


def test_the_drop_in_has_the_signatures_and_floats_it_replaces(addressed: FakeService) -> None:
    single = ["data_source", "solution_str", "ground_truth", "extra_info"]
    several = ["data_sources", "solution_strs", "ground_truths", "extra_infos"]
    assert list(inspect.signature(drop_in.compute_score).parameters) == [
        *single,
        *several,
        "settings",
    ]
    assert list(inspect.signature(drop_in.compute_score_batched).parameters) == [
        *several,
        "settings",
    ]

    score = drop_in.compute_score(JUDGED, RIGHT, ["17", "18"], {"problem": "9 + 9?"})
    assert (score, type(score)) == (1.0, float)
    sources: Any = np.array([JUDGED] * 3)
    truths = np.array(["18", ["18"], "17"], object)
    batch: dict[str, Any] = {"data_sources": sources, "ground_truths": truths}
    batch["extra_infos"] = np.array([{"question": "?"}, None, None], object)
    scores = drop_in.compute_score(solution_strs=[RIGHT, WRONG, RIGHT], **batch)
    assert isinstance(scores, list)
    assert (scores, {type(score) for score in scores}) == ([1.0, 0.0, 0.0], {float})
    with pytest.raises(ValueError, match=r"have \[3, 1, 3, 3\] rows; must be equally long"):
        drop_in.compute_score_batched(sources, [RIGHT] * 3, ["18"])
    with pytest.raises(ValueError, match="solution_str: is missing"):
        drop_in.compute_score(JUDGED, ground_truth="18")


def test_the_drop_in_says_that_it_cannot_leave_a_sample_out(
    addressed: FakeService, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drop_in, "_undecided", count(1))
    assert drop_in.compute_score(JUDGED, WRONG, "18") == 0.0  # a comparison's
    error = {"status": "error", "reason": "down"}
    addressed.replies["/v1/score/batch"] = Reply({"results": [error]})
    monkeypatch.setenv("LLM_JUDGE_SERVER_TIMEOUT", "0.1")

    assert drop_in.compute_score(JUDGED, RIGHT, "18") == 1.0  # the rule's
    assert "undecided samples" not in caplog.text
    assert drop_in.compute_score(JUDGED, UNDECIDED, "18") == 0.0
    assert "1 undecided samples so far were scored 0.0" in caplog.text


@pytest.mark.parametrize(
    ("truth", "info", "reason"),
    [(None, {}, "reference: is missing"), ("18", {"model_name": "nobody/model"}, "model: ")],
)
def test_the_drop_in_ends_a_run_whose_first_rows_are_refused_and_scores_no_later_one(
    addressed: FakeService, truth: str | None, info: dict[str, str], reason: str
) -> None:
    with pytest.raises(RefusedRowError, match=f"cannot have a verdict, .*: {reason}"):
        drop_in.compute_score_batched(None, [RIGHT] * 2, [truth] * 2, [info] * 2)
    assert drop_in.compute_score(JUDGED, RIGHT, "18") == 1.0
    with pytest.raises(ScoringError, match="invalid: reference: is missing"):
        drop_in.compute_score(JUDGED, RIGHT, None)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"on_failur": "none"}, "reward_kwargs: on_failur: unknown; choose from url, app"),
        ({"turns": True}, "turns: True is not one of log, differences"),
        ({"judged_data_sources": {"a": "b"}}, r"kwargs\.judged_data_sources: .* list of them"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        scored(RIGHT, url="http://127.0.0.1:1", **settings)


def test_components_have_the_same_keys_in_every_row(service: FakeService) -> None:
    late = {"score": None, "status": "timeout", "reason": "late"}
    parts = {"true": {"score": 1.0, "status": "ok"}, "brief": late}
    reply = {"status": "ok", "score": 0.5, "components": parts}
    service.replies["/v1/score/batch"] = Reply({"results": [reply]})
    names = ["true", "brief", "of another rubric"]
    fields = scored("A poem.", None, {"rubric": "style"}, url=service.url, components=names)

    assert fields["component_true"] == 1.0
    assert math.isnan(fields["component_brief"])
    assert math.isnan(fields["component_of another rubric"])
    assert service.calls[0].body["requests"][0]["rubric"] == "style"


def test_critiques_are_texts_with_the_same_key_in_every_row_that_asks(
    service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = SimpleNamespace(default_compute_score=lambda *_: 1.0)
    for name in ("verl", "verl.utils", "verl.utils.reward_score"):
        monkeypatch.setitem(sys.modules, name, fake)
    verdict = {"status": "ok", "score": 0.0, "critique": "It adds."}
    settings: dict[str, Any] = {"url": service.url, "judged_data_sources": ["gsm8k"]}
    asked = {"critique": True, "components": ["true"], "turns": "log", **settings}
    rows = [scored(WRONG, source="code", **asked)]
    for reply in (verdict, {"status": "ok", "score": 1.0}):
        service.replies["/v1/score/batch"] = Reply({"results": [reply]})
        rows.append(scored(WRONG, **asked))
    assert [str(row["critique"]) for row in rows] == ["", "It adds.", ""]
    assert len({tuple(row) for row in rows}) == 1
    service.replies["/v1/score/batch"] = Reply({"results": [verdict]})
    assert "critique" not in scored(WRONG, **settings)


def test_other_rows_are_verls_own(service: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    def verl_score(
        data_source: str, solution: str, truth: Any, info: Any
    ) -> float | dict[str, Any]:
        math = data_source.startswith("math")
        return {"score": -1.0, "acc": False, "pred": solution} if math else 0.75

    fake = SimpleNamespace(default_compute_score=verl_score)
    for name in ("verl", "verl.utils", "verl.utils.reward_score"):
        monkeypatch.setitem(sys.modules, name, fake)
    sources = ["openai/gsm8k", "math_dapo", "llm_judge_remote_a"]
    settings: dict[str, Any] = {"url": service.url, "judged_data_sources": ["llm_judge_remote_*"]}
    rows = [scored(RIGHT, source=source, **settings) for source in sources]
    check_first_rows([{"data_source": "code", "reward_model": {}}], settings)  # not probed

    assert [row["score"] for row in rows] == [0.75, -1.0, 1.0]
    assert [row["acc"] for row in rows] == [1.0, 0.0, 1.0]
    assert [row["judged"] for row in rows] == [0.0, 0.0, 1.0]
    assert len({tuple(row) for row in rows}) == 1, "verl raises where keys vary"
    assert all(type(value) is float for row in rows for value in row.values())
    assert len(service.calls) == 1


async def test_the_samples_of_a_row_are_judged_against_each_other(service: FakeService) -> None:
    async def group(*samples: str) -> list[Any]:
        info = {"index": 3, "question": "How many?"}
        settings = {"url": service.url, "group_size": len(samples)}
        rows = [compute_score("gsm8k", sample, None, info, **settings) for sample in samples]
        return list(await asyncio.gather(*rows, return_exceptions=True))

    assert [row["score"] for row in await group("a", "aa", "aaaa")] == [0.25, 0.5, 1.0]
    placed, lost = await group("#### 18", "")  # one that its group cannot place
    assert placed["score"] == 1.0
    assert isinstance(lost, ScoringError) and lost.result.status is Status.TIMEOUT


@pytest.mark.parametrize(("turns", "scores", "expected"), rows(__file__, "turns"))
def test_rewards_are_made_of_turns_that_all_have_a_score(
    turns: str, scores: list[float | None], expected: dict[str, str] | None
) -> None:
    parts = {
        f"turn_{n}": {"score": score, "status": "error" if score is None else "ok"}
        for n, score in enumerate(scores, 1)
    }
    result = ScoreResult.model_validate({"status": "ok", "score": 1.0, "components": parts})
    if expected is None:
        with pytest.raises(ScoringError, match=f"{len(scores) // 2} of {len(scores)} turns have"):
            as_reward(result, turns=turns)
    else:
        assert as_reward(result, turns=turns) == as_reward(result) | expected
