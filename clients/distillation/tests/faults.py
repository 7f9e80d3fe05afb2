"""A proxy before a service that fails every fifth call."""

from __future__ import annotations

import itertools
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Self

import requests

KINDS = ("dropped", "overloaded", "cut")


class Faults:
    """Every fifth POST is dropped, refused as overloaded, or its answer cut, in turn."""

    def __init__(self, service: str) -> None:
        self.calls: Counter[str] = Counter()
        numbers = itertools.count(1)

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._forward("GET", None)

            def do_POST(self) -> None:
                number = next(numbers)
                kind = "answered" if number % 5 else KINDS[number // 5 % 3]
                calls[kind] += 1
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if kind == "overloaded":
                    self._reply(503, b'{"detail": "overloaded"}', len(b'{"detail": "overloaded"}'))
                elif kind != "dropped":
                    self._forward("POST", body, cut=kind == "cut")

            def _forward(self, method: str, body: bytes | None, cut: bool = False) -> None:
                kept = {"Content-Type": "application/json"}
                answer = requests.request(method, service + self.path, data=body, headers=kept)
                sent = len(answer.content) // (2 if cut else 1)
                self._reply(answer.status_code, answer.content[:sent], len(answer.content))

            def _reply(self, code: int, content: bytes, length: int) -> None:
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(length))
                if code == 503:
                    self.send_header("Retry-After", "1")
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None: ...

        calls = self.calls
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    @property
    def faults(self) -> int:
        return self.calls.total() - self.calls["answered"]

    def __enter__(self) -> Self:
        Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
