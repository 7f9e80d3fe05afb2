from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from loadtests.load.handle_link import HandleLink, LostError

FAKE_WORKER = textwrap.dedent(
    """
    import json, os, socket, sys, threading, time

    sock = socket.socket(fileno=int(sys.argv[1]))
    if sys.argv[2] == "absent":
        sock.sendall(b'{"failed": "no such application"}\\n')
        sys.exit()
    sock.sendall(b'{"ready": true}\\n')

    def answer(asked):
        request = asked["request"]
        time.sleep(request.get("sleep_s", 0))
        if request.get("die"):
            os._exit(1)
        reply = {"lost": "gone"} if request.get("lost") else {"result": {"id": request["id"]}}
        sock.sendall(json.dumps({"n": asked["n"], **reply}).encode() + b"\\n")

    for line in sock.makefile("rb"):
        threading.Thread(target=answer, args=(json.loads(line),), daemon=True).start()
    os._exit(0)
    """
)


@pytest.fixture
def worker(tmp_path: Path) -> tuple[str, ...]:
    path = tmp_path / "fake_worker.py"
    path.write_text(FAKE_WORKER, encoding="utf-8")
    return (str(path),)


@pytest.fixture
def link(worker: tuple[str, ...]) -> Iterator[HandleLink]:
    link = HandleLink("reward", worker)
    yield link
    link.close()


def test_concurrent_requests_get_their_own_answers(link: HandleLink) -> None:
    def ask(number: int) -> object:
        return link.ask({"id": number, "sleep_s": 0.2, "response": "x" * 20_000}, 10)["id"]

    began = time.monotonic()
    with ThreadPoolExecutor(40) as pool:
        assert list(pool.map(ask, range(40))) == list(range(40))
    assert time.monotonic() - began < 4


def test_a_request_without_an_answer_is_lost(link: HandleLink) -> None:
    with pytest.raises(LostError, match="gone"):
        link.ask({"id": 1, "lost": True}, 10)
    with pytest.raises(LostError, match=r"no answer in 0\.1 s"):
        link.ask({"id": 2, "sleep_s": 5}, 0.1)


def test_a_dead_process_loses_its_requests_and_all_later_ones(link: HandleLink) -> None:
    for _ in range(2):
        with pytest.raises(LostError, match="process"):
            link.ask({"id": 1, "die": True}, 10)


def test_a_missing_application_is_reported(worker: tuple[str, ...]) -> None:
    with pytest.raises(LostError, match="by handle: no such application"):
        HandleLink("absent", worker)


def test_closing_the_link_ends_the_process(worker: tuple[str, ...]) -> None:
    link = HandleLink("reward", worker)
    link.close()

    assert not psutil.pid_exists(link.pid)


def test_killing_the_parent_ends_the_process(worker: tuple[str, ...]) -> None:
    holder = textwrap.dedent(
        """
        import sys, time
        from loadtests.load.handle_link import HandleLink
        sys.stdout.write(f"{HandleLink('reward', tuple(sys.argv[1:])).pid}\\n")
        sys.stdout.flush()
        time.sleep(60)
        """
    )
    command = [sys.executable, "-c", holder, *worker]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()

    _, alive = psutil.wait_procs([child], timeout=10)
    assert not alive
