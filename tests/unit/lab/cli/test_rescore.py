import json
import sys
from pathlib import Path
from typing import Any

import pytest

from reward_serve.schema import ScoreResult, Status, failure
from reward_serve_lab.logs.table import VerdictTable
from tests.fake_service import FakeService, Reply
from tests.unit.lab.evaluation.test_rescored import LOGGED
from tests.unit.lab.fakes import invoke

MARKUP = "<script>alert(1)</script><img src=http://example.com/a.png>\n#### 18"


def logged(number: int) -> dict[str, Any]:
    """Of a group of four: of the rule's right and wrong ones in turn, every seventh undecided."""
    response = f"#### {18 + number % 2}"
    score = None if number % 7 == 6 else float(number % 3 == 0)
    return {
        **LOGGED, "step": number // 16, "sample": f"s{number}", "group": f"g{number // 4}",
        "response_tail": response, "response_characters": len(response), "score": score,
        "status": "timeout" if score is None else "ok",
    }  # fmt: skip


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "verdicts-judge-1.jsonl"
    path.write_text("".join(f"{json.dumps(logged(n))}\n" for n in range(64)), encoding="utf-8")
    return path


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def asked(service: FakeService) -> int:
    calls = [call for call in service.calls if call.path == "/v1/score/batch"]
    return sum(len(call.body["requests"]) for call in calls)


def test_a_log_is_rescored_and_compared(service: FakeService, log: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    result = invoke("rescore", log, "--with", service.url, "--report", report)
    assert result.exit_code == 0, result.output
    out = tmp_path / "rescored-verdicts-judge-1.jsonl"
    lines = lines_of(out)
    assert len({line["key"] for line in lines}) == len(lines) == asked(service) == 64
    right = {f"s{n}": float(n % 2 == 0) for n in range(64)}
    assert {line["sample"]: line["score"] for line in lines} == right
    comparison = json.loads(report.read_text(encoding="utf-8"))
    assert (comparison["n"], comparison["by"], comparison["groups"]["n"]) == (
        64,
        lines[0]["by"],
        16,
    )
    assert "of the 55 that both decided; McNemar's exact test: p = " in result.stdout
    assert "absent to right:\n  run r, step 0, sample s6, group g1: #### 18" in result.stdout
    assert out.stat().st_mode & 0o777 == 0o600
    again = invoke("rescore", log, "--with", service.url, "--report", report)
    assert (again.exit_code, again.stdout, asked(service)) == (0, result.stdout, 64)
    assert json.loads(report.read_text(encoding="utf-8")) == comparison


def test_only_the_absent_are_asked_and_groups_have_both(service: FakeService, log: Path) -> None:
    result = invoke("rescore", log, "--with", service.url, "--only", "absent")
    assert (result.exit_code, asked(service)) == (0, 9)
    assert "groups have scores of both judges: rows that were not scored again" in result.stdout
    more = invoke("rescore", log, "--with", service.url, "--sample", 0.5)
    assert more.exit_code == 0
    assert 32 <= asked(service) <= 9 + 36
    folder = invoke("rescore", log.parent, "--with", service.url, "--sample", 8)
    assert folder.exit_code == 0
    assert len(lines_of(log.parent / f"rescored-{log.parent.name}.jsonl")) == 8


def test_what_had_no_answer_is_said_once_and_asked_again(service: FakeService, log: Path) -> None:
    late = failure(Status.TIMEOUT, "timeout_s passed").model_dump(mode="json")
    needs = failure(Status.INVALID, "question: template 'solution' needs it; send it")
    service.replies["/v1/score/batch"] = Reply({"results": [late] + 15 * [needs.model_dump()]})
    result = invoke("rescore", log, "--with", service.url)
    assert result.exit_code == 1
    assert "4 have no result: timeout: timeout_s passed; run it again to ask" in result.stderr
    (line,) = [line for line in result.stderr.splitlines() if "60 have no result: invalid" in line]
    assert "template 'solution' needs it; send it; a verdict log lacks long questions: give" in line
    assert lines_of(log.with_name("rescored-verdicts-judge-1.jsonl")) == []
    service.replies.clear()
    assert invoke("rescore", log, "--with", service.url).exit_code == 0
    assert len(lines_of(log.with_name("rescored-verdicts-judge-1.jsonl"))) == 64


def test_a_service_that_is_lost_leaves_what_it_answered(service: FakeService, log: Path) -> None:
    def lose(call: object) -> None:
        if asked(service) > 16:
            service.replies["/v1/score/batch"] = Reply(b"Internal Server Error", 500)

    service.before_reply = lose
    ways = ["rescore", log, "--with", service.url, "--batches-in-flight", 1]
    result = invoke(*ways)
    assert (result.exit_code, "HTTP 500" in result.stderr) == (1, True)
    assert "once that is mended, run it again" in result.stderr
    out = log.with_name("rescored-verdicts-judge-1.jsonl")
    kept = lines_of(out)
    assert len(kept) == 16
    service.before_reply = lambda call: None
    service.replies.clear()
    assert invoke(*ways).exit_code == 0
    assert (lines_of(out)[:16], len({line["key"] for line in lines_of(out)})) == (kept, 64)


def test_other_judges_and_templates_fail(service: FakeService, log: Path, tmp_path: Path) -> None:
    ways = ["rescore", log, "--with", service.url, "--sample", 8]
    assert invoke(*ways).exit_code == 0
    before = asked(service)
    result = invoke(*ways, "--template", "solution")
    assert (result.exit_code, asked(service)) == (2, before)
    assert "and this judge is rule@" in result.stderr and "give another --out" in result.stderr
    models = [
        {"name": "rule", "ready": True, "fingerprint": "newer"},
        {"name": "b", "ready": False},
    ]
    service.replies["/v1/models"] = Reply({"models": models})
    assert invoke(*ways).exit_code == 2
    assert invoke(*ways, "--out", tmp_path / "newer.jsonl").exit_code == 0
    unknown = invoke(*ways, "--model", "c")
    assert (unknown.exit_code, "--model c: the service has rule, b" in unknown.stderr) == (2, True)
    waiting = invoke(*ways, "--model", "b")
    assert (waiting.exit_code, "b: is not ready" in waiting.stderr) == (1, True)
    assert asked(service) == 2 * before


@pytest.mark.parametrize(
    ("name", "fault"),
    [("none.jsonl", "No such file"), ("empty.jsonl", "has no rows with a response")],
)
def test_empty_files_are_named(service: FakeService, tmp_path: Path, name: str, fault: str) -> None:
    (tmp_path / "empty.jsonl").touch()
    result = invoke("rescore", tmp_path / name, "--with", service.url)
    assert result.exit_code in (1, 2)
    assert fault in result.stderr and name in result.stderr


def test_fingerprints_of_one_column_are_counted_and_said(service: FakeService, log: Path) -> None:
    def reply(call: Any) -> None:
        if call.path == "/v1/score/batch":
            result = ScoreResult(status=Status.OK, score=1.0, fingerprint=str(asked(service) > 32))
            ids = [request["id"] for request in call.body["requests"]]
            results = [{**result.model_dump(mode="json"), "id": request_id} for request_id in ids]
            service.replies[call.path] = Reply({"results": results})

    service.before_reply = reply
    result = invoke("rescore", log, "--with", service.url, "--batches-in-flight", 1)
    assert "the scores after are of several fingerprints" in result.stderr
    assert "fingerprints after:\n  32  False\n  32  True\n" in result.stdout


def test_the_page_escapes_what_it_shows_and_keeps_a_password(
    service: FakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, page = tmp_path / "rows <b>.jsonl", tmp_path / "page.html"
    row = {
        "response": MARKUP,
        "reference": "18",
        "score": 0.0,
        "step": 1,
        "sample": f"\x1b[31m\u202e{MARKUP}",
    }
    log.write_text(json.dumps(row) + "\n", encoding="utf-8")
    url = service.url.replace("//", "//me:secret@")
    ways = ["rescore", str(log), "--with", url, "--html", str(page)]
    monkeypatch.setattr(sys, "argv", ["reward-serve", *ways])
    result = invoke(*ways)
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.stdout and "\u202e" not in result.stdout
    text = page.read_text(encoding="utf-8")
    assert "default-src &#39;none&#39;" in text or "default-src 'none'" in text
    assert "<script" not in text and "<img" not in text and "<b>" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert "secret" not in text and f"--with {service.url}" in text
    assert "<h2>Wrong to right: 1</h2>" in text


def test_evals_page_has_tables_chart_disagreements(service: FakeService, tmp_path: Path) -> None:
    rows, page = tmp_path / "rows.jsonl", tmp_path / "page.html"
    lines = [
        {"id": f"r{n}", "response": MARKUP, "reference": "18", "correct": n == 1} for n in range(3)
    ]
    rows.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    result = invoke("eval", rows, "--url", service.url, "--html", page)
    assert result.exit_code == 0, result.output
    text = page.read_text(encoding="utf-8")
    assert "33.3%" in text and "By format" in text and "<svg" in text
    assert text.count("<details>") == 2 and "&lt;script&gt;alert(1)" in text
    assert "<script" not in text and "<img" not in text


def test_the_workbench_reads_results_as_a_judges_audits(service: FakeService, log: Path) -> None:
    assert invoke("rescore", log.parent, "--with", service.url).exit_code == 0
    table = VerdictTable([log.parent])
    table.read_all()
    audits = table.rows(
        'SELECT "by", count(*), sum(agreed::INT), count(run) FROM audits GROUP BY 1'
    )
    table.close()
    ((by, count, agreed, known),) = audits
    assert (by.partition("@")[0], count, known) == ("rule", 55, 55)
    assert agreed == sum(
        (n % 3 == 0) == (n % 2 == 0) for n in range(64) if logged(n)["score"] is not None
    )
