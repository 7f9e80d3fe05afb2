"""A vLLM server with a fake engine, which knows some weights and always writes the same."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Container
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class FakeSampler:
    """The server in this process, on a free port of loopback, or on ``port``."""

    def __init__(self, known: Container[str], port: int = 0, delay_s: float = 0.0) -> None:
        self.asked: list[dict[str, Any]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            # HTTP/1.0: no connection outlives its request, so a stopped server answers nothing.

            def do_GET(self) -> None:
                self._reply(200, {"data": [{"id": "base", "object": "model"}]})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                time.sleep(delay_s)
                if body["model"] not in known:
                    return self._reply(404, {"message": f"no model {body['model']}"})
                if body["max_tokens"] < 1:
                    return self._reply(400, {"message": "max_tokens must be at least 1"})
                outer.asked.append(body)
                one = {"token_ids": [1, 2], "logprobs": {"token_logprobs": [-1.0, -0.5]}}
                choices = [one | {"finish_reason": "stop"} for _ in range(body["n"])]
                return self._reply(200, {"choices": choices})

            def _reply(self, code: int, body: Any) -> None:
                data = json.dumps(body).encode()
                self.send_response(code)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None: ...

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

        self.server = Server(("127.0.0.1", port), Handler)
        self.port = self.server.server_port
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> FakeSampler:
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()
