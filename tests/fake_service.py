"""The wire contract over HTTP without Ray Serve, for the tests of what calls it."""

import asyncio
import contextlib
import json
import socket
import sys
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self, TypeVar

from reward_serve.config.models import RuleModel, VerdictLogConfig
from reward_serve.logprobs import as_json_values
from reward_serve.replica.admission import Admission
from reward_serve.replica.observers import VerdictLog
from reward_serve.replica.scoring import Scorer
from reward_serve.reward_models.base import RewardModel
from reward_serve.reward_models.rule import RuleRewardModel
from reward_serve.schema import REFUSED, GroupRequest, GroupResult, ScoreResult, Status, failure
from reward_serve.version import __version__

T = TypeVar("T")


@dataclass
class Reply:
    """What the service says: JSON data, or bytes as they are."""

    content: Any
    code: int = 200
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Call:
    path: str
    headers: dict[str, str]
    body: Any


async def judge_by_length(request: GroupRequest, place: object) -> GroupResult:
    """Judges a group by the length of its responses; one that is blank has no score."""
    longest = max(map(len, request.responses))
    return GroupResult.of(
        [
            ScoreResult(status=Status.OK, score=len(response) / longest, source="judge")
            if response.strip()
            else failure(Status.ERROR, "the engine is gone")
            for response in request.responses
        ]
    )


class FakeService:
    """The wire contract over HTTP, answered by the real rule or by ``model``.

    ``replies`` overrides a path. With ``log``, a folder, the service writes its verdict log there.

    Ray Serve and the judge of groups are fake here, nothing else.
    """

    def __init__(self, model: RewardModel | None = None, log: Path | None = None) -> None:
        self.replies: dict[str, Reply] = {}
        self.before_reply: Callable[[Call], object] = lambda call: None
        self.calls: list[Call] = []
        self.connections = 0
        rule = RuleRewardModel(RuleModel(name="rule", kind="rule"))
        rule.score_group, rule.group_wait = judge_by_length, 0.5
        config = VerdictLogConfig(folder=str(log), rate=1.0)
        self._logs = [] if log is None else [VerdictLog("rule", config)]
        self._scorer = Scorer("rule", model or rule, Admission(64, 4096), observers=self._logs)
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.service = self
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        self._loop = asyncio.new_event_loop()
        self._looping = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def answer(self, call: Call) -> Reply:
        self.calls.append(call)
        self.before_reply(call)
        if call.path in self.replies:
            return _echoing(self.replies[call.path], call)
        if call.path == "/v1/score":
            result = self._scored(self._scorer.score(call.body))
            return Reply(result, Status(result["status"]).http_code)
        if call.path == "/v1/score/batch":
            asked = call.body["requests"]
            results = self._scored(self._scorer.score_batch(asked))
            for request, result in zip(asked, results, strict=True):
                if request.get("model") not in (None, "rule"):  # as the dispatcher refuses it
                    result["details"] = REFUSED
            return Reply({"results": results})
        if call.path == "/v1/score/group":
            group = self._scored(self._scorer.score_group(call.body))
            return Reply(group, Status(group["status"]).http_code)
        if call.path == "/v1/logprobs":
            tokens = self._scored(self._scorer.logprobs(call.body))
            content = as_json_values(tokens, call.body.get("encoding_format"))
            return Reply(content, Status(tokens["status"]).http_code)
        if call.path == "/v1/explain":
            explanation = self._scored(self._scorer.explain(call.body))
            return Reply(explanation, Status(explanation["result"]["status"]).http_code)
        if call.path == "/v1/models":
            return Reply({"models": [{"name": "rule", "ready": True}], "version": __version__})
        if call.path == "/ready":
            return Reply({"status": "ok"})
        return Reply({"detail": "Not Found"}, 404)

    def _scored(self, answer: Coroutine[Any, Any, T]) -> T:
        """On one event loop, as in a replica, whichever thread serves the request."""
        try:
            return asyncio.run_coroutine_threadsafe(answer, self._loop).result()
        except RuntimeError:  # the loop is closed, the service has ended
            answer.close()
            raise ConnectionAbortedError from None

    def __enter__(self) -> Self:
        self._looping.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._looping.join()
        self._loop.close()
        for log in self._logs:
            log.close()


def verdicts(log: Path) -> list[dict[str, Any]]:
    """The lines of a service's verdict log, in a folder, once the service has ended."""
    texts = (file.read_text(encoding="utf-8") for file in sorted(log.glob("verdicts-*")))
    return [json.loads(line) for text in texts for line in text.splitlines()]


def _echoing(reply: Reply, call: Call) -> Reply:
    """The reply; results that it gives without an id have that of their request."""
    results = reply.content.get("results") if isinstance(reply.content, dict) else None
    asked = call.body.get("requests", []) if isinstance(call.body, dict) else []
    if not isinstance(results, list) or len(results) != len(asked):
        return reply
    pairs = zip(results, asked, strict=True)
    named = [{"id": asked.get("id"), **result} for result, asked in pairs]
    return Reply({**reply.content, "results": named}, reply.code, reply.headers)


class _Server(ThreadingHTTPServer):
    service: FakeService
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print no trace of a connection that a test or its caller ends on purpose."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.server.service.connections += 1

    def do_GET(self) -> None:
        self._reply(None)

    def do_POST(self) -> None:
        self._reply(json.loads(self.rfile.read(int(self.headers["content-length"]))))

    def _reply(self, body: Any) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        reply = self.server.service.answer(Call(self.path, headers, body))
        content = reply.content
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(reply.code)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        with contextlib.suppress(BrokenPipeError):  # the caller may have gone
            self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None: ...


_dead: list[socket.socket] = []


def dead_url() -> str:
    """A URL at which nothing listens, nor can while this process runs."""
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    _dead.append(taken)
    return f"http://127.0.0.1:{taken.getsockname()[1]}"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
