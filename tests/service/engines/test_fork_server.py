from __future__ import annotations

import ast
import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from reward_serve.engines import fork_server
from tests.service.engines.owners import is_gone_within, owners, read_line, runs

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks the Linux kernel")

PRELOADED = "imported = True\n"
CORE = """
import json, os, sys, time
from reward_serve.engines.process_guard import install

def run():
    install()
    found = {name: os.environ.get(name) for name in ("SET_BEFORE", "SET_LATER", "LD_PRELOAD")}
    ids = {"core": os.getpid(), "server": os.getppid()}
    print(json.dumps(found | ids | {"preloaded": "preloaded" in sys.modules}), flush=True)
    time.sleep(60)
"""
OWNER = """
import os
import core
from reward_serve.engines import fork_server
from reward_serve.engines.process_guard import own_child_processes

if __name__ == "__main__":
    fork_server._PRELOADED = ["reward_serve.engines.guarded", "preloaded"]
    own_child_processes()
    os.environ["SET_BEFORE"] = "before"
    fork_server.start_fork_server()
    os.environ["SET_BEFORE"] = os.environ["SET_LATER"] = "later"
    process = fork_server._Context().Process(target=core.run)
    process.start()
    process.join()
    print(process.exitcode, flush=True)
"""

Start = Callable[[], tuple["subprocess.Popen[str]", dict[str, Any]]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts an owner with a core; returns the owner and the core's report."""
    for name, text in {"preloaded": PRELOADED, "core": CORE, "owner": OWNER}.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    with owners(environment) as started:

        def start() -> tuple[subprocess.Popen[str], dict[str, Any]]:
            owner = started(str(tmp_path / "owner.py"))
            return owner, json.loads(read_line(owner))

        yield start


def test_the_core_starts_in_a_process_that_has_the_imports(start: Start) -> None:
    owner, core = start()
    assert core["preloaded"]
    assert core["server"] != owner.pid


def test_the_core_has_the_environment_of_its_own_start(start: Start) -> None:
    _, core = start()
    assert core["SET_BEFORE"] == core["SET_LATER"] == "later"
    assert core["LD_PRELOAD"] is None


def test_server_and_core_die_with_a_killed_owner(start: Start) -> None:
    owner, core = start()
    assert runs(core["core"])
    assert runs(core["server"])
    owner.send_signal(signal.SIGKILL)
    assert is_gone_within(2, core["core"])
    assert is_gone_within(2, core["server"])


def test_the_owner_sees_the_exit_code_of_a_killed_core(start: Start) -> None:
    owner, core = start()
    os.kill(core["core"], signal.SIGKILL)
    assert read_line(owner) == str(-signal.SIGKILL)


def test_the_core_dies_with_a_killed_server(start: Start) -> None:
    _, core = start()
    os.kill(core["server"], signal.SIGKILL)
    assert is_gone_within(2, core["core"])


def test_server_and_core_die_with_a_killed_owner_even_if_the_core_is_stopped(start: Start) -> None:
    owner, core = start()
    os.kill(core["core"], signal.SIGSTOP)
    owner.send_signal(signal.SIGKILL)
    assert is_gone_within(2, core["core"])
    assert is_gone_within(2, core["server"])


def test_another_version_of_vllm_spawns_its_core(monkeypatch: pytest.MonkeyPatch) -> None:
    for version, forks in (("0.30.0+cpu", True), ("0.31.0", False)):
        monkeypatch.setattr("importlib.metadata.version", lambda _, found=version: found)
        assert fork_server.can_fork() is forks


def test_the_installed_vllm_starts_its_core_by_the_function_that_is_replaced() -> None:
    assert fork_server.can_fork()
    vllm = importlib.util.find_spec("vllm")
    assert vllm is not None
    assert vllm.origin is not None
    utils = Path(vllm.origin).parent / "v1" / "engine" / "utils.py"
    (manager,) = (
        node
        for node in ast.parse(utils.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and node.name == "CoreEngineProcManager"
    )
    assert "context = get_mp_context()" in ast.unparse(manager)
    assert "context.Process(" in ast.unparse(manager)
