"""A GRPO run of examples/grpo whose processes die, with a fake engine and a fake judge."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from deployments.local import ROOT
from examples.tests.grpo import fake_endpoint
from reward_serve.schema import ScoreRequest
from reward_serve_judge.weights import prepare_bundled
from tests.fake_service import Call, FakeService, Reply
from tests.service.engines.test_process_guard import runs

PATIENCE_S = 240.0
SHORT = ("prompts=2", "group=4", "evaluate_every=100")
pytestmark = pytest.mark.timeout(900)


class HalfRight(FakeService):
    """A judge that takes about every other response for the right answer."""

    def answer(self, call: Call) -> Reply:
        if isinstance(call.body, dict):
            for request in call.body.get("requests", [call.body]):
                reference = ScoreRequest(**request).references[0].removeprefix("#### ")
                right = len(request["response"]) % 2
                request["response"] = f"#### {reference if right else -1}"
        return super().answer(call)


def until(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE_S
    while not condition() and time.monotonic() < end:
        time.sleep(0.2)
    return condition()


class Run:
    """A short judged run in processes of its own; SkyRL's engine is the fake one.

    Args:
        judge: URL of the judge.
        folder: of the cache and of what the run writes.
        steps: of training.
    """

    def __init__(self, judge: str, folder: Path, steps: int) -> None:
        self.number_of_steps = steps
        self._folder = folder
        self._cache = folder / "cache"
        if not self._cache.exists():
            self._fill_cache()
        settings = [part for pair in (*SHORT, f"steps={steps}") for part in ("--set", pair)]
        options = ["--judge", judge, "--out", str(folder / "out")]
        variables = {"REWARD_SERVE_CACHE": str(self._cache), "FAKE_TINKER_DELAY_S": "0.5"}
        with (folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "examples.grpo", "judge-sync", *settings, *options],
                cwd=ROOT,
                env={**os.environ, **variables, "COLUMNS": "500"},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _fill_cache(self) -> None:
        model = prepare_bundled(adapter=None)
        uv = self._cache / "tinker" / "bin" / "uv"
        uv.parent.mkdir(parents=True)
        (self._cache / "tinker" / ".installed").touch()
        (self._cache / model.name).symlink_to(model)
        uv.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{fake_endpoint.__file__}" "$@"\n')
        uv.chmod(0o755)

    def log(self) -> str:
        return (self._folder / "log").read_text()

    def engine(self) -> int:
        return int((self._cache / "grpo" / "checkpoints" / "pid").read_text())

    def steps(self) -> list[dict[str, Any]]:
        file = self._folder / "out" / "judge-sync" / "steps.jsonl"
        lines = file.read_text().split("\n")[:-1] if file.exists() else []
        return [json.loads(line) for line in lines]

    def await_steps(self, count: int) -> None:
        assert until(lambda: len(self.steps()) >= count or self.process.poll() is not None)
        assert len(self.steps()) >= count, self.log()

    def descendants(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def finish(self) -> None:
        assert self.process.wait(PATIENCE_S) == 0, self.log()
        assert [line["step"] for line in self.steps()] == list(range(self.number_of_steps))
        assert any(line["trained_groups"] for line in self.steps())
        assert until(lambda: not runs(self.engine()))
        checkpoints = self._cache / "grpo" / "checkpoints"
        assert not list(checkpoints.rglob("sampler_weights"))
        names = sorted(file.name for file in checkpoints.rglob("*.tar.gz"))
        assert names == [f"step-{self.number_of_steps}.tar.gz", "warm-up.tar.gz"]


@pytest.fixture
def judge() -> Iterator[str]:
    with HalfRight() as service:
        yield service.url


def test_a_run_survives_its_engine_and_its_rollout_worker(judge: str, tmp_path: Path) -> None:
    run = Run(judge, tmp_path, 8)
    run.await_steps(1)
    first = run.engine()
    os.kill(first, signal.SIGKILL)
    run.await_steps(3)
    (worker,) = [p for p in run.descendants() if p.name().startswith("ray::RolloutWo")]
    worker.kill()
    run.finish()
    assert "the policy's engine ended; resuming after step" in run.log()
    assert run.engine() != first


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_an_ended_run_leaves_no_process_and_resumes(name: str, judge: str, tmp_path: Path) -> None:
    run = Run(judge, tmp_path, 4)
    run.await_steps(1)
    processes = run.descendants()
    assert len(processes) > 3
    run.process.send_signal(signal.Signals[name])
    run.process.wait(PATIENCE_S)
    assert until(lambda: not any(runs(process.pid) for process in processes))
    assert until(lambda: not runs(run.engine()))
    assert name == "SIGKILL" or "run the same command to resume" in run.log()
    taken = run.steps()
    again = Run(judge, tmp_path, 4)
    again.finish()
    assert again.steps()[: len(taken)] == taken
