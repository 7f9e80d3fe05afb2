"""What people type who come from verl's ``llm_judge_remote``: each setting works or is refused.

Issue "Every row of the systems we replace works to the letter", its rows C; ``test_rows.py`` has
those of data and containers. ``reward_kwargs`` and what verl itself does: ``clients/verl/tests``.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

from examples.tests.gsm8k.test_scripts import DEPLOYMENTS, run
from reward_serve.cli.main import cli
from reward_serve.client.transport import HttpTransport
from reward_serve.schema import ScoreRequest
from reward_serve_verl import llm_judge_remote as drop_in
from reward_serve_verl import scoring
from tests.fake_service import FakeService, dead_url
from tests.rows import rows
from tests.service.reported.test_rows import prepare, variables
from tests.unit.reward_models.test_judge import FakeEngine, judge

SOURCE = "llm_judge_remote_math500"
RIGHT, WORDS = "#### 18", "It is eighteen."
ROW: dict[str, Any] = {"data_source": SOURCE, "solution_str": RIGHT, "ground_truth": ["17", "18"]}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("URL", "API_KEY", "TIMEOUT", "TIMEOUT_S", "APP"):
        for prefix in ("REWARD_SERVE", "LLM_JUDGE_SERVER"):
            monkeypatch.delenv(f"{prefix}_{name}", raising=False)
    monkeypatch.setattr(scoring, "_noted", set())


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeService]:
    with FakeService() as service:
        monkeypatch.setenv("LLM_JUDGE_SERVER_URL", service.url)
        yield service


def asked(service: FakeService, **info: Any) -> dict[str, Any]:
    """What the service is asked about a row."""
    drop_in.compute_score(**ROW, extra_info=info)
    request: dict[str, Any] = service.calls[-1].body["requests"][0]
    return {"key": service.calls[-1].headers.get("authorization")} | request


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("LLM_JUDGE_SERVER_API_KEY=k", {"key": "Bearer k"}),
        ("LLM_JUDGE_SERVER_TIMEOUT=7", {"timeout_s": 7.0}),
        ("", {"timeout_s": 60.0}),
    ],
)
def test_a_variable_of_the_judge_is_read(
    typed: str, expected: dict[str, Any], service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables(typed).items():
        monkeypatch.setenv(name, value)
    assert expected.items() <= asked(service).items()


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        *rows(__file__, "extra_info"),
        (dict.fromkeys(("temperature", "top_p", "max_new_tokens"), float("nan")), {}),
    ],
)
def test_a_field_of_extra_info_reaches_the_judge(
    info: dict[str, Any], expected: dict[str, Any], service: FakeService
) -> None:
    request = asked(service, **info)
    assert expected.items() <= request.items()
    always = {"id", "key", "metadata", "response", "reference", "timeout_s"}
    assert request.keys() - expected.keys() == always - expected.keys()


def test_a_rows_server_and_batch_size_are_used(service: FakeService) -> None:
    infos = [{"server_url": service.url, "batch_size": 2}] * 4
    drop_in.compute_score_batched([SOURCE] * 4, [RIGHT] * 4, ["18"] * 4, infos)
    assert [len(call.body["requests"]) for call in service.calls] == [2, 2]


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ({"temperature": 0.7, "top_p": 0.8, "max_new_tokens": 512}, "temperature, top_p, max_new"),
        ({"max_tokens": 512, "num_workers": 4}, "max_tokens, num_workers: no effect"),
        ({"model": "Qwen/Qwen3-32B"}, "model: no effect"),
    ],
)
def test_a_field_without_effect_is_named_once(
    typed: dict[str, Any], says: str, caplog: pytest.LogCaptureFixture
) -> None:
    with FakeService(judge(FakeEngine())) as service:
        for _ in range(3):
            drop_in.compute_score(SOURCE, WORDS, "18", {"server_url": service.url, **typed})
    assert caplog.text.count("no effect") == 1
    assert says in caplog.text


def test_a_template_beyond_the_bundled_judge_is_named(caplog: pytest.LogCaptureFixture) -> None:
    bundled = FakeEngine(description={"weights": "bundled"})
    with FakeService(judge(bundled)) as service:
        row = {"server_url": service.url, "problem": "9 + 9?"}
        drop_in.compute_score(SOURCE, WORDS, "18", row)
        assert not caplog.text
        drop_in.compute_score(SOURCE, WORDS, "18", {**row, "prompt_template": "default"})
    assert "prompt_template: the bundled judge was trained on final_answer alone" in caplog.text


def test_a_judge_that_writes_uses_what_a_row_sets(caplog: pytest.LogCaptureFixture) -> None:
    engine, info = FakeEngine(), {"temperature": 0.7, "top_p": 0.8, "max_new_tokens": 256}
    with FakeService(judge(engine, mode="generate")) as service:
        row = {"server_url": service.url, "problem": "9 + 9?", "prompt_template": "default", **info}
        assert drop_in.compute_score(SOURCE, WORDS, "18", row) == 1.0
    (sampling,) = engine.settings
    assert (sampling.temperature, sampling.top_p, sampling.max_tokens) == (0.7, 0.8, 256)
    assert "Problem:\n<question>\n9 + 9?\n</question>" in engine.prompts[0]
    assert "no effect" not in caplog.text


@pytest.fixture
def verls(monkeypatch: pytest.MonkeyPatch) -> None:
    """verl's own scoring, which knows ``openai/gsm8k`` and refuses other names as verl does."""

    def score(data_source: str, *_: Any) -> float:
        if data_source != "openai/gsm8k":
            raise NotImplementedError(f"Reward function is not implemented for {data_source=}")
        return 0.25

    for name in ("verl", "verl.utils", "verl.utils.reward_score"):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(default_compute_score=score))


def test_rows_are_judged_by_their_data_source(verls: None, service: FakeService) -> None:
    sources = [SOURCE, "openai/gsm8k", "llm_judge_remote_custom"]
    batch = [RIGHT] * 3, ["18"] * 3
    assert drop_in.compute_score_batched(sources, *batch) == [1.0, 0.25, 1.0]
    assert drop_in.compute_score("openai/gsm8k", RIGHT, "18") == 0.25
    assert drop_in.compute_score(None, RIGHT, "18") == 1.0
    every = drop_in.compute_score_batched(sources, *batch, judged_data_sources="*")
    assert every == [1.0] * 3
    with pytest.raises(NotImplementedError, match=r"'mine'; see reward_kwargs.judged_data_sources"):
        drop_in.compute_score("mine", RIGHT, "18")


def test_membership_pairs_are_rows_for_the_judge(tmp_path: Path) -> None:
    assert prepare(tmp_path, "--mia", "--members", "8").exit_code == 0
    rows = pd.read_parquet(tmp_path / "train.parquet").to_dict("records")
    assert all(scoring.is_judged(row["data_source"], drop_in.JUDGED) for row in rows)


def test_lexical_similarity_can_be_chosen(service: FakeService) -> None:
    row = SOURCE, "the capital of France", "Paris, the capital"
    away: dict[str, Any] = {"url": dead_url(), "max_attempts": 1}
    assert drop_in.compute_score(*row, **away, on_failure="lexical") == pytest.approx(4 / 7)
    assert drop_in.compute_score(*row, **away, on_failure="none") == 0.0


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"group_size": 4}, "reward_kwargs.group_size: needs path=pkg://reward_serve_verl"),
        (
            {"connection_pool_size": 9},
            "connection_pool_size: unknown; choose from url, app, .*conn",
        ),
    ],
)
def test_a_setting_that_floats_cannot_have_is_refused(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        drop_in.compute_score(**ROW, **settings)


@pytest.mark.parametrize("connections", [1028, None])
def test_the_caller_sets_the_pool(
    connections: int | None, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[int | None] = []
    connect = HttpTransport._opened

    def noted(transport: HttpTransport) -> Any:
        client = connect(transport)
        opened.append(client._transport._pool._max_keepalive_connections)  # type: ignore[attr-defined]
        return client

    monkeypatch.setattr(HttpTransport, "_opened", noted)
    settings: dict[str, Any] = {} if connections is None else {"connections": connections}
    drop_in.compute_score(**ROW, **settings, timeout_s=30 + (connections or 0))
    assert opened == [connections or 64]


def test_the_check_calls_the_reward_function_and_times_it() -> None:
    command = [sys.executable, "-m", "reward_serve_verl.llm_judge_remote", "--requests", "8"]

    def check(*arguments: str, **environment: str) -> tuple[int, str]:
        done = subprocess.run([*command, *arguments], env=environment, capture_output=True)
        return done.returncode, done.stdout.decode()

    right = FakeEngine(label=lambda prompt: {"0": -3.0, "1": 0.0})
    with FakeService(judge(right)) as service:
        code, by_variable = check(LLM_JUDGE_SERVER_URL=service.url, LLM_JUDGE_SERVER_API_KEY="k")
        keys = {call.headers.get("authorization") for call in service.calls}
        _, by_option = check("--server-url", service.url)
    assert (code, keys) == (0, {"Bearer k"})
    names = ["models", "model rule", "latency", "a batch", "compute_score"]
    for output in (by_variable, by_option):
        assert [line.split(": ")[0] for line in output.splitlines()] == names
        assert re.search(r"\d+ ms for one, \d+ verdicts/s in a batch, 9 of 9 ok", output)
    assert check(LLM_JUDGE_SERVER_URL=dead_url())[0] == 1


@pytest.mark.parametrize(("typed", "arguments", "expected"), rows(__file__, "server"))
def test_a_variable_of_the_server_reaches_the_container(
    typed: str, arguments: list[str], expected: str, tmp_path: Path
) -> None:
    docker = tmp_path / "docker"
    docker.write_text(f'#!/bin/sh\necho "$*" >>{tmp_path}/calls\n')
    docker.chmod(0o755)
    script = str(DEPLOYMENTS.parent / "deploy" / "containers" / "run.sh")
    path = f"{tmp_path}:{os.environ['PATH']}"
    assert run(script, *arguments, PATH=path, **variables(typed)).returncode == 0
    started = (tmp_path / "calls").read_text().splitlines()[-1]
    assert expected in started and "secret" not in started


@pytest.mark.parametrize("typed", rows(__file__, "arguments"))
def test_an_argument_of_the_server_is_refused_with_the_remedy(typed: str) -> None:
    refused = CliRunner().invoke(cli, ["serve", *typed.split()], env={"COLUMNS": "400"})
    assert refused.exit_code == 2
    assert "use --set engine.max_model_len=8192 and the like, and serve MODEL" in refused.output


async def test_final_score_is_a_verdict_of_any_answer_format() -> None:
    written = FakeEngine(text=lambda prompt: ("Both are 18.\n### Final Score: 1", False))
    grader = judge(written, template="final_score", mode="generate", rules_first=False)
    for response in (RIGHT, WORDS, "\\boxed{18}", "18"):
        result = await grader.score(ScoreRequest(response=response, reference="9 * 2\n#### 18"))
        assert (result.score, result.label) == (1.0, "1")
    assert "#### <number>" not in written.prompts[0]
