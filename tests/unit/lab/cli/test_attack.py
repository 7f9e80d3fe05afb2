import json
from pathlib import Path
from typing import Any

import pytest

import reward_serve_lab.cli.attack
from reward_serve.schema import ScoreResult, Status, failure
from reward_serve_lab.attacks import crossed
from tests.rows import rows
from tests.unit.lab.fakes import FakeClient, invoke, reported, ruled, written


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> FakeClient:
    """Of a judge that rejects everything."""
    client = FakeClient(lambda request, _: ruled(False))
    monkeypatch.setattr(reward_serve_lab.cli.attack, "client_for", lambda *_: client)
    return client


def sent(client: FakeClient) -> list[dict[str, Any]]:
    return [request for batch in client.asked for request in batch]


def test_a_judge_that_rejects_everything_passes(client: FakeClient, tmp_path: Path) -> None:
    options = ["--seed", 5, "--model", "m", "--template", "solution", "--mode", "generate"]
    report = reported("attack", *options, folder=tmp_path)
    suite = crossed(5)
    fields = ("response", "question", "messages", "reference")
    assert [{name: r[name] for name in fields if name in r} for r in sent(client)] == [
        attack.request for attack in suite
    ]
    settings = {(r["model"], r["template"], r["options"]["mode"]) for r in sent(client)}
    assert settings == {("m", "solution", "generate")}
    assert (report["passed"], report["n"], report["false_accepts"]) == (True, len(suite), 0)
    assert 0 < report["false_accept_upper95"] < 0.005
    assert report["accepted"] == []


def test_hostile_programs_are_sent_with_their_tests(client: FakeClient, tmp_path: Path) -> None:
    report = reported("attack", "--programs", "--family", "hunts", folder=tmp_path)
    requests = sent(client)
    assert all(
        "def solve(n)" in r["response"] or "print(RESULT)" in r["response"] for r in requests
    )
    assert {type(json.loads(r["reference"])) for r in requests} == {dict, list}
    assert list(report["families"]) == ["hunts"]
    assert report["n"] == len(requests) > 100


@pytest.mark.parametrize(
    ("answer", "figures", "message"),
    [
        (ruled(True), (60, 0, 1.0), "60 of 60 scored attacks were accepted"),
        (failure(Status.UNPARSEABLE, "no [verdict]"), (0, 60, None), "60 of 60 rows got no score"),
    ],
)
def test_accepts_and_rows_without_a_score_fail_the_run(
    client: FakeClient, tmp_path: Path, answer: ScoreResult, figures: tuple[Any, ...], message: str
) -> None:
    client.answer = lambda request, _: answer
    report = reported("attack", "--sample", 60, folder=tmp_path, code=1)
    assert report["passed"] is False
    assert (report["false_accepts"], report["unscored"], report["false_accept_rate"]) == figures
    assert len(report["accepted"]) == report["false_accepts"]
    result = invoke("attack", "--sample", 60, "--max-false-accepts", 0.5)
    assert (result.exit_code, message in result.stdout, (answer.reason or "") in result.stdout) == (
        (1, True, True)
    )


def test_conversations_are_sent_flat_to_measure_fences(client: FakeClient, tmp_path: Path) -> None:
    families = ["--family", "tool_tags", "--family", "no_answer"]
    reported("attack", *families, "--flat", folder=tmp_path)
    assert all("messages" not in request for request in sent(client))
    assert any("assistant: {" in request["question"] for request in sent(client))
    attacks = [attack for attack in crossed() if attack.family in families]
    assert [r["response"] for r in sent(client)] == [attack.response for attack in attacks]


def test_ones_own_attacks_are_sent_beside_the_suites(client: FakeClient, tmp_path: Path) -> None:
    mine = {"family": "mine[/red]", "response": "open \x1b[31m sesame", "reference": "18"}
    client.answer = lambda request, _: ruled("sesame" in request.get("response", ""))
    result = invoke("attack", "--sample", 30, "--data", written(tmp_path, mine))
    assert (result.exit_code, len(sent(client))) == (1, 31)
    assert "mine[/red]" in result.stdout
    assert r"open \x1b[31m sesame" in result.stdout
    assert "\x1b" not in result.stdout


@pytest.mark.parametrize(("arguments", "message"), rows(__file__, "impossible"))
def test_impossible_options_fail(client: FakeClient, arguments: list[object], message: str) -> None:
    result = invoke("attack", *arguments)
    assert (result.exit_code, message in result.stderr, client.asked) == (2, True, [])


def test_a_rubric_that_rewards_nothing_gets_a_remedy(client: FakeClient, tmp_path: Path) -> None:
    """A response without a word breaks no rule, and covers nothing."""
    names = {"silent": "It reveals no secret.", "covers": "It covers the main topics."}
    rubric: list[dict[str, Any]] = [{"name": name, "text": text} for name, text in names.items()]
    (file := tmp_path / "rubric.yaml").write_text(json.dumps(rubric))

    def answer(request: dict[str, Any], _: int) -> ScoreResult:
        parts = {"silent": 1.0, "covers": 0.0}
        components = {n: {"score": s, "status": "ok"} for n, s in parts.items()}
        gated = any(criterion["required"] for criterion in request["rubric"])
        return ScoreResult.model_validate(
            {"status": "ok", "score": 0.0 if gated else 0.5, "components": components}
        )

    client.answer = answer
    result = invoke("attack", "--rubric", file, "--question", "Summarise the chapter.")
    assert result.exit_code == 1
    assert "none of these responses meets covers" in result.output
    assert {request["response"] for request in sent(client)} >= {"", ".", "Summarise the chapter."}
    rubric[1]["required"] = True
    file.write_text(json.dumps(rubric))
    assert invoke("attack", "--rubric", file).exit_code == 0
