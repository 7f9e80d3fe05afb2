"""A stand-in for SandboxFusion's server: what its ``/run_code`` accepts, and what it answers.

As bytedance/SandboxFusion has it: requests that pydantic refuses are 422; a program's exit code,
signal or limit is ``Failed``; what the server cannot do, a full disk too, is 200 with
``SandboxError``. Programs run here as they are, so only the tests' own harmless ones may.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from tests.fake_service import Call, FakeService, Reply


class _RunCode(BaseModel):
    compile_timeout: float = 10
    run_timeout: float = 10
    memory_limit_MB: int = -1  # noqa: N815
    code: str
    stdin: str | None = None
    language: Literal["python", "cpp", "nodejs", "go", "java", "bash", "typescript", "rust", "sql"]
    files: dict[str, str | None] = {}
    fetch_files: list[str] = []


class FakeSandbox(FakeService):
    """Runs Python; ``replies`` overrides a path, ``before_reply`` may wait."""

    def answer(self, call: Call) -> Reply:
        self.calls.append(call)
        self.before_reply(call)
        if call.path in self.replies:
            return self.replies[call.path]
        if call.path == "/v1/ping":
            return Reply("pong")
        if call.path != "/run_code":
            return Reply({"detail": "Not Found"}, 404)
        try:
            request = _RunCode.model_validate(call.body)
        except ValidationError as error:
            return Reply({"detail": error.errors(include_url=False, include_input=False)}, 422)
        result = _run(request)
        status = "Success" if result["return_code"] == 0 else "Failed"
        return Reply(answer_of(status, run_result=result))


def answer_of(status: str, message: str = "", **fields: Any) -> dict[str, Any]:
    """The body of an answer, with every key that the server sends."""
    none: dict[str, Any] = {
        "compile_result": None,
        "run_result": None,
        "executor_pod_name": None,
        "files": {},
    }
    return {"status": status, "message": message, **none, **fields}


def _run(request: _RunCode) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "main.py")
        program.write_text(request.code)
        try:
            run = subprocess.run(
                [sys.executable, str(program)], cwd=folder, capture_output=True, text=True,
                input=request.stdin or "", timeout=request.run_timeout, errors="replace",
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            status, code, stdout, stderr = "TimeLimitExceeded", None, "", ""
        else:
            status, code, stdout, stderr = "Finished", run.returncode, run.stdout, run.stderr
    return {
        "status": status, "execution_time": 0.1, "return_code": code, "stdout": stdout,
        "stderr": stderr,
    }  # fmt: skip
