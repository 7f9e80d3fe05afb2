"""``serve run FILE``, as docs/reference/deployments.md has it: blocking, on a Ray of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from reward_serve import HttpRewardClient
from reward_serve.cli.launch import START_SETTINGS
from reward_serve.cli.shipped import deployments_files
from reward_serve_judge.weights import prepare_bundled
from tests.fake_service import free_port

pytestmark = pytest.mark.slow
START_S = 400


@contextmanager
def served(name: str, folder: Path) -> Iterator[tuple[psutil.Process, int]]:
    """``serve run`` of a shipped file, as written but for the port; its process and the port."""
    port = free_port()
    text = deployments_files()[name].read_text(encoding="utf-8")
    (file := folder / name).write_text(text.replace("port: 8000", f"port: {port}"), "utf-8")
    inherited = {name: value for name, value in os.environ.items() if name not in START_SETTINGS}
    serve = Path(sys.executable).with_name("serve")
    with (folder / "log").open("wb") as log:
        process = psutil.Popen(
            [str(serve), "run", str(file)],
            env={**inherited, "RAY_ADDRESS": "local"},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process, port
        assert process.is_running(), (folder / "log").read_text("utf-8")
    finally:
        children = process.children(recursive=True)
        process.send_signal(signal.SIGINT)
        process.wait(120)
        _, left = psutil.wait_procs(children, timeout=60)
        for each in left:
            each.kill()
    assert not left


def until_ready(client: HttpRewardClient, process: psutil.Process) -> None:
    deadline = time.monotonic() + START_S
    while not client.is_ready():
        assert process.is_running()
        assert time.monotonic() < deadline
        time.sleep(0.5)


@pytest.mark.timeout(900)
def test_judge_yaml_scores_without_the_variables(tmp_path: Path) -> None:
    prepare_bundled()
    with served("judge.yaml", tmp_path) as (process, port):
        with HttpRewardClient(f"http://127.0.0.1:{port}") as client:
            until_ready(client, process)
            by_rule = client.score({"response": "#### 18", "reference": "18"})
            by_model = client.score({"response": "It comes to eighteen", "reference": "18"})
        assert (by_rule.score, by_rule.source) == (1.0, "rule")
        assert (by_model.score, by_model.source) == (1.0, "judge")
