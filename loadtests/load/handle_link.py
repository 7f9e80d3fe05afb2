"""Calls a Serve handle through a child process that runs Ray, over a socket.

Uses the standard library's sockets and threads, which locust replaces with gevent's.
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
    """A request got no answer."""


class HandleLink:
    """Concurrent requests over one child process.

    Args:
        app: the Serve application, on the cluster at ``RAY_ADDRESS``.
        command: arguments of Python in the child; the socket's descriptor and ``app`` follow.

    Raises:
        LostError: the child could not connect within a minute.
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
                start_new_session=True,  # Ctrl-C goes to the parent, which closes the socket
            )
        self._numbers = itertools.count()
        self._sending = threading.Lock()  # lines must not be interleaved
        self._waiting: dict[int, Future[dict[str, Any]]] = {}
        self._ready: Future[dict[str, Any]] = Future()
        threading.Thread(target=self._read, daemon=True).start()
        try:
            message = self._ready.result(_READY_TIMEOUT_S)
        except TimeoutError:
            message = {"failed": f"not connected in {_READY_TIMEOUT_S:g} s"}
        if "failed" in message:
            self.close()
            raise LostError(f"by handle: {message['failed']}")

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._child.pid

    def ask(self, request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """Send a request and return its result as a dict.

        Raises:
            LostError: no answer within ``timeout_s``, or the child has ended.
        """
        number = next(self._numbers)
        future = self._waiting[number] = Future()
        try:
            with self._sending:
                line = json.dumps({"n": number, "request": request})
                self._socket.sendall(line.encode() + b"\n")
            message = future.result(timeout_s)
        except TimeoutError:
            raise LostError(f"no answer in {timeout_s:g} s") from None
        except OSError as error:
            raise LostError(f"the handle's process ended: {error}") from error
        finally:
            self._waiting.pop(number, None)
        if "result" not in message:
            raise LostError(str(message.get("lost")))
        result: dict[str, Any] = message["result"]
        return result

    def close(self) -> None:
        """Close the socket and wait for the child to end."""
        with suppress(OSError):  # the child may have closed it first
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
                message = json.loads(line)
                waiting = self._waiting.get(message["n"]) if "n" in message else self._ready
                if waiting is not None and not waiting.done():
                    waiting.set_result(message)
        for future in (self._ready, *list(self._waiting.values())):
            if not future.done():
                future.set_result(gone)
