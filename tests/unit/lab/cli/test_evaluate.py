import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import reward_serve_lab.cli.evaluate as command
from reward_serve.schema import Component, ScoreResult, Status, failure
from tests.fake_service import FakeService, dead_url
from tests.unit.lab.fakes import FakeClient, invoke, judged, reported, written

ROWS = [
    {"id": f"r{n}", "response": str(n), "reference": "18", "correct": n % 2 == 0}
    for n in range(1, 21)
]


def by_parity(request: dict[str, Any], together: int) -> ScoreResult:
    """Right throughout."""
    return judged(0.9 if int(request["response"]) % 2 == 0 else 0.1, fingerprint="f")


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> FakeClient:
    client = FakeClient(by_parity)
    monkeypatch.setattr(command, "client_for", lambda url, app: client)
    return client


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return written(tmp_path, *ROWS)


def test_a_deployed_judge_is_measured_over_http(tmp_path: Path) -> None:
    answers = ["#### 18", "#### 17", "The answer is 18.", "eighteen or so", "#### 18"]
    labels = [True, False, True, True, False]
    labelled = zip(answers, labels, strict=True)
    rows = ({"response": text, "reference": "18", "correct": label} for text, label in labelled)
    file = written(tmp_path, *rows)
    plot = tmp_path / "plot.png"
    with FakeService() as service:
        report = reported("eval", file, "--url", service.url, "--plot", plot, folder=tmp_path)
    assert (report["n"], report["agreement"]) == (5, 3 / 5)
    assert report["statuses"] == {"ok": 4, "unparseable": 1}
    assert report["confusion"] == {
        "true_accept": 2,
        "true_reject": 1,
        "false_accept": 1,
        "false_reject": 0,
    }
    assert report["by_format"]["prose"]["unscored"] == 1
    assert {"rule: marker_matches", "rule: marker_differs", "unscored"} == set(report["stages"])
    assert [length["n"] for length in report["by_length"].values()] == [5]
    assert list(report["reasons"]) == ["unparseable"]
    assert report["latency_ms"]["p95"] >= report["latency_ms"]["p50"] >= 0
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_options_are_in_every_request_and_people_see_tables(client: FakeClient, rows: Path) -> None:
    client.answer = lambda request, _: judged(0.9)
    options = ["--model", "m", "--template", "solution", "--mode", "generate", "--timeout-s", 7]
    result = invoke("eval", rows, *options, "--batch-size", 5, "--disagreements", 3)
    assert result.exit_code == 0, result.output
    assert [len(batch) for batch in client.asked] == [5, 5, 5, 5]
    settings = {"mode": "generate", "cache": False}
    expected = {"model": "m", "template": "solution", "options": settings, "timeout_s": 7.0}
    for request in client.asked[0]:
        assert {key: request[key] for key in expected} == expected
    assert set(request) == {*expected, "id", "response", "reference"}
    assert "50.0% (29.9 to 70.1)" in result.stdout
    assert "disagreements: 3 of 10" in result.stdout


def test_errors_by_coverage_and_a_threshold_are_shown(client: FakeClient, tmp_path: Path) -> None:
    client.answer = lambda request, _: judged(float(request["response"]))
    shares = ["0.9", "0.6", "0.2", "0.1", "0.7"]
    labels = [True, True, True, False, False]
    rows = [
        {"response": text, "reference": "18", "correct": label}
        for text, label in zip(shares, labels, strict=True)
    ]
    file, html = written(tmp_path, *rows), tmp_path / "page.html"
    output = invoke("eval", file, "--max-error", 0.01, "--html", html).stdout
    assert re.search(r"judge.min_probability +\W+scored +\W+errors among them", output)
    assert re.search(r"0\.8 +\W+3 \(60.0%\) +\W+33\.3% ", output)
    assert "as deployed: judge.min_probability 0.81: 0.0% (" in output
    assert "By judge.min_probability" in html.read_text(encoding="utf-8")
    report = reported("eval", file, folder=tmp_path)
    assert [point["scored"] for point in report["coverage"]] == [5, 4, 3, 2]


def test_templates_and_modes_are_compared(client: FakeClient, rows: Path, tmp_path: Path) -> None:
    def answer(request: dict[str, Any], together: int) -> ScoreResult:
        if request["options"]["mode"] == "generate":
            return failure(Status.INVALID, "options.mode: not [allowed] here")
        return judged(0.9) if request["template"] == "lenient" else by_parity(request, together)

    client.answer = answer
    ways = ["--template", "strict", "--template", "lenient", "--mode", "label"]
    ways += ["--mode", "generate", "--template", "strict"]
    report = reported("eval", rows, *ways, "--plot", tmp_path / "p.png", folder=tmp_path)
    runs = report["runs"]
    assert [(run["template"], run["mode"], run["agreement"]) for run in runs] == [
        ("strict", "label", 1.0),
        ("strict", "generate", 0.0),
        ("lenient", "label", 0.5),
        ("lenient", "generate", 0.0),
    ]
    assert {key: report[key] for key in runs[0]} == runs[0]
    output = invoke("eval", rows, *ways).stdout
    (header,) = [line for line in output.splitlines() if "strict, label" in line and "┃" in line]
    assert "lenient, generate" in header
    assert "options.mode: not [allowed] here" in output


def test_a_sample_is_seeded_and_in_order(client: FakeClient, rows: Path, tmp_path: Path) -> None:
    def lines(seed: int) -> list[int]:
        results = tmp_path / "results.jsonl"
        invoke("eval", rows, "--results", results, "--sample", 8, "--seed", seed)
        return [json.loads(line)["line"] for line in results.read_text("utf-8").splitlines()]

    drawn = lines(1)
    assert len(drawn) == 8
    assert drawn == sorted(drawn) == lines(1) != lines(2)


def test_stability_scores_again_at_other_batch_sizes_and_tells_what_flips(
    client: FakeClient, rows: Path, tmp_path: Path
) -> None:
    def answer(request: dict[str, Any], together: int) -> ScoreResult:
        if request["response"] == "4":
            return judged(0.9 if together > 1 else 0.2)
        if request["response"] == "6":
            return judged(0.515 if together > 1 else 0.485)
        return by_parity(request, together)

    client.answer = answer
    stability = reported("eval", rows, "--stability", "--batch-size", 10, folder=tmp_path)[
        "stability"
    ]
    sizes = [setting["batch_size"] for setting in stability["settings"]]
    assert sizes == [10, 10, 1, 8, 64]
    assert [setting["batches_in_flight"] for setting in stability["settings"]] == [8, 8, 1, 8, 8]
    assert sorted({len(batch) for batch in client.asked}) == [1, 4, 8, 10, 20]
    assert (stability["rows"], stability["flips"], stability["flips_within_margin"]) == (20, 1, 1)
    assert [row["row"] for row in stability["flipped"]] == ["r4"]
    assert [row["row"] for row in stability["within_margin"]] == ["r6"]


def test_a_run_is_compared_with_an_earlier(client: FakeClient, rows: Path, tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    assert invoke("eval", rows, "--results", results).exit_code == 0
    same = reported("eval", rows, "--compare", results, folder=tmp_path)["compared"]
    assert (same["rows"], same["flips"], same["same_fingerprints"]) == (20, 0, True)
    client.answer = lambda request, _: judged(0.9, fingerprint="g")
    other = reported("eval", rows, "--compare", results, "--sample", 6, folder=tmp_path)["compared"]
    assert (other["rows"], other["unmatched"], other["same_fingerprints"]) == (6, 0, False)
    assert other["flips"] > 0
    assert "different fingerprints" in invoke("eval", rows, "--compare", results).stdout


Arguments = Callable[[Path], list[object]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (lambda f: ["--out", f / "none" / "x"], "does not exist"),
        (lambda f: ["--plot", f], "is a folder"),
        (lambda f: ["--compare", f / "none"], "No such file"),
        (lambda f: ["--compare", f / "lines.jsonl"], "line 1"),
        (lambda f: ["--compare", "/dev/null"], "has no results for these rows"),
        (
            lambda f: ["--results", f / "r", "--template", "a", "--template", "b"],
            "a single template and mode",
        ),
        (lambda f: ["--pairs"], "is a command of its own: reward-serve pairs FILE"),
        (lambda f: [written(f, '{"response": "18"}', "{")][1:], "no row is labelled"),
    ],
)
def test_options_that_cannot_be_met_are_refused_before_anything_is_asked(
    client: FakeClient, rows: Path, tmp_path: Path, arguments: Arguments, message: str
) -> None:
    result = invoke("eval", rows, *arguments(tmp_path))
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert client.asked == []


def test_an_unreachable_url_exits_1_with_the_reason(rows: Path, tmp_path: Path) -> None:
    url, out = dead_url(), tmp_path / "report.json"
    result = invoke("eval", rows, "--url", url, "--out", out)
    assert result.exit_code == 1
    assert f"{url}: ConnectError" in result.stderr
    assert not out.exists()


def test_rows_that_cannot_be_scored_exit_1_with_the_reason(rows: Path, client: FakeClient) -> None:
    reason = "model: no model is named 'jugde'; choose from judge"
    client.answer = lambda request, together: failure(Status.INVALID, reason)
    result = invoke("eval", rows, "--model", "jugde")
    assert result.exit_code == 1
    assert result.output.rstrip().endswith(f"no row was scored; invalid, first reason: {reason}")


def test_labelled_criteria_are_measured_by_criterion(client: FakeClient, tmp_path: Path) -> None:
    def of_rubric(request: dict[str, Any], together: int) -> ScoreResult:
        brief = float(len(request["response"]) < 3)
        parts = {"brief": Component(status=Status.OK, score=brief)}
        return ScoreResult(status=Status.OK, score=brief, source="judge", components=parts)

    client.answer = of_rubric
    rubric = [{"name": "brief", "text": "It is brief."}]
    rows = [{"response": "a" * n, "rubric": rubric, "criteria": {"brief": 1}} for n in (1, 2, 3, 4)]
    file = written(tmp_path, *rows)
    report = reported("eval", file, folder=tmp_path)
    assert client.asked[0][0]["rubric"] == rubric
    assert (report["agreement"], report["labelled"]) == (None, 0)
    assert report["by_criterion"]["brief"]["agreement"] == 2 / 4
    assert "50.0% (15.0 to 85.0)" in invoke("eval", file, "--plot", tmp_path / "plot.png").stdout


def test_rows_that_are_not_pairs_are_refused(rows: Path) -> None:
    result = invoke("pairs", rows)
    assert result.exit_code == 2, result.output
    assert "line 1: responses: Field required" in result.stderr


def test_pairs_are_compared_over_http(service: FakeService, tmp_path: Path) -> None:
    pair = {"question": "?", "responses": ["a", "aa"]}
    file = written(tmp_path, *({**pair, "preferred": n} for n in (1, 1, 0)))
    report = reported("pairs", file, "--url", service.url, folder=tmp_path)
    assert (report["n"], report["accuracy"], report["unscored"]) == (3, 2 / 3, 0)
    asked = [call.body for call in service.calls]
    assert all(item["strategy"] == "all_pairs" and "preferred" not in item for item in asked)
