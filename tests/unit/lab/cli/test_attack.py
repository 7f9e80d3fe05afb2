from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import reward_serve_lab.cli.attack
from reward_serve.cli.main import cli
from reward_serve.schema import ScoreResult, Status, failure
from reward_serve_lab.attacks import crossed
from tests.fake_service import dead_url

Answer = Callable[[dict[str, Any]], ScoreResult]


class FakeJudge:
    """A client whose judge gives the test's answers."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.requests: list[dict[str, Any]] = []

    async def ascore_batch(self, requests: Sequence[dict[str, Any]]) -> list[ScoreResult]:
        self.requests.extend(requests)
        return [self.answer(request) for request in requests]


def always(score: float) -> Answer:
    return lambda request: ScoreResult(status=Status.OK, score=score, source="judge")


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> FakeJudge:
    judge = FakeJudge(always(0.0))
    monkeypatch.setattr(reward_serve_lab.cli.attack, "client_for", lambda *_: judge)
    return judge


def invoke(*arguments: object) -> Result:
    runner = CliRunner(env={"COLUMNS": "300", "NO_COLOR": "1", "TERM": "dumb"})
    return runner.invoke(cli, ["attack", *map(str, arguments)])


def own(folder: Path, *rows: dict[str, Any]) -> Path:
    path = folder / "own.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_a_judge_that_rejects_everything_passes(judge: FakeJudge, tmp_path: Path) -> None:
    out = tmp_path / "report.json"
    options = ["--model", "m", "--template", "solution", "--mode", "generate"]
    result = invoke("--out", out, "--seed", 5, *options)
    assert result.exit_code == 0, result.output
    sent = {(r["response"], r["reference"], r["question"]) for r in judge.requests}
    assert sent == {(a.response, a.reference, a.question) for a in crossed(5)}
    settings = {(r["model"], r["template"], r["options"]["mode"]) for r in judge.requests}
    assert settings == {("m", "solution", "generate")}
    report = json.loads(out.read_text(encoding="utf-8"))
    assert report["passed"] is True
    assert (report["n"], report["false_accepts"]) == (len(crossed(5)), 0)
    assert 0 < report["false_accept_upper95"] < 0.005
    assert report["accepted"] == []
    assert "0.00%" in result.stdout


def test_a_judge_that_accepts_everything_fails_and_its_accepts_are_listed(
    judge: FakeJudge, tmp_path: Path
) -> None:
    judge.answer = always(1.0)
    out = tmp_path / "report.json"
    result = invoke("--sample", 60, "--out", out)
    assert result.exit_code == 1
    texts = {request["response"] for request in judge.requests}
    report = json.loads(out.read_text(encoding="utf-8"))
    assert (report["passed"], report["false_accept_rate"]) == (False, 1.0)
    assert len(report["accepted"]) == report["n"] == 60
    assert "60 of 60 scored attacks were accepted" in result.stdout
    assert f"and {len(texts) - 10} more texts" in result.stdout
    assert "Traceback" not in result.output


def test_ones_own_attacks_are_sent_beside_the_suites(judge: FakeJudge, tmp_path: Path) -> None:
    mine = {"family": "mine[/red]", "response": "open \x1b[31m sesame", "reference": "18"}
    judge.answer = lambda r: always(float("sesame" in r["response"]))(r)
    result = invoke("--sample", 30, "--data", own(tmp_path, mine))
    assert result.exit_code == 1
    assert len(judge.requests) == 31
    assert "mine[/red]" in result.stdout
    assert r"open \x1b[31m sesame" in result.stdout
    assert "\x1b" not in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "none.jsonl"], "No such file"),
        (["--data", "pyproject.toml"], "line 1: is not JSON"),
        (["--out", "none/report.json"], "none/report.json"),
    ],
)
def test_options_that_cannot_be_met_are_refused(
    judge: FakeJudge, arguments: list[object], message: str
) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert judge.requests == []


def test_rows_without_a_score_are_not_accepts_but_fail_the_run(
    judge: FakeJudge, tmp_path: Path
) -> None:
    judge.answer = lambda request: failure(Status.UNPARSEABLE, "no [verdict] in the judge's text")
    out = tmp_path / "report.json"
    result = invoke("--sample", 50, "--max-false-accepts", 1, "--out", out)
    assert result.exit_code == 1
    report = json.loads(out.read_text(encoding="utf-8"))
    assert (report["false_accepts"], report["unscored"]) == (0, 50)
    assert report["statuses"] == {"unparseable": 50}
    assert "50 of 50 rows got no score" in result.stdout
    assert "no [verdict] in the judge's text" in result.stdout


def test_an_unreachable_url_exits_1_with_the_reason() -> None:
    url = dead_url()
    result = invoke("--url", url, "--sample", 5)
    assert result.exit_code == 1
    assert f"{url}: ConnectError" in result.stderr
    assert "Traceback" not in result.output


def test_a_rubric_that_rewards_doing_nothing_is_told_what_to_require(
    judge: FakeJudge, tmp_path: Path
) -> None:
    """A response without a word breaks no rule, and covers nothing."""
    names = {"silent": "It reveals no secret.", "covers": "It covers the main topics."}
    rubric = [{"name": name, "text": text} for name, text in names.items()]
    (file := tmp_path / "rubric.yaml").write_text(json.dumps(rubric))

    def answer(request: dict[str, Any]) -> ScoreResult:
        parts = {"silent": 1.0, "covers": 0.0}
        components = {n: {"score": s, "status": "ok"} for n, s in parts.items()}
        gated = any(one["required"] for one in request["rubric"])
        return ScoreResult.model_validate(
            {"status": "ok", "score": 0.0 if gated else 0.5, "components": components}
        )

    judge.answer = answer
    result = invoke("--rubric", file, "--question", "Summarise the chapter.")
    assert result.exit_code == 1
    assert "none of these responses meets covers" in result.output
    assert {each["response"] for each in judge.requests} >= {"", ".", "Summarise the chapter."}
    rubric[1]["required"] = True  # type: ignore[assignment]
    file.write_text(json.dumps(rubric))
    assert invoke("--rubric", file).exit_code == 0
