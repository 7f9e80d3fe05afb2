"""A judge's verdicts a second behind a stand-in endpoint, by what that takes at once.

    python -m loadtests.endpoints

The endpoint answers in 50 ms. What becomes of verdicts when it does not: ``loadtests.peers``.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import httpx
import typer
from rich.table import Table

from deployments.local import APP, console, free_port
from loadtests.bench.common import alternated
from loadtests.cluster import served
from loadtests.peers.endpoint import body_of
from loadtests.reports import RESULTS, add_figures
from reward_serve import RewardClient

REPLY_S = 0.05
JUDGE, BOUND = "judge", "judge-32"
"""The judges: by default, and with at most 32 items at once."""

_ROW = re.compile(r"run \S+, row (\d+)")
app = typer.Typer()
Out = Annotated[Path, typer.Option(help="Folder of endpoints.json.")]


def asked(run: str, row: int) -> dict[str, Any]:
    """A request that is new to every cache; odd rows are right."""
    return {"response": f"run {run}, row {row}: the total is {row}.", "reference": "18"}


class Endpoint:
    """The stand-in, as an ASGI application; a POST to ``/reset`` sets it and returns its counts."""

    def __init__(self) -> None:
        self._set(None)

    def _set(self, at_once: int | None) -> None:
        self._at_once, self._busy, self._calls = at_once, 0, 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        body = await body_of(receive)
        if scope["path"] == "/reset":
            status, reply = 200, {"calls": self._calls}
            self._set(**json.loads(body))
        else:
            status, reply = await self._reply(body.decode())
        headers = [(b"content-type", b"application/json")]
        headers += [(b"retry-after", b"1")] if status == 429 else []
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(reply).encode()})

    async def _reply(self, body: str) -> tuple[int, dict[str, Any]]:
        row = _ROW.search(body)
        self._calls += 1
        if self._at_once is not None and self._busy >= self._at_once:
            return 429, {"error": {"message": "too many requests at once"}}
        self._busy += 1
        await asyncio.sleep(REPLY_S)
        self._busy -= 1
        text = f"It was compared.\nVERDICT: {int(row[1]) % 2 if row else 1}"  # a first one has none
        choice = {"index": 0, "message": {"role": "assistant", "content": text}}
        used = {"prompt_tokens": 90, "completion_tokens": 8, "total_tokens": 98}
        completion = {"id": "c", "object": "chat.completion", "created": 0, "model": "m"}
        return 200, {**completion, "choices": [{**choice, "finish_reason": "stop"}], "usage": used}


def _serve(port: int) -> None:
    import uvicorn

    uvicorn.run(Endpoint(), port=port, log_level="error", access_log=False)


@contextmanager
def endpoint() -> Iterator[str]:
    """The stand-in in a process of its own; its URL."""
    port = free_port()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(port,))
    process.start()
    try:
        with httpx.Client(transport=httpx.HTTPTransport(retries=10)) as client:
            client.post(f"http://127.0.0.1:{port}/reset", json={"at_once": None})
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.join()


def reset(url: str, at_once: int | None = None) -> int:
    """Set how many requests the stand-in takes at once; its calls since the last time."""
    calls: int = httpx.post(f"{url}/reset", json={"at_once": at_once}).json()["calls"]
    return calls


def models(url: str) -> list[dict[str, Any]]:
    """The judges of this endpoint."""
    remote = {"model": "m", "base_url": f"{url}/v1", "api_key_env": None}
    judge = {
        "kind": "remote",
        "judge": {"mode": "generate", "rules_first": False},
        "resources": {"num_cpus": 0.1},
    }
    return [
        {"name": JUDGE, **judge, "remote": remote},
        {"name": BOUND, **judge, "remote": remote, "max_concurrent_items": 32},
    ]


@app.command()
def rates(
    verdicts: Annotated[int, typer.Option(help="Verdicts of a round.")] = 2048,
    rounds: Annotated[int, typer.Option(help="Rounds.")] = 3,
    out: Out = RESULTS,
) -> None:
    """Verdicts a second by handle, of an endpoint that refuses what is above a number at once."""
    by_limit: dict[str, Any] = {}
    with endpoint() as url, served(models(url), num_cpus=4):
        clients = {name: RewardClient(APP, name, timeout_s=120) for name in (JUDGE, BOUND)}
        for at_once in (None, 128, 16):
            by_limit[str(at_once or "any")] = asyncio.run(
                _rates(clients, url, at_once, verdicts, rounds)
            )
    command = f"python -m loadtests.endpoints --rounds {rounds} --verdicts {verdicts}"
    add_figures(out / "endpoints.json", "rates", by_limit, command)
    table = Table("at once", "judge", "verdicts/s", "calls a verdict")
    for taken, judges in by_limit.items():
        for name, figures in judges.items():
            calls = f"{median(figures['calls']) / verdicts:.2f}"
            table.add_row(taken, name, f"{median(figures['per_s']):.0f}", calls)
    console.print(table)


async def _rates(
    clients: dict[str, RewardClient], url: str, at_once: int | None, verdicts: int, rounds: int
) -> dict[str, Any]:
    calls: dict[str, list[int]] = {name: [] for name in clients}

    async def way(name: str, sent: list[Any]) -> int:
        reset(url, at_once=at_once)
        results = await clients[name].ascore_batch(sent)
        calls[name].append(reset(url))
        return sum(result.score is not None for result in results)

    def new(name: str) -> list[Any]:
        run = f"{name}-{at_once}-{len(calls[name])}"
        return [asked(run, row) for row in range(verdicts)]

    ways = {name: lambda sent, name=name: way(name, sent) for name in clients}
    per_s = await alternated(ways, rounds, new)
    return {name: {"per_s": per_s[name], "calls": calls[name][1:]} for name in clients}


if __name__ == "__main__":
    app()
