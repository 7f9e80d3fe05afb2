"""Calls a function in child processes that the kernel kills when a call exceeds its CPU time.

A hostile regular expression or formula can run forever inside one call of C code, which neither a
signal handler nor another thread can interrupt. A child's CPU-time alarm has no handler, so it
kills the process. The next one is forked from a process that has imported the function's module: an
import of sympy takes a second, a fork some milliseconds. The standard library's forkserver would
import Ray's worker with each, half a second, since that is ``__main__`` in a replica.

An item's calls together have ``_QUICK_S`` seconds of CPU time in the quick lane. What is left then
goes to the slow lane, as does at once what was slow before. Items wait for a lane by key and batch,
as for the slots of a replica. A process that uses no CPU time, since it is stopped or others use
the cores, is killed after a multiple of its limit in real time.
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
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from contextvars import ContextVar
from typing import Any, NamedTuple

from reward_serve_answers import UndecidedError, VerifierError

_MEMORY_BYTES = 2**30
_QUICK_S = 0.15
_LEAST_S = 0.001  # for an item's next call; a timer of 0 would be none
_MAX_PROCESSES = 16
_MAX_KNOWN = 2**14  # slow calls that are remembered
_WALL = 20  # wall-clock limit of a quick call, in CPU time limits
_SLOW_WALL = 60
_START_S = 30.0  # for the first process, which may import sympy

_Call = tuple[str, ...]

LANES: ContextVar[Callable[[object, int], AbstractAsyncContextManager[None]]] = ContextVar(
    "lanes", default=lambda lane, slots: nullcontext()
)
"""Gives an item's slot to others; then waits for and holds one of a lane's, by key and batch too.

Takes what identifies the lane, and its slots. Raises ``OverloadedError`` if the lane is too slow
for the item's deadline. By default, items wait for a lane in the order of calls.
"""


class ChildProcess:
    """Runs one function's calls in child processes, which are replaced if they end.

    The lanes have as many processes together as there are cores besides the caller's, at most 15
    and at least one each; a quarter of them are slow.

    Args:
        function: ``package.module:name``; takes strings and returns a JSON value.
        limit_s: CPU time limit of an item's calls, in seconds.
        wait_s: for a function that waits for processes of its own, in one lane: how long.
    """

    def __init__(self, function: str, limit_s: float, wait_s: float | None = None) -> None:
        self._function = function
        self._limit_s = limit_s
        cores = min(_MAX_PROCESSES, len(os.sched_getaffinity(0)))
        slow = max(1, cores // 4)
        self._quick = _Lane("verifier", max(1, cores - 1 - slow), _QUICK_S, _WALL * limit_s)
        self._slow = _Lane("slow verifier", slow, limit_s, _SLOW_WALL * limit_s)
        if wait_s is not None:
            self._quick = self._slow = _Lane("verifier", max(1, cores - 1), limit_s, wait_s)
        self._known: dict[int, bool] = {}  # slow calls: whether each exceeded the limit alone
        self._idle: list[_Worker] = []
        self._lock = threading.Lock()
        self._forker: _Forker | None = None

    async def call(self, *calls: _Call) -> list[Any]:
        """The function's value for the arguments of each of an item's calls, in order.

        It is an ``UndecidedError`` for a call that raised, that exceeded the item's CPU time, or
        was not reached in it.

        Raises:
            VerifierError: the process did not answer in time, or ended for another reason.
            OverloadedError: the lane is too slow for the item's deadline.
        """
        values: dict[_Call, Any] = {}
        left = [call for call in dict.fromkeys(calls) if not self._known.get(hash(call))]
        for lane in dict.fromkeys((self._quick, self._slow)):
            slow = [call for call in left if hash(call) in self._known]
            sent = [call for call in left if call not in slow]
            sent += slow if lane is self._slow else []
            if not sent:
                continue
            async with LANES.get()(lane, lane.width):
                asked: list[_Worker] = []
                try:
                    future = lane.threads.submit(self._ask, lane, sent, asked)
                    answers = await asyncio.wrap_future(future)
                except asyncio.CancelledError:
                    with self._lock:
                        for worker in asked:  # whose thread then ends it
                            worker.channel.shutdown(socket.SHUT_RDWR)
                    raise
            values |= zip(sent, answers, strict=False)
            left = [call for call in left if call not in values]
            if len(answers) < len(sent):
                self._known[hash(sent[len(answers)])] = lane is self._slow and not answers
                if len(self._known) > _MAX_KNOWN:
                    del self._known[next(iter(self._known))]
        too_slow = UndecidedError("too_slow", f"more than {self._limit_s:g} s of CPU time")
        return [values.get(call, too_slow) for call in calls]

    def close(self) -> None:
        """Kill the child processes."""
        for lane in (self._quick, self._slow):
            lane.threads.shutdown(wait=False, cancel_futures=True)
        if self._forker is not None:
            for worker in self._idle:
                self._forker.end(worker)
            self._forker.close()

    def _ask(self, lane: _Lane, calls: list[_Call], asked: list[_Worker]) -> list[Any]:
        """The calls' values, without those after the lane's limit; ``asked`` holds the worker."""
        worker, answers = self._worker(), list[str]()
        asked.append(worker)
        worker.channel.settimeout(lane.wall_s)
        try:
            with suppress(ConnectionError), worker.channel.makefile("r", encoding="utf-8") as lines:
                worker.channel.sendall(json.dumps([lane.limit_s, *calls]).encode() + b"\n")
                while len(answers) < len(calls) and (line := lines.readline()).endswith("\n"):
                    answers.append(line)
            with self._lock:
                asked.clear()
        except TimeoutError:
            worker.forker.end(worker)
            raise VerifierError(
                f"the verifier's process did not answer within {lane.wall_s:g} s and was replaced; "
                "retry"
            ) from None
        if len(answers) == len(calls):
            self._idle.append(worker)
        elif (code := worker.forker.end(worker)) != -signal.SIGPROF:
            raise VerifierError(f"the verifier's process ended with exit code {code}")
        return [
            UndecidedError("not_computed", answer["error"])
            if "error" in answer
            else answer["value"]
            for answer in map(json.loads, answers)
        ]

    def _worker(self) -> _Worker:
        with self._lock:
            if self._forker is None or not self._forker.alive:
                self._idle.clear()
                self._forker = _Forker(self._function)
            return self._idle.pop() if self._idle else self._forker.fork()


class _Lane:
    """Threads that each wait for a process, and the limits of its calls."""

    def __init__(self, name: str, width: int, limit_s: float, wall_s: float) -> None:
        self.width, self.limit_s, self.wall_s = width, limit_s, wall_s
        self.threads = ThreadPoolExecutor(width, thread_name_prefix=name)


class _Worker(NamedTuple):
    """A process that answers messages of calls on a socket."""

    forker: _Forker
    process: int
    channel: socket.socket


class _Forker:
    """The process that imports the function's module and forks workers."""

    def __init__(self, function: str) -> None:
        self._control, theirs = socket.socketpair()
        self._control.settimeout(_START_S)
        with theirs:
            number = theirs.fileno()
            code = f"from {__name__} import main; main({function!r}, {number})"
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", code], pass_fds=[number], start_new_session=True
            )
        self._lock = threading.Lock()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def fork(self) -> _Worker:
        """Start another worker; raises ``VerifierError`` if it did not start."""
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
    """Read lines of a limit and calls, write a line with each value or error; then exit."""
    with channel.makefile("rw", encoding="utf-8") as lines:
        for line in lines:
            left_s, *calls = json.loads(line)
            for arguments in calls:
                signal.setitimer(signal.ITIMER_PROF, max(left_s, _LEAST_S))
                try:
                    answer = {"value": call(*arguments)}
                except Exception as error:
                    answer = {"error": f"{type(error).__name__}: {error}"[:500]}
                left_s, _ = signal.setitimer(signal.ITIMER_PROF, 0)
                lines.write(json.dumps(answer) + "\n")
                lines.flush()
    os._exit(0)
