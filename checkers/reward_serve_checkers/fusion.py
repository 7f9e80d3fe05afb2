"""A process on a server with SandboxFusion's API (``POST /run_code``), for other languages too."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

from reward_serve_checkers.inside import READY, frame
from reward_serve_checkers.sandbox import (
    INSIDE,
    Clock,
    SandboxBusyError,
    SandboxError,
    StoppedError,
)

_BUSY = (429, 503)
_SPARE_S = 10.0  # of a request, beside compiling and running
_MOST_BYTES = 2**24


class RemoteProcess:
    """Has the methods of ``sandbox.Process``; each answer is a run of its own on the server."""

    def __init__(self, mode: str, source: bytes, *, url: str, language: str, clock: Clock) -> None:
        self._source, self._url, self._clock = source, url, clock
        self._language = "python" if mode == "calls" else language
        self._frame = b""

    def send(self, data: bytes) -> None:
        """Send a frame, in the next run."""
        self._frame = frame(data)

    def line(self, limit: int) -> bytes:
        """The reply to the frame, at most ``limit`` bytes."""
        written = self._run(INSIDE.encode(), frame(self._source) + self._frame)
        line, end, _ = written.removeprefix(READY).partition(b"\n")
        if not end or len(line) > limit:
            raise StoppedError("wrote too much" if end else "ended before it answered")
        return line

    def output(self, sent: bytes, limit: int) -> bytes:
        """All that the program writes for this input, at most ``limit`` bytes."""
        written = self._run(self._source, sent)
        if len(written) > limit:
            raise StoppedError(f"wrote more than {limit} bytes")
        return written

    def close(self) -> None:
        """Nothing is left to end."""

    def _run(self, code: bytes, stdin: bytes) -> bytes:
        """What the program wrote.

        Raises:
            StoppedError: it did not compile, failed or took too long.
            SandboxBusyError: the server has no capacity.
            SandboxError: the server failed.
        """
        self._clock.check()
        limit_s = self._clock.limits.test_s
        job = {
            "code": code.decode(),
            "stdin": stdin.decode("utf-8", "replace"),
            "language": self._language,
            "compile_timeout": limit_s,
            "run_timeout": limit_s,
            "memory_limit_MB": self._clock.limits.memory_mib,
            "files": {},
            "fetch_files": [],
        }
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self._url, json.dumps(job).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=2 * limit_s + _SPARE_S) as response:
                body = response.read(_MOST_BYTES)
            if len(body) == _MOST_BYTES:
                raise StoppedError("wrote too much")
            reply = json.loads(body)
            for step in ("compile_result", "run_result"):
                _raise_if_failed(reply.get(step), limit_s)
            if reply["status"] == "Success":
                return str(reply["run_result"]["stdout"] or "").encode()
            fault = f"status {reply['status']}: {reply.get('message')}"
        except urllib.error.HTTPError as error:
            error.close()
            fault = f"HTTP {error.code}"
            if error.code in _BUSY:
                raise SandboxBusyError(f"the sandbox {self._url} is busy ({fault})") from None
        except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
            fault = f"{type(error).__name__}: {error}"
        raise SandboxError(f"the sandbox {self._url} failed ({fault[:300]}); read its log")


def _raise_if_failed(step: dict[str, Any] | None, limit_s: float) -> None:
    if step is None:
        return
    if step["status"] == "TimeLimitExceeded":
        raise StoppedError(f"took longer than {limit_s:g} s")
    if step["status"] != "Finished":
        raise ValueError(f"a step has status {step['status']}: {step.get('stderr')}")
    if code := step.get("return_code"):
        last = str(step.get("stderr") or "").strip().rpartition("\n")[2][:300]
        raise StoppedError(last or f"ended with exit code {code}")
