"""Calls a function in a child process that the kernel kills when a call exceeds its CPU time.

A hostile regular expression or formula can run forever inside one call of C code, which neither a
Python signal handler nor another thread can interrupt. The child's CPU-time alarm has no handler,
so it kills the process.

A process that is stopped or waits uses no CPU time. It is killed after ten times the CPU limit.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import pkgutil
import resource
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any

from reward_serve.rules.grade import UndecidedError, VerifierError

_MEMORY_BYTES = 2 * 2**30
_WALL = 10  # wall-clock limit of a call, in CPU time limits: others may use the cores
_START_S = 30.0  # more for a process that must start: it may import sympy


class ChildProcess:
    """Runs one function's calls, one at a time, in a child process that is restarted if it ends.

    Args:
        function: ``package.module:name``; takes strings and returns a JSON value.
        limit_s: CPU time limit of a call, in seconds.
    """

    def __init__(self, function: str, limit_s: float) -> None:
        self._command = [
            sys.executable, "-c", f"from {__name__} import main; main({function!r}, {limit_s!r})"
        ]  # fmt: skip
        self._limit_s = limit_s
        self._child: subprocess.Popen[str] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="verifier")

    async def call(self, *arguments: str) -> Any:
        """Call the function in the child process.

        Raises:
            UndecidedError: the call exceeded its CPU time, or raised.
            VerifierError: the process did not answer in time, or ended for another reason.
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._call, arguments)

    def result(self, *arguments: str) -> Any:
        """Like ``call``, but blocks the calling thread."""
        return self._thread.submit(self._call, arguments).result()

    def close(self) -> None:
        """Kill the child process."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        if self._child is not None:
            self._child.kill()
            self._ended()

    def _call(self, arguments: tuple[str, ...]) -> Any:
        wall_s = _WALL * self._limit_s
        if self._child is None or self._child.poll() is not None:
            if self._child is not None:
                self._ended()
            self._child = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            wall_s += _START_S
        until = time.monotonic() + wall_s
        stuck = threading.Timer(wall_s, self._child.kill)
        stuck.daemon = True
        stuck.start()
        try:
            reply = _exchange(self._child, arguments)
        finally:
            stuck.cancel()
        if not reply:
            code = self._ended()
            if code == -signal.SIGPROF:
                raise UndecidedError("too_slow", f"more than {self._limit_s:g} s of CPU time")
            if code == -signal.SIGKILL and time.monotonic() >= until:
                raise VerifierError(
                    f"the verifier's process did not answer within {wall_s:g} s and was replaced; "
                    "retry"
                )
            raise VerifierError(f"the verifier's process ended with exit code {code}")
        answer = json.loads(reply)
        if "error" in answer:
            raise UndecidedError("not_computed", answer["error"])
        return answer["value"]

    def _ended(self) -> int:
        """Close the ended child's pipes and return its exit code."""
        child, self._child = self._child, None
        assert child is not None
        for pipe in (child.stdin, child.stdout):
            try:
                if pipe is not None:
                    pipe.close()
            except BrokenPipeError:
                pass
        return child.wait()


def _exchange(child: subprocess.Popen[str], arguments: tuple[str, ...]) -> str:
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        child.stdin.write(json.dumps(arguments) + "\n")
        child.stdin.flush()
    except BrokenPipeError:
        return ""
    return child.stdout.readline()


def main(function: str, limit_s: float) -> None:
    """Run the child: read lines of arguments, write lines with the value or the error."""
    answers: IO[str] = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # so that libraries' output does not mix with the answers
    logging.disable()
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles interrupts
    call = pkgutil.resolve_name(function)
    for line in sys.stdin:
        arguments = json.loads(line)
        signal.setitimer(signal.ITIMER_PROF, limit_s)
        try:
            answer = {"value": call(*arguments)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:500]}
        signal.setitimer(signal.ITIMER_PROF, 0)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
