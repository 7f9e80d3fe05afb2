"""The load tests' way to a Serve handle: a child process that has Ray, and a socket to it.

Written on the standard library's sockets and threads, which locust makes gevent's.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import subprocess
import sys
import threading
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[2]
_READY_TIMEOUT_S = 60.0
_EXIT_TIMEOUT_S = 10.0


class LostError(Exception):
    """There was no answer."""


class HandleLink:
    """Many requests in flight at once over one child process.

    Args:
        app: the Serve application, on the cluster of ``RAY_ADDRESS``.
        command: what the child runs; it is given the socket's file descriptor and ``app``.

    Raises:
        LostError: the child could not connect, or did not in a minute.
    """

    def __init__(
        self, app: str, command: tuple[str, ...] = ("-m", "loadtests.load.handle_worker")
    ) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._child = subprocess.Popen(
                [sys.executable, *command, str(theirs.fileno()), app],
                pass_fds=[theirs.fileno()],
                cwd=_ROOT,
                env={**os.environ, "RAY_SERVE_LOG_TO_STDERR": "0"},
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is the parent's: it hangs up when it is done
            )
        self._numbers = itertools.count()
        self._sending = threading.Lock()  # lines must not run into each other
        self._waiting: dict[int, Future[dict[str, Any]]] = {}
        self._ready: Future[dict[str, Any]] = Future()
        threading.Thread(target=self._read, daemon=True).start()
        try:
            told = self._ready.result(_READY_TIMEOUT_S)
        except TimeoutError:
            told = {"failed": f"not connected in {_READY_TIMEOUT_S:g} s"}
        if "failed" in told:
            self.close()
            raise LostError(f"by handle: {told['failed']}")

    @property
    def pid(self) -> int:
        """Of the child."""
        return self._child.pid

    def ask(self, request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """The result of one request, as the wire carries it.

        Raises:
            LostError: none came in ``timeout_s``, or the child is gone.
        """
        number = next(self._numbers)
        future = self._waiting[number] = Future()
        try:
            with self._sending:
                line = json.dumps({"n": number, "request": request})
                self._socket.sendall(line.encode() + b"\n")
            told = future.result(timeout_s)
        except TimeoutError:
            raise LostError(f"no answer in {timeout_s:g} s") from None
        except OSError as error:
            raise LostError(f"the handle's process is gone: {error}") from error
        finally:
            self._waiting.pop(number, None)
        if "result" not in told:
            raise LostError(str(told.get("lost")))
        result: dict[str, Any] = told["result"]
        return result

    def close(self) -> None:
        """Hang up, and see the child gone."""
        with suppress(OSError):  # the child may have hung up first
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        try:
            self._child.wait(_EXIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()

    def _read(self) -> None:
        gone = {"failed": "its process ended", "lost": "the handle's process ended"}
        with suppress(OSError), self._socket.makefile("rb") as lines:
            for line in lines:
                told = json.loads(line)
                waiting = self._waiting.get(told["n"]) if "n" in told else self._ready
                if waiting is not None and not waiting.done():
                    waiting.set_result(told)
        for future in (self._ready, *list(self._waiting.values())):
            if not future.done():
                future.set_result(gone)
