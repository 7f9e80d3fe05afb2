"""Programs that deserve nothing: none passes, and nothing is left of any, here or elsewhere."""

import ctypes
import errno
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil
import pytest

from reward_serve_checkers.programs import report
from reward_serve_checkers.sandbox import Limits
from reward_serve_lab.attacks.programs import FAMILIES, MARKER, hostile_programs
from tests.rows import rows
from tests.sandboxed import needs_sandbox
from tests.tiers import share

pytestmark = needs_sandbox

SHORT = Limits(test_s=0.5, total_s=1.0)
ELSEWHERE = ("/tmp", "/dev/shm", "/var/tmp", "/run", "/etc/cron.d", "/", str(Path.home()))


def settings(limits: Limits) -> str:
    return json.dumps({"limits": asdict(limits), "all_needed": True, "url": None})


def passes(response: str, tests: Any, limits: Limits = Limits()) -> bool | None:  # noqa: B008
    """Whether a response passes its tests; None if nothing is said of it."""
    reference = tests if isinstance(tests, str) else json.dumps(tests)
    outcome = report(response, reference, settings(limits))
    if "outcomes" not in outcome:
        return None
    return len(outcome["outcomes"]) == outcome["tests"] and all(p for p, _ in outcome["outcomes"])


class Surroundings:
    """A folder with the expected value, listeners that tell it, and what may not change."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.work = folder / "outside", folder / "work"
        self.folder.mkdir()
        self.work.mkdir()
        self.reached: list[str] = []
        self.listeners = [
            socket.create_server(("127.0.0.1", 0)),
            *(socket.socket(socket.AF_UNIX) for _ in range(2)),
        ]
        self.port = self.listeners[0].getsockname()[1]
        for listener, address in zip(
            self.listeners[1:], (f"{self.folder}/socket", f"\0{self.folder}"), strict=True
        ):
            listener.bind(address)
            listener.listen()
        for listener in self.listeners:
            threading.Thread(target=self._tell, args=(listener,), daemon=True).start()

    def _tell(self, listener: socket.socket) -> None:
        with suppress(OSError):  # until it is closed
            while True:
                with listener.accept()[0] as connection:
                    self.reached.append("a listener")
                    connection.sendall((self.folder / "canary").read_bytes())

    def signalled(self, *_: Any) -> None:
        self.reached.append("a process, by a signal")

    def state(self) -> dict[str, Any]:
        """Everything that a program could have changed, and what it has reached."""
        canary = self.folder / "canary"
        found = canary.stat()
        return {
            "canary": (canary.read_text(), found.st_mode, found.st_mtime),
            "files": sorted([*self.folder.iterdir(), *self.work.iterdir()]),
            "elsewhere": [path for top in ELSEWHERE for path in Path(top).glob(f"*{MARKER}*")],
            "shared memory": f" {0x5EED} " in Path("/proc/sysvipc/shm").read_text(),
            "limits": [resource.getrlimit(kind) for kind in range(16)],
            "priority": (os.getpriority(os.PRIO_PROCESS, 0), os.sched_getaffinity(0)),
            "reached": list(self.reached),
            "processes": _running(),
        }


def _running() -> list[str]:
    """The descendants of this process after at most a second: those that end have ended."""
    for _ in range(20):
        children = psutil.Process().children(recursive=True)
        alive = [child for child in children if child.status() != psutil.STATUS_ZOMBIE]
        if not alive:
            break
        time.sleep(0.05)
    return [str(child) for child in alive]


@pytest.fixture(scope="module")
def surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Surroundings]:
    surroundings = Surroundings(tmp_path_factory.mktemp("hostile"))
    tempfile.tempdir = str(surroundings.work)
    handler = signal.signal(signal.SIGURG, surroundings.signalled)
    libc = ctypes.CDLL(None)
    libc.prctl(36, 1)  # PR_SET_CHILD_SUBREAPER: a daemon is this process's child then
    yield surroundings
    libc.prctl(36, 0)
    for listener in surroundings.listeners:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
    signal.signal(signal.SIGURG, handler)
    tempfile.tempdir = None


@pytest.mark.parametrize("family", FAMILIES)
def test_hostile_programs_fail_and_leave_nothing(family: str, surroundings: Surroundings) -> None:
    per_program, step = share(7, 1), share(1, 3)
    attacks = hostile_programs(0, surroundings.folder, surroundings.port, per_program)
    before, memory = surroundings.state(), psutil.Process().memory_info().rss
    for attack in [attack for attack in attacks if attack.family == family][::step]:
        verdict = passes(attack.response, attack.reference, SHORT)
        if verdict is None:  # the machine was too busy to tell in 10 s
            verdict = passes(attack.response, attack.reference)
        assert verdict is False, attack
        assert surroundings.state() == before, attack
    assert psutil.Process().memory_info().rss - memory < 2**26


def test_a_program_that_finds_the_value_passes(surroundings: Surroundings) -> None:
    (attack, *_) = hostile_programs(0, surroundings.folder, per_program=1)
    key = (surroundings.folder / "canary").read_text()
    response = attack.response.replace('RESULT = "nothing"', f'RESULT = "{key}"')
    response = response.replace("import os; os._exit(0)", "pass")
    assert passes(response, attack.reference)


@pytest.mark.parametrize(("program", "tests", "verdict"), rows(__file__, "tests"))
def test_what_tests_say_is_not_the_programs_to_change(
    program: str, tests: Any, verdict: bool | None
) -> None:
    assert passes(f"```python\n{program}\n```", tests) is verdict


@pytest.mark.parametrize(("expected", "output"), rows(__file__, "other_texts"))
def test_texts_that_look_alike_differ(expected: str, output: str) -> None:
    program = f"import sys; sys.stdout.buffer.write({output.encode()!r})"
    assert passes(program, {"inputs": [""], "outputs": [expected]}) is False


@pytest.mark.parametrize("fault", ["no package", "full disk", "killed"])
def test_a_fault_of_the_sandbox_says_nothing_of_the_program(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    if fault == "no package":
        monkeypatch.setitem(sys.modules, "sandlock", None)
        monkeypatch.setitem(sys.modules, "sandlock.sandbox", None)
    elif fault == "full disk":
        monkeypatch.setattr("tempfile.mkdtemp", full)
    else:
        threading.Timer(1.0, lambda: psutil.Process().children()[0].kill()).start()
    assert passes("import time; time.sleep(9)", {"inputs": [""], "outputs": ["42"]}) is None


HOLDS_ON = "import ctypes; ctypes.CDLL(None).prctl(1, 0)\n"


@pytest.mark.parametrize("program", ["import time; time.sleep(60)", "while True: pass"])
def test_a_program_ends_with_the_process_that_started_it(program: str) -> None:
    code = "import sys; from reward_serve_checkers.programs import report; report(*sys.argv[1:])"
    tests = '{"inputs": [""], "outputs": ["42"]}'
    arguments = [sys.executable, "-c", code, HOLDS_ON + program, tests, settings(Limits())]
    with subprocess.Popen(arguments) as starter:
        while not (programs := psutil.Process(starter.pid).children()):
            time.sleep(0.02)
        time.sleep(0.5)  # until it holds on
        starter.kill()
    gone, alive = psutil.wait_procs(programs, timeout=2)
    for left in alive:
        left.kill()
    assert gone
    assert not alive
