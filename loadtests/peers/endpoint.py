"""A stand-in for a judge's endpoint: 50 ms a reply, half of the rows right, faults and outages.

It answers in the form that the asking peer's prompt wants, by the ``model`` asked for. What a call
meets is drawn from its row and attempt, so every peer meets the same. ``away``: from the first call
on, the port refuses for 30 s; ``429``: every call of the first 10 s is refused.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import time
from collections import Counter
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from random import Random
from typing import Any

import psutil
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

REPLY_S, AWAY_S, REFUSED_S = 0.05, 30.0, 10.0
LATER = "429, Retry-After"
TEXTS = {"empty": "", "null": None, "no verdict": "The two answers need a closer look.",
         "cut off": "Let us compare the response with the"}  # fmt: skip
FAULTS = ("hang up", "hang", "429", LATER, "500", *TEXTS)
WEATHERS = ("calm", "faults", "away", "429")
VERDICTS = {
    "verifiers": ("no", "yes"),
    "nemo-gym": ("They differ.\n\n[[A!=B]] they are not equivalent", "[[A=B]] they are equivalent"),
    "verl": ("REWARD: 0.000", "REWARD: 1.000"),
    "skyrl": ("They differ.\n### Final Score: 0", "They agree.\n### Final Score: 1"),
    "inspect": ("They differ.\n\nGRADE: I", "They agree.\n\nGRADE: C"),
}
"""What a judge writes of a wrong and of a right row, by the ``model`` asked for."""
_PLAIN = ("They differ.\nVERDICT: 0", "They agree.\nVERDICT: 1")
_connections: dict[tuple[str, int], asyncio.Transport] = {}


class _Connection(H11Protocol):
    """A connection that the application can close without a reply."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        _connections[transport.get_extra_info("peername")] = transport


async def body_of(receive: Any) -> bytes:
    """The body of an ASGI request."""
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    return body


class Endpoint:
    """The application: ``calls`` by what they met, and the rows whose ``verdicts`` it gave."""

    def __init__(self, weather: str) -> None:
        self.weather, self.began = weather, 0.0
        self.calls, self.attempts = Counter[str](), Counter[int]()
        self.verdicts: set[int] = set()
        self.stopped = asyncio.Event()

    def fault(self, row: int) -> str | None:
        """What the next call for this row meets; None is a verdict. Negative rows warm up."""
        if row < 0:
            return None
        self.began = self.began or time.monotonic()
        self.attempts[row] += 1
        if self.weather == "away":
            self.stopped.set()
            return "away"
        if self.weather == "429" and time.monotonic() < self.began + REFUSED_S:
            return LATER
        drawn = Random(f"{row}/{self.attempts[row]}")
        return drawn.choice(FAULTS) if self.weather == "faults" and drawn.random() < 0.2 else None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        asked = json.loads(await body_of(receive))
        found = re.search(r"row (-?\d+):", str(asked["messages"]))
        row = int(found[1]) if found else -1  # a probe of the endpoint
        fault = self.fault(row)
        self.calls[fault or "verdict"] += row >= 0
        if fault == "hang":
            while (await receive())["type"] != "http.disconnect":
                pass
        elif fault in ("hang up", "away"):
            _connections.pop(scope["client"]).close()
        else:
            status = int(fault[:3]) if fault and fault not in TEXTS else 200
            content = {"error": {"message": f"a fault: {fault}"}}
            if status == 200:
                await asyncio.sleep(REPLY_S)
                content = self._completion(asked["model"], row, fault)
            headers = [(b"content-type", b"application/json")]
            headers += [(b"retry-after", b"1")] if fault == LATER else []
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": json.dumps(content).encode()})

    def _completion(self, model: str, row: int, fault: str | None) -> dict[str, Any]:
        text = TEXTS[fault] if fault else VERDICTS.get(model, _PLAIN)[row % 2]
        self.verdicts.update([] if fault else [row])
        reason = "length" if fault == "cut off" else "stop"
        message = {"role": "assistant", "content": text}
        return {
            "id": "c", "object": "chat.completion", "created": 0, "model": model,
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
            "usage": {"prompt_tokens": 90, "completion_tokens": 8, "total_tokens": 98},
        }  # fmt: skip


async def _serve(port: int, weather: str, pipe: Connection) -> None:
    endpoint = Endpoint(weather)
    asyncio.get_running_loop().add_reader(pipe.fileno(), endpoint.stopped.set)
    while not pipe.poll():
        config = uvicorn.Config(endpoint, http=_Connection, log_level="critical", access_log=False)
        server = uvicorn.Server(config)
        listening = socket.create_server(("127.0.0.1", port), backlog=4096)
        serving = asyncio.create_task(server.serve([listening]))
        pipe.send("listening")
        await endpoint.stopped.wait()
        server.should_exit = server.force_exit = True
        await serving
        endpoint.stopped.clear()
        with suppress(TimeoutError):  # away, until it is to end
            left_s = endpoint.began + AWAY_S - time.monotonic()
            await asyncio.wait_for(endpoint.stopped.wait(), 0.0 if pipe.poll() else left_s)
        endpoint.weather = "calm"
    pipe.send((endpoint.calls, endpoint.verdicts))


def _run(port: int, weather: str, pipe: Connection) -> None:
    asyncio.run(_serve(port, weather, pipe))


class Running:
    """A stand-in in a process of its own, until ``end``."""

    def __init__(self, port: int, weather: str) -> None:
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_run, args=(port, weather, theirs))
        self._process.start()
        self.process = psutil.Process(self._process.pid)
        assert self._pipe.recv() == "listening"

    def end(self) -> tuple[Counter[str], set[int]]:
        """Stop it; its calls by what they met, and the rows whose verdicts it gave."""
        self._pipe.send("end")
        while (counts := self._pipe.recv()) == "listening":
            pass
        self._process.join()
        calls, verdicts = counts
        return calls, verdicts
