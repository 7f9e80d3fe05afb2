"""What becomes of a GRPO run, with a fake engine and a fake judge, when its processes die."""

from __future__ import annotations

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
from reward_serve_judge.weights import prepare_bundled
from tests.fake_service import Call, FakeService, Reply
from tests.service.engines.owners import runs

pytestmark = pytest.mark.timeout(900)
PATIENCE_S = 240.0


class HalfRight(FakeService):
    """A judge that takes about every other response for the right answer."""

    def answer(self, call: Call) -> Reply:
        if isinstance(call.body, dict):
            for request in call.body.get("requests", [call.body]):
                right = len(request["response"]) % 2
                request["response"] = f"#### {request['reference'] if right else -1}"
        return super().answer(call)


class Run:
    """Runs in processes of their own, which go on from each other; SkyRL's engine is the fake."""

    def __init__(self, judge: str, folder: Path, steps: int) -> None:
        self.steps, self.log = steps, folder / "log"
        self.checkpoints = folder / "cache" / "grpo" / "checkpoints"
        self._out = folder / "out"
        settings = ("prompts=2", "group=4", "evaluate_every=100", f"steps={steps}")
        options = [part for each in settings for part in ("--set", each)]
        program = [sys.executable, "-m", "examples.grpo", "judge-sync"]
        self._command = [*program, *options, "--judge", judge, "--out", str(self._out)]
        self._variables = {
            **os.environ,
            "REWARD_SERVE_CACHE": str(cache_with_a_fake_engine(folder / "cache")),
            "FAKE_TINKER_DELAY_S": "0.5",
        }

    def start(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                self._command,
                cwd=ROOT,
                env=self._variables,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def taken(self) -> list[dict[str, Any]]:
        file = self._out / "judge-sync" / "steps.jsonl"
        lines = file.read_text().split("\n")[:-1] if file.exists() else []
        return [json.loads(line) for line in lines]

    def await_steps(self, count: int, process: subprocess.Popen[bytes]) -> None:
        until(lambda: len(self.taken()) >= count or process.poll() is not None)
        assert len(self.taken()) >= count, self.log.read_text()

    def engine(self) -> int:
        return int((self.checkpoints / "pid").read_text())

    def await_end(self, process: subprocess.Popen[bytes]) -> None:
        assert process.wait(PATIENCE_S) == 0, self.log.read_text()
        assert [line["step"] for line in self.taken()] == list(range(self.steps))
        assert any(line["trained_groups"] for line in self.taken())
        assert until(lambda: not runs(self.engine()))
        assert not list(self.checkpoints.rglob("sampler_weights"))
        names = sorted(file.name for file in self.checkpoints.rglob("*.tar.gz"))
        assert names == [f"step-{self.steps}.tar.gz", "warm-up.tar.gz"]


def cache_with_a_fake_engine(folder: Path) -> Path:
    model = prepare_bundled(adapter=None)
    installed = folder / "tinker"
    (installed / "bin").mkdir(parents=True)
    (installed / ".installed").touch()
    (folder / model.name).symlink_to(model)
    uv = installed / "bin" / "uv"
    uv.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{fake_endpoint.__file__}" "$@"\n')
    uv.chmod(0o755)
    return folder


def until(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE_S
    while not condition() and time.monotonic() < end:
        time.sleep(0.2)
    return condition()


@pytest.fixture
def judge() -> Iterator[str]:
    with HalfRight() as service:
        yield service.url


def test_a_run_survives_its_engine_and_its_rollout_worker(judge: str, tmp_path: Path) -> None:
    run = Run(judge, tmp_path, 8)
    process = run.start()
    run.await_steps(1, process)
    first = run.engine()
    os.kill(first, signal.SIGKILL)
    run.await_steps(3, process)
    children = psutil.Process(process.pid).children(recursive=True)
    (worker,) = [child for child in children if child.name().startswith("ray::RolloutWo")]
    worker.kill()

    run.await_end(process)
    assert "the policy's engine ended; resuming after step" in run.log.read_text()
    assert run.engine() != first


@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL"])
def test_a_run_that_is_ended_leaves_no_process_and_goes_on_from_its_last_step(
    name: str, judge: str, tmp_path: Path
) -> None:
    run = Run(judge, tmp_path, 4)
    process = run.start()
    run.await_steps(1, process)
    children = psutil.Process(process.pid).children(recursive=True)
    assert len(children) > 3

    process.send_signal(signal.Signals[name])
    process.wait(PATIENCE_S)
    assert until(lambda: not any(runs(child.pid) for child in children))
    assert until(lambda: not runs(run.engine()))
    if name == "SIGTERM":
        assert "run the same command to resume" in " ".join(run.log.read_text().split())
    taken = run.taken()

    run.await_end(run.start())
    assert run.taken()[: len(taken)] == taken
