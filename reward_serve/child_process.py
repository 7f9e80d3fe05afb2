"""Calls a function in child processes that the kernel kills when a call exceeds its CPU time.

A hostile regular expression or formula can run forever inside one call of C code, which neither a
signal handler nor another thread can interrupt. A child's CPU-time alarm has no handler, so it
kills the process. The next one is forked from a process that has imported the function's module: an
import of sympy takes a second, a fork some milliseconds.

A call first has ``_QUICK_S`` seconds of CPU time; if it needs more, it is repeated in a lane of its
own, so that others do not wait for it. A process that uses no CPU time, since it is stopped or
others use the cores, is killed after a multiple of its limit in real time.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import pkgutil
import resource
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from reward_serve_answers import UndecidedError, VerifierError

_MEMORY_BYTES = 2**30
_QUICK_S = 0.15
_MAX_QUICK = 4
_WALL = 20  # wall-clock limit of a quick call, in CPU time limits
_SLOW_WALL = 60
_START_S = 30.0  # for the first process, which may import sympy


class _NotQuickError(Exception):
    """A call needs more than ``_QUICK_S``."""


class ChildProcess:
    """Runs one function's calls in child processes, which are replaced if they end.

    Quick calls run side by side on half of the cores, at most four; slow ones one at a time.

    Args:
        function: ``package.module:name``; takes strings and returns a JSON value.
        limit_s: CPU time limit of a call, in seconds.
    """

    def __init__(self, function: str, limit_s: float) -> None:
        self._function = function
        self._limit_s = limit_s
        lanes = min(_MAX_QUICK, max(1, (os.cpu_count() or 1) // 2))
        self._quick = ThreadPoolExecutor(lanes, thread_name_prefix="verifier")
        self._slow = ThreadPoolExecutor(1, thread_name_prefix="slow verifier")
        self._idle: list[_Worker] = []
        self._lock = threading.Lock()
        self._forker: _Forker | None = None

    async def call(self, *arguments: str) -> Any:
        """Call the function in a child process.

        Raises:
            UndecidedError: the call exceeded its CPU time, or raised.
            VerifierError: the process did not answer in time, or ended for another reason.
        """
        try:
            return await asyncio.wrap_future(self._quick.submit(self._ask, arguments, _QUICK_S))
        except _NotQuickError:
            return await asyncio.wrap_future(self._slow.submit(self._ask, arguments, self._limit_s))

    def close(self) -> None:
        """Kill the child processes."""
        for lane in (self._quick, self._slow):
            lane.shutdown(wait=False, cancel_futures=True)
        if self._forker is not None:
            for worker in self._idle:
                self._forker.end(worker)
            self._forker.close()

    def _ask(self, arguments: tuple[str, ...], limit_s: float) -> Any:
        wall_s = (_WALL if limit_s == _QUICK_S else _SLOW_WALL) * self._limit_s
        worker = self._worker()
        try:
            reply = worker.exchange([limit_s, *arguments], wall_s)
        except TimeoutError:
            worker.forker.end(worker)
            raise VerifierError(
                f"the verifier's process did not answer within {wall_s:g} s and was replaced; retry"
            ) from None
        if not reply:
            code = worker.forker.end(worker)
            if code == -signal.SIGPROF and limit_s < self._limit_s:
                raise _NotQuickError
            if code == -signal.SIGPROF:
                raise UndecidedError("too_slow", f"more than {limit_s:g} s of CPU time")
            raise VerifierError(f"the verifier's process ended with exit code {code}")
        self._idle.append(worker)
        answer = json.loads(reply)
        if "error" in answer:
            raise UndecidedError("not_computed", answer["error"])
        return answer["value"]

    def _worker(self) -> _Worker:
        with self._lock:
            if self._forker is None or not self._forker.alive:
                self._idle.clear()
                self._forker = _Forker(self._function)
            return self._idle.pop() if self._idle else self._forker.fork()


class _Worker:
    """A process that answers one call after the other on a socket."""

    def __init__(self, forker: _Forker, process: int, channel: socket.socket) -> None:
        self.forker, self.process, self.channel = forker, process, channel

    def exchange(self, message: Any, wall_s: float) -> str:
        """The answer to a message; empty if the process has ended."""
        self.channel.settimeout(wall_s)
        try:
            self.channel.sendall(json.dumps(message).encode() + b"\n")
            with self.channel.makefile("r", encoding="utf-8") as answers:
                return answers.readline()
        except ConnectionError:
            return ""


class _Forker:
    """The process that imports the function's module and forks workers."""

    def __init__(self, function: str) -> None:
        self._control, theirs = socket.socketpair()
        self._control.settimeout(_START_S)
        with theirs:
            number = theirs.fileno()
            code = f"from {__name__} import main; main({function!r}, {number})"
            self._process = subprocess.Popen(
                [sys.executable, "-c", code], pass_fds=[number], start_new_session=True
            )
        self._lock = threading.Lock()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def fork(self) -> _Worker:
        """Start another worker.

        Raises:
            VerifierError: it did not start.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            process = self._order(b"fork", theirs.fileno())
        if process is None:
            ours.close()
            raise VerifierError("the verifier's process did not start; see its log, and retry")
        return _Worker(self, process, ours)

    def end(self, worker: _Worker) -> int | None:
        """Kill a worker, unless it has ended; returns its exit code, None if it is not known."""
        worker.channel.close()
        return self._order(b"%d" % worker.process)

    def close(self) -> None:
        """Kill the process and its workers."""
        if self.alive:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._control.close()

    def _order(self, order: bytes, *descriptors: int) -> int | None:
        with self._lock:
            try:
                socket.send_fds(self._control, [order], descriptors)
                return int(self._control.recv(64) or b"none")
            except (OSError, ValueError):  # it has ended, or did not answer
                self.close()
                return None


def main(function: str, control: int) -> None:
    """Run the process that forks workers until its owner has gone."""
    os.dup2(2, 1)
    logging.disable()
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    call = pkgutil.resolve_name(function)
    channel = socket.socket(fileno=control)
    while True:
        order, descriptors, _, _ = socket.recv_fds(channel, 64, 1)
        if not order:
            return
        if descriptors:
            process = os.fork()
            if process == 0:
                channel.close()
                _work(call, socket.socket(fileno=descriptors[0]))
            os.close(descriptors[0])
            channel.send(b"%d" % process)
        else:
            os.kill(int(order), signal.SIGKILL)  # the process, or what is left of it
            _, status = os.waitpid(int(order), 0)
            channel.send(b"%d" % os.waitstatus_to_exitcode(status))


def _work(call: Any, channel: socket.socket) -> None:
    """Read lines of a limit and arguments, write lines with the value or the error; then exit."""
    with channel.makefile("rw", encoding="utf-8") as lines:
        for line in lines:
            limit_s, *arguments = json.loads(line)
            signal.setitimer(signal.ITIMER_PROF, limit_s)
            try:
                answer = {"value": call(*arguments)}
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {error}"[:500]}
            signal.setitimer(signal.ITIMER_PROF, 0)
            lines.write(json.dumps(answer) + "\n")
            lines.flush()
    os._exit(0)
