"""An endpoint that answers criteria by computing them, and fails in known ways, by the item.

Every criterion is about the number in the response, so what a result must be is known exactly.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from typing import Any, Literal, get_args

from reward_serve import ScoreResult
from reward_serve.client import Client
from reward_serve.client.transport import SERVICE_GRACE_S

Fault = Literal[
    "late",
    "hang",
    "http_500",
    "http_429",
    "reset",
    "not_json",
    "no_choices",
    "garbage",
    "planted",
    "truncated",
    "wrong_label",
    "left_out",
    "null",
]
FAULTS: Sequence[Fault] = get_args(Fault)
RATE = 0.2
_SOUND = 40
MIN_ANSWERED = 6
CHOICES = {"A": Fraction(1), "B": Fraction(1, 2), "C": Fraction(0)}
AGGREGATES = ("weighted", "all", "min", "mean")

_OF_SOME = ("wrong_label", "left_out", "null")
_STATUSES: Mapping[str, str] = {
    "hang": "timeout",
    "http_429": "overloaded",
    **dict.fromkeys(("http_500", "reset", "not_json", "no_choices"), "error"),
    **dict.fromkeys(("garbage", "planted", *_OF_SOME), "unparseable"),
    "truncated": "truncated",
}
_WEIGHTS = {fault: 0.1 if fault == "hang" else 1.0 for fault in FAULTS}  # as chaos weighs them


def fault_of(number: int) -> Fault | None:
    """The fault of the item with this number: none for the first, then one of each, then drawn.

    A client takes a service whose very first answers are errors for one that is down.
    """
    if number < _SOUND:
        return None
    if number < _SOUND + len(FAULTS):
        return FAULTS[number - _SOUND]
    drawn = Random(number)
    if drawn.random() >= RATE:
        return None
    return drawn.choices(FAULTS, list(_WEIGHTS.values()))[0]


def rubric_of(number: int) -> list[dict[str, Any]]:
    """Eight criteria: seven of yes or no and a graded one, of which five may have any weight."""
    drawn = Random(-1 - number)
    weights = [1.0, 0.3, 2.0, *(drawn.choice([-2.0, -0.7, 0.5, 1.0, 3.0]) for _ in range(5))]
    rubric: list[dict[str, Any]] = [
        {"name": f"by {k}", "text": f"It is divisible by {k}.", "weight": weight}
        for k, weight in zip(range(2, 9), weights, strict=False)
    ]
    graded = {"text": "Divided by 3, what is left? A: 0, B: 1, C: 2.", "weight": weights[7]}
    return [
        *rubric,
        {"name": "left", **graded, "choices": {k: float(v) for k, v in CHOICES.items()}},
    ]


def answers_of(number: int) -> dict[str, str]:
    """The right answer to each criterion."""
    return {f"by {k}": "no" if number % k else "yes" for k in range(2, 9)} | {
        "left": "ABC"[number % 3]
    }


def absent_of(number: int) -> set[str]:
    """The criteria of the item that must have no score."""
    fault, names = fault_of(number), list(answers_of(number))
    if fault in _OF_SOME:
        drawn = Random(f"absent {number}")
        return set(drawn.sample(names, drawn.choice([1, 2, 3])))
    return set() if fault in (None, "late") else set(names)


class _Endpoint(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    over: threading.Event

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        prompt = body["messages"][-1]["content"]
        found = re.search(r"<response>\nIt is (\d+)\.\n</response>", prompt)
        if found is None:  # the replica's own first request
            self._send(200, _reply([_choice(0, "garbage", {})]))
            return
        number = int(found[1])
        asked = re.findall(r"(?m)^([\w ]+) \([\w /]+\): ", prompt)
        right = answers_of(number)
        assert asked == list(right), "one call has all criteria"
        match fault_of(number):
            case "hang":
                self.over.wait()
            case "reset":
                linger = struct.pack("ii", 1, 0)
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                self.connection.close()
                self.close_connection = True
            case "http_500":
                self._send(500, b'{"error": {"message": "yes"}}')
            case "http_429":
                self._send(429, b"slow down")
            case "not_json":
                self._send(200, b'{"choices": [{"message": {"content": "{')
            case "no_choices":
                self._send(200, _reply([]))
            case fault:
                if fault == "late":
                    time.sleep(0.3)
                self._send(200, _reply([_choice(number, fault, right)]))

    def _send(self, status: int, data: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None: ...


def _reply(choices: list[Any]) -> bytes:
    usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
    about = {"id": "c", "object": "chat.completion", "created": 0, "model": "m", "usage": usage}
    return json.dumps({**about, "choices": choices}).encode()


def _choice(number: int, fault: Fault | None, right: dict[str, str]) -> dict[str, Any]:
    said: dict[str, Any] = dict(right)
    for name in absent_of(number) if fault in _OF_SOME else ():
        said[name] = "maybe" if fault == "wrong_label" else None
        if fault == "left_out":
            del said[name]
    text = f"Considered. {json.dumps(said)}"
    best = json.dumps(dict.fromkeys(right, "yes"))
    if fault == "garbage":
        text = "\x00\ufffd]]}> yes yes score 1"
    elif fault == "planted":
        text = f"The response says {best}, so {{who knows}}"
    elif fault == "truncated":
        text = f"The response says {best} but it is {{"
    end = "length" if fault == "truncated" else "stop"
    return {
        "index": 0,
        "finish_reason": end,
        "message": {"role": "assistant", "content": text},
    }


class _Server(ThreadingHTTPServer):
    request_queue_size = 1024  # the default of five refuses some of 500 calls at once


@contextmanager
def faulty_rubrics(aggregates: Sequence[str] = AGGREGATES) -> Iterator[dict[str, Any]]:
    """The ``args`` of an application with a rubric for each aggregate, while its endpoint is up."""
    over = threading.Event()
    handler = type("Endpoint", (_Endpoint,), {"over": over})
    server = _Server(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    remote = {"model": "m", "api_key_env": None, "max_retries": 0, "timeout_s": 600}
    remote["base_url"] = f"http://127.0.0.1:{server.server_port}/v1"
    fields: dict[str, Any] = {"remote": remote, "resources": {"num_cpus": 0.1}}
    try:
        yield {
            "models": [
                {
                    "name": aggregate,
                    "kind": "remote",
                    "rubric": {"aggregate": aggregate, "min_answered": MIN_ANSWERED / 8},
                    "max_concurrent_items": 64,
                    **fields,
                }
                for aggregate in aggregates
            ]
        }
    finally:
        over.set()
        server.shutdown()
        server.server_close()


def check_items(
    clients: Sequence[Client], items: int, timeout_s: float, aggregates: Sequence[str] = AGGREGATES
) -> Counter[str]:
    """Score items of eight criteria, and check every part of every result; how items ended.

    Args:
        clients: asked in turn, with one attempt for each item.
        items: their number.
        timeout_s: each item's deadline.
        aggregates: the names of the models, asked in turn.
    """

    async def ask_all() -> None:
        slots = asyncio.Semaphore(48)

        async def ask(number: int) -> None:
            model = aggregates[number // len(clients) % len(aggregates)]
            request = {"response": f"It is {number}.", "rubric": rubric_of(number), "model": model}
            async with slots:
                began = time.monotonic()
                result = await clients[number % len(clients)].ascore(
                    {**request, "timeout_s": timeout_s}
                )
                took_s = time.monotonic() - began
            assert took_s < timeout_s + SERVICE_GRACE_S, (number, took_s, result)
            _check(number, model, result)
            ended[f"{fault_of(number)}: {result.status.value}"] += 1

        for part in (range(_SOUND), range(_SOUND, items)):  # first, clients find their models
            async with asyncio.TaskGroup() as group:
                for number in part:
                    group.create_task(ask(number))

    ended: Counter[str] = Counter()
    asyncio.run(ask_all())
    assert ended.total() == items
    return ended


def _check(number: int, aggregate: str, result: ScoreResult) -> None:
    fault, absent, said = fault_of(number), absent_of(number), answers_of(number)
    values = {"yes": Fraction(1), "no": Fraction(0), **CHOICES}
    parts = result.components or {}
    there = [
        (values[said[one["name"]]], Fraction(one["weight"]))
        for one in rubric_of(number)
        if one["name"] not in absent
    ]
    for name, part in parts.items():
        expected = None if name in absent else float(values[said[name]])
        assert part.score == expected, (number, fault, name, part)
        assert part.status.value == (_STATUSES[str(fault)] if name in absent else "ok")
    lowers = aggregate in ("all", "min") and absent and there
    could_lower = lowers and formula(aggregate, there) > 0
    if len(there) < MIN_ANSWERED or could_lower:
        assert (result.score, result.status.value) == (None, _STATUSES[str(fault)]), (
            number,
            result,
        )
        return
    assert set(parts) == set(said), (number, fault, result)
    assert result.score is not None, (number, fault, result)
    assert abs(result.score - formula(aggregate, there)) < 1e-9, (number, aggregate, result)


def formula(aggregate: str, scores: Sequence[tuple[Fraction, Fraction]]) -> Fraction:
    """The aggregate as docs/how-to/rubrics.md defines it, in exact fractions."""
    if aggregate == "weighted":
        possible = sum((weight for _, weight in scores if weight > 0), Fraction(0))
        earned = sum((score * weight for score, weight in scores), Fraction(0))
        return min(Fraction(1), max(Fraction(0), earned / possible))
    met = [score if weight > 0 else 1 - score for score, weight in scores]
    if aggregate == "all":
        return Fraction(all(each > Fraction(1, 2) for each in met))
    return min(met) if aggregate == "min" else sum(met, Fraction(0)) / len(met)
