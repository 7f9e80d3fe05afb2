import json
from pathlib import Path
from typing import Any

import pytest

import reward_serve.cli.console
from reward_serve.schema import ScoreResult, Status, failure
from tests.fake_service import FakeService, Reply
from tests.unit.lab.fakes import invoke, reported, written

GOOD = [
    {"response": f"#### {18 + n % 3}", "reference": "18", "correct": n % 3 == 0} for n in range(7)
]


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return written(tmp_path, *GOOD)


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def test_a_file_is_scored_and_summed_up(service: FakeService, rows: Path, tmp_path: Path) -> None:
    out, summary = tmp_path / "out.jsonl", tmp_path / "summary.json"
    result = invoke(
        *("score", rows, "--url", service.url, "--out", out, "--summary", summary),
        *("--batch-size", 2, "--timeout-s", 7, "--template", "solution", "--mode", "generate"),
    )
    assert result.exit_code == 0, result.output
    scored = lines_of(out)
    assert [line["line"] for line in scored] == list(range(1, 8))
    assert [line["score"] for line in scored] == [float(bool(row["correct"])) for row in GOOD]
    keys = [name for name in ScoreResult.model_fields if name not in ("components", "critique")]
    assert {tuple(line) for line in scored} == {("line", "correct", *keys)}
    report = json.loads(summary.read_text(encoding="utf-8"))
    assert (report["n"], report["agreement"]) == (7, 1.0)
    assert (report["statuses"], report["sources"]) == ({"ok": 7}, {"rule": 7})
    assert sorted(len(call.body["requests"]) for call in service.calls) == [1, 2, 2, 2]
    sent = [request for call in service.calls for request in call.body["requests"]]
    settings = {"template": "solution", "options": {"mode": "generate"}, "timeout_s": 7.0}
    assert all(settings.items() <= request.items() and "model" not in request for request in sent)
    assert "100.0%" in result.stderr
    printed = invoke("score", rows, "--url", service.url).stdout.splitlines()
    assert [json.loads(line)["line"] for line in printed] == list(range(1, 8))


def test_conversations_are_scored_beside_responses(service: FakeService, tmp_path: Path) -> None:
    replies = [{"role": "assistant", "content": text} for text in ("I add them.", "#### 18")]
    turns = [{"role": "user", "content": "9 + 9?"}, replies[0], {"role": "user", "content": "So?"}]
    row = {"messages": [*turns, replies[1]], "turns": True, "reference": "18", "correct": True}
    rows = written(tmp_path, GOOD[1], row, {"messages": turns[:1], "reference": "18"})
    out = tmp_path / "out.jsonl"
    result = invoke("score", rows, "--url", service.url, "--out", out)
    assert result.exit_code == 0, result.output
    plain, scored, invalid = lines_of(out)
    assert (plain["score"], scored["score"], invalid["status"]) == (0.0, 1.0, "invalid")
    assert set(scored["components"]) == {"turn_1", "turn_2"}
    assert scored["components"]["turn_2"]["score"] == 1.0
    report = reported("eval", rows, "--url", service.url, folder=tmp_path)
    assert (report["agreement"], {*report["by_format"]}) == (1.0, {"hash"})


def test_a_bad_row_is_reported_and_stops_no_other(service: FakeService, tmp_path: Path) -> None:
    good, unreferenced = GOOD[0], {"response": "#### 18"}
    rows = written(tmp_path, good, "{", "", unreferenced, {"correct": True}, good)
    out = tmp_path / "out.jsonl"
    result = invoke("score", rows, "--url", service.url, "--out", out)
    assert result.exit_code == 0, result.output
    assert [(line["line"], line["status"]) for line in lines_of(out)] == [
        (1, "ok"),
        (2, "invalid"),
        (4, "invalid"),
        (5, "invalid"),
        (6, "ok"),
    ]
    assert "line 2: is not JSON" in result.stderr
    assert "line 5: response: is missing" in result.stderr


def test_a_lost_service_exits_1_with_why(service: FakeService, rows: Path, tmp_path: Path) -> None:
    def lose(call: object) -> None:
        if len(service.calls) > 1:
            service.replies["/v1/score/batch"] = Reply(b"Internal Server Error", 500)

    service.before_reply = lose
    arguments = ["--out", tmp_path / "out.jsonl", "--batch-size", 1, "--batches-in-flight", 1]
    result = invoke("score", rows, "--url", service.url, *arguments)
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert f"{service.url}: HTTP 500" in result.stderr


def test_by_handle_each_request_names_the_model(
    rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, Any]] = []

    class FakeTransport:
        def __init__(self, app: str) -> None:
            self._app = app

        async def ascore_batch(self, requests: list[Any]) -> list[ScoreResult]:
            asked.extend((self._app, request["model"]) for request in requests)
            return [failure(Status.ERROR, "fake") for _ in requests]

    monkeypatch.setattr(reward_serve.cli.console, "HandleTransport", FakeTransport)
    invoke("score", rows, "--app", "reward", "--model", "other", "--out", tmp_path / "out.jsonl")
    assert set(asked) == {("reward", "other")}
