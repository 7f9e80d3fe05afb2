"""Calls a function in a process of its own, which the kernel ends when a call takes too long.

A regular expression or a formula can be written to take forever, within one call of C code that no
signal handler and no thread interrupts. The child's CPU-time alarm has no handler: it kills.
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
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any

from reward_serve.verifiers.base import VerifierError

_MEMORY_BYTES = 2 * 2**30


class UndecidedError(RuntimeError):
    """A call came to nothing, and would again.

    Attributes:
        rule: "too_slow" where it was ended, "not_computed" where it raised.
    """

    def __init__(self, rule: str, reason: str) -> None:
        super().__init__(reason)
        self.rule = rule


class ChildProcess:
    """Calls one function, one call at a time, in a child that is started again when it ends.

    Args:
        function: ``package.module:name``; takes and returns JSON values.
        limit_s: CPU seconds of a call.
    """

    def __init__(self, function: str, limit_s: float) -> None:
        self._command = [sys.executable, "-m", __name__, function, str(limit_s)]
        self._limit_s = limit_s
        self._child: subprocess.Popen[str] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="verifier")

    async def call(self, *arguments: str) -> Any:
        """What the function returns.

        Raises:
            UndecidedError: it took too long, or raised.
            VerifierError: its process ended otherwise.
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._call, arguments)

    def close(self) -> None:
        """End the child."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        if self._child is not None:
            self._child.kill()
            self._ended()

    def _call(self, arguments: tuple[str, ...]) -> Any:
        if self._child is None or self._child.poll() is not None:
            if self._child is not None:
                self._ended()
            self._child = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        told = _ask(self._child, arguments)
        if not told:
            code = self._ended()
            if code == -signal.SIGPROF:
                raise UndecidedError("too_slow", f"more than {self._limit_s:g} s of CPU time")
            raise VerifierError(f"the verifier's process ended with exit code {code}")
        answer = json.loads(told)
        if "error" in answer:
            raise UndecidedError("not_computed", answer["error"])
        return answer["value"]

    def _ended(self) -> int:
        """The exit code of the child, whose pipes are closed."""
        child, self._child = self._child, None
        assert child is not None
        for pipe in (child.stdin, child.stdout):
            try:
                if pipe is not None:
                    pipe.close()
            except BrokenPipeError:
                pass
        return child.wait()


def _ask(child: subprocess.Popen[str], arguments: tuple[str, ...]) -> str:
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        child.stdin.write(json.dumps(arguments) + "\n")
        child.stdin.flush()
    except BrokenPipeError:
        return ""
    return child.stdout.readline()


def main(function: str, limit_s: float) -> None:
    """The child: a line of arguments in, a line with the value or the error out."""
    answers: IO[str] = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no answer
    logging.disable()
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the parent's to answer
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


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
