"""A SandboxFusion server: programs there, and its failures, which are no program's."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from reward_serve_checkers.programs import check
from reward_serve_checkers.sandbox import Limits, SandboxBusyError, SandboxError
from tests.rows import rows

LIMITS = Limits(test_s=1.0, total_s=2.0)


class FakeSandboxFusion(ThreadingHTTPServer):
    """Runs Python without a sandbox, or gives ``reply``: status and body, or seconds to wait."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}/run_code"
        self.reply: Any = None
        self.jobs: list[dict[str, Any]] = []


class _Handler(BaseHTTPRequestHandler):
    server: FakeSandboxFusion

    def do_POST(self) -> None:
        job = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.jobs.append(job)
        if isinstance(self.server.reply, float):
            time.sleep(self.server.reply)
        code, body = self.server.reply if isinstance(self.server.reply, list) else (200, run(job))
        self.send_response(code)
        self.end_headers()
        self.wfile.write(body if isinstance(body, bytes) else json.dumps(body).encode())

    def log_message(self, *_: object) -> None:
        """Be silent."""


def run(job: dict[str, Any]) -> dict[str, Any]:
    command = [sys.executable, "-c", job["code"]]
    ran = {"status": "Finished", "return_code": 0, "stdout": "", "stderr": ""}
    try:
        done = subprocess.run(
            command, input=job["stdin"], capture_output=True, text=True, timeout=job["run_timeout"]
        )
        ran |= {"return_code": done.returncode, "stdout": done.stdout, "stderr": done.stderr}
    except subprocess.TimeoutExpired:
        ran["status"] = "TimeLimitExceeded"
    status = "Success" if (ran["status"], ran["return_code"]) == ("Finished", 0) else "Failed"
    return {"status": status, "message": "", "compile_result": None, "run_result": ran}


@pytest.fixture
def server() -> Iterator[FakeSandboxFusion]:
    server = FakeSandboxFusion()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(("program", "reference", "reason"), rows(__file__, "programs"))
def test_a_program_passes_there_or_says_why_not(
    program: str, reference: str, reason: str, server: FakeSandboxFusion
) -> None:
    outcomes, _ = check(program, reference, limits=LIMITS, url=server.url)
    assert outcomes[-1].passed is (not reason), outcomes
    assert reason in outcomes[-1].reason


def test_programs_of_other_languages_are_sent_with_their_input(server: FakeSandboxFusion) -> None:
    server.reply = [200, {"status": "Success", "run_result": {"status": "Finished", "stdout": "2"}}]
    response, reference = "```cpp\nint main() {}\n```", '{"inputs": ["1"], "outputs": ["2"]}'
    outcomes, _ = check(response, reference, language="cpp", url=server.url)
    assert outcomes[0].passed
    sent = {key: server.jobs[0][key] for key in ("code", "stdin", "language", "run_timeout")}
    wanted = {"code": "int main() {}", "stdin": "1", "language": "cpp", "run_timeout": 6.0}
    assert sent == wanted


@pytest.mark.parametrize(("reply", "message"), rows(__file__, "faults"))
def test_a_fault_of_the_server_is_no_score(
    reply: Any, message: str, server: FakeSandboxFusion
) -> None:
    server.reply = [reply[0], b"<html>"] if reply[1] == "<html>" else reply
    kind = SandboxBusyError if "busy" in message else SandboxError
    with pytest.raises(SandboxError, match=message) as caught:
        check("print(1)", '{"inputs": [""], "outputs": ["1"]}', limits=LIMITS, url=server.url)
    assert type(caught.value) is kind


def test_a_server_that_hangs_or_is_gone_is_an_error(
    server: FakeSandboxFusion, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reward_serve_checkers.fusion._SPARE_S", -1.5)
    server.reply = 2.0
    reference = '{"inputs": [""], "outputs": ["1"]}'
    with pytest.raises(SandboxError, match="timed out"):
        check("print(1)", reference, limits=LIMITS, url=server.url)
    with pytest.raises(SandboxError, match="refused"):
        check("print(1)", reference, limits=LIMITS, url="http://127.0.0.1:9/run_code")
