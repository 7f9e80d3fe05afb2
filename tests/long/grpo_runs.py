"""Runs of examples/grpo in processes of their own, with a fake engine and a fake judge."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from deployments.local import ROOT
from examples.tests.grpo import fake_endpoint
from reward_serve_judge.weights import prepare_bundled
from tests.fake_service import Call, FakeService, Reply

PATIENCE_S = 240.0
SHORT = ("prompts=2", "group=4", "evaluate_every=100")


class HalfRight(FakeService):
    """A judge that takes about every other response for the right answer."""

    def answer(self, call: Call) -> Reply:
        if isinstance(call.body, dict):
            for request in call.body.get("requests", [call.body]):
                right = len(request["response"]) % 2
                request["response"] = f"#### {request['reference'] if right else -1}"
        return super().answer(call)


@dataclass
class Run:
    """A run in a process of its own.

    Attributes:
        process: the driver's.
        folder: of the run.
        log: what it said.
    """

    process: subprocess.Popen[bytes]
    folder: Path
    log: Path

    def steps(self) -> list[dict[str, Any]]:
        file = self.folder / "steps.jsonl"
        lines = file.read_text().split("\n")[:-1] if file.exists() else []
        return [json.loads(line) for line in lines]

    def await_steps(self, count: int) -> None:
        assert until(lambda: len(self.steps()) >= count or self.process.poll() is not None)
        assert len(self.steps()) >= count, self.log.read_text()

    def descendants(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)


def until(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE_S
    while not condition() and time.monotonic() < end:
        time.sleep(0.2)
    return condition()


def options(judge: str, out: Path, steps: int) -> list[str]:
    """Arguments of a short judged run."""
    settings = [part for pair in (*SHORT, f"steps={steps}") for part in ("--set", pair)]
    return ["-m", "examples.grpo", "judge-sync", *settings, "--judge", judge, "--out", str(out)]


def cache_with_a_fake_engine(folder: Path) -> Path:
    """A cache folder in which SkyRL's engine is the fake one."""
    model = prepare_bundled(adapter=None)
    installed = folder / "tinker"
    (installed / "bin").mkdir(parents=True)
    (installed / ".installed").touch()
    (folder / model.name).symlink_to(model)
    uv = installed / "bin" / "uv"
    uv.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{fake_endpoint.__file__}" "$@"\n')
    uv.chmod(0o755)
    return folder


def started(judge: str, cache: Path, out: Path, steps: int) -> Run:
    """A run with an engine of its own, which is the fake one."""
    log = out.with_suffix(".log")
    variables = {
        **os.environ,
        "REWARD_SERVE_CACHE": str(cache),
        "FAKE_TINKER_DELAY_S": "0.5",
        "COLUMNS": "500",
    }
    with log.open("ab") as file:
        process = subprocess.Popen(
            [sys.executable, *options(judge, out, steps)],
            cwd=ROOT,
            env=variables,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return Run(process, out / "judge-sync", log)
