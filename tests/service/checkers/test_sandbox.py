"""Programs in the sandbox: what they may do, and which tests they pass."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reward_serve_checkers.programs import UnusableTestsError, check, report
from reward_serve_checkers.sandbox import Limits, sandbox_fault
from tests.rows import rows
from tests.sandboxed import needs_sandbox

pytestmark = needs_sandbox

QUICK = Limits(test_s=0.5, total_s=2.0, memory_mib=256)
CALM = Limits(memory_mib=256)  # what is not about time also passes on a busy machine


def limits_for(reason: str) -> Limits:
    return QUICK if "longer" in reason else CALM


@pytest.mark.parametrize(("program", "reason"), rows(__file__, "stdin"))
def test_a_program_that_reads_and_writes_passes_or_says_why_not(program: str, reason: str) -> None:
    reference = json.dumps({"inputs": ["41\n"], "outputs": ["42"]})
    ((passed, why),), tests = check(program, reference, limits=limits_for(reason))
    assert (passed, tests) == (not reason, 1), why
    assert reason in why


@pytest.mark.parametrize(("program", "reference", "reason"), rows(__file__, "functions"))
def test_functions_pass_or_say_why_not(program: str, reference: str, reason: str) -> None:
    outcomes, tests = check(program, reference.replace("\n", "\\n"), limits=limits_for(reason))
    assert len(outcomes) == tests
    assert outcomes[-1].passed is (not reason), outcomes
    assert reason in outcomes[-1].reason


@pytest.mark.parametrize(("reference", "message"), rows(__file__, "own_faults"))
def test_tests_that_fail_by_themselves_are_refused(reference: str, message: str) -> None:
    with pytest.raises(UnusableTestsError, match=message):
        check("def f(x): return x", reference)


def test_a_program_reaches_no_socket_outside_by_path_or_name(tmp_path: Path) -> None:
    addresses = (str(tmp_path / "s"), f"\0reward-serve-{os.getpid()}")
    for address in addresses:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(address)
            server.listen()
            program = f"import socket\nsocket.socket(socket.AF_UNIX).connect({address!r})"
            outcomes, _ = check(program, '{"inputs": [""], "outputs": [""]}', limits=CALM)
            assert "PermissionError" in outcomes[0].reason


def test_where_all_are_needed_a_failed_test_is_the_last() -> None:
    reference = json.dumps({"inputs": ["1", "2", "3"], "outputs": ["1", "x", "3"]})
    outcomes, tests = check("print(input())", reference, all_needed=True)
    assert ([outcome.passed for outcome in outcomes], tests) == ([True, False], 3)


def test_half_a_character_is_no_fault_of_the_sandbox() -> None:
    outcomes, _ = check('print("\udc00")', r'{"inputs": ["\ud800"], "outputs": ["\ud800"]}')
    assert not outcomes[0].passed


def test_all_tests_together_have_a_limit() -> None:
    reference = json.dumps({"inputs": ["1"] * 99, "outputs": ["1"] * 99})
    began = time.monotonic()
    outcomes, _ = check("while 1: pass", reference, limits=Limits(test_s=0.3, total_s=0.5))
    assert "all tests together took longer than 0.5 s" in outcomes[-1].reason
    assert len(outcomes) == 99
    assert time.monotonic() - began < 10


def test_nothing_is_left_of_a_program_whose_owner_is_killed(tmp_path: Path) -> None:
    code = "import sys; from reward_serve_checkers.programs import check; check(*sys.argv[1:])"
    sleeper = "import time\nprint('started', flush=True)\ntime.sleep(60)"
    reference = '{"inputs": [""], "outputs": [""]}'
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", code, sleeper, reference]
    owner = subprocess.Popen(command, env=environment)
    children = Path(f"/proc/{owner.pid}/task/{owner.pid}/children")
    while not (started := children.read_text().split()):
        time.sleep(0.02)
    owner.kill()
    owner.wait()
    deadline = time.monotonic() + 5
    while Path(f"/proc/{started[0]}").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not Path(f"/proc/{started[0]}").exists()


def test_a_sandbox_that_does_not_run_is_named_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert sandbox_fault() is None
    monkeypatch.setattr("sandlock.landlock_abi_version", lambda: -1)
    assert "offers Landlock ABI 0, and 6 is needed; use Linux 6.12" in (sandbox_fault() or "")
    monkeypatch.setattr("sandlock.landlock_abi_version", lambda: 6)
    monkeypatch.setattr("reward_serve_checkers.sandbox._interpreter", lambda: "/bin/false")
    assert "a program that prints 42 gave" in (sandbox_fault() or "")
    settings = json.dumps({"limits": {}, "language": "python", "url": None, "all_needed": True})
    reply = report("print(1)", '{"inputs": [""], "outputs": ["1"]}', settings)
    assert "let the container use Landlock" in reply["failed"]
