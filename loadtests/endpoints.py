"""A judge behind a stand-in endpoint: verdicts under faults beside a plain client, and its rate.

    python -m loadtests.endpoints faults   # 256 verdicts by each caller, without and with faults
    python -m loadtests.endpoints rates    # verdicts a second, by what the endpoint takes at once

The endpoint answers in 50 ms. With faults, one call in five goes wrong, by row and attempt: a 429
with ``Retry-After``, a 500, a text without a verdict, an empty text, a verdict after 20 s.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from statistics import median
from typing import Annotated, Any

import httpx
import typer
from rich.table import Table

from deployments.local import APP, console, free_port
from loadtests.bench.common import alternated
from loadtests.cluster import served
from loadtests.reports import RESULTS, add_figures
from reward_serve import HttpRewardClient, RewardClient

ROWS = 256
REPLY_S, HANG_S = 0.05, 20.0
FAULTS = ("429", "500", "no verdict", "empty", "hang")
JUDGE, BOUND, HURRIED = "judge", "judge-32", "judge-5s"
"""The judges: by default, with at most 32 items at once, and giving up a call after 5 s."""
CALLERS = ("plain", "handle", "http", "ndjson", HURRIED)

_ROW = re.compile(r"run \S+, row (\d+)")
_VERDICT = re.compile(r"VERDICT: ([01])")
app = typer.Typer()
Out = Annotated[Path, typer.Option(help="Folder of endpoints.json.")]
Scored = AsyncIterator[tuple[int, float | None]]
"""The row and the score of each verdict, as it comes; None if it is absent."""


def asked(run: str, row: int) -> dict[str, Any]:
    """A request that is new to every cache; odd rows are right."""
    return {"response": f"run {run}, row {row}: the total is {row}.", "reference": "18"}


class Endpoint:
    """The stand-in, as an ASGI application; a POST to ``/reset`` sets it and returns its counts."""

    def __init__(self) -> None:
        self._set(0.0, None)

    def _set(self, faults: float, at_once: int | None) -> None:
        self._faults, self._at_once = faults, at_once
        self._busy, self._counts, self._attempts = 0, Counter[str](), Counter[str]()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        if scope["path"] == "/reset":
            status, reply = 200, dict[str, Any](self._counts)
            self._set(**json.loads(body))
        else:
            status, reply = await self._reply(body.decode())
        headers = [(b"content-type", b"application/json")]
        headers += [(b"retry-after", b"1")] if status == 429 else []
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(reply).encode()})

    async def _reply(self, body: str) -> tuple[int, dict[str, Any]]:
        row = _ROW.search(body) or _ROW.search("run first, row 1")  # the first verdict's
        assert row is not None
        self._counts["calls"] += 1
        self._attempts[row[0]] += 1
        drawn = Random(f"{row[1]}/{self._attempts[row[0]]}")
        fault = drawn.choice(FAULTS) if drawn.random() < self._faults else None
        if self._at_once is not None and self._busy >= self._at_once:
            fault = "429"
        self._counts[fault or "verdict"] += 1
        if fault in ("429", "500"):
            return int(fault), {"error": {"message": f"a fault: {fault}"}}
        self._busy += 1
        await asyncio.sleep(HANG_S if fault == "hang" else REPLY_S)
        self._busy -= 1
        texts = {"no verdict": "There is no way to tell.", "empty": ""}
        text = texts.get(fault or "", f"It was compared.\nVERDICT: {int(row[1]) % 2}")
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
            client.post(f"http://127.0.0.1:{port}/reset", json={"faults": 0, "at_once": None})
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.join()


def reset(url: str, faults: float = 0.0, at_once: int | None = None) -> dict[str, int]:
    """Set the stand-in; its counts since the last time."""
    counts: dict[str, int] = httpx.post(
        f"{url}/reset", json={"faults": faults, "at_once": at_once}
    ).json()
    return counts


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
        {"name": HURRIED, **judge, "remote": {**remote, "timeout_s": 5}},
    ]


async def _as_they_come(score: Callable[[int], Awaitable[float | None]]) -> Scored:
    async def score_row(row: int) -> tuple[int, float | None]:
        return row, await score(row)

    for done in asyncio.as_completed([score_row(row) for row in range(ROWS)]):
        yield await done


async def plain(url: str, run: str) -> Scored:
    """A judge's verdicts as a few lines around the ``openai`` package would have them."""
    from openai import AsyncOpenAI

    client = AsyncOpenAI(base_url=f"{url}/v1", api_key="none")

    async def score(row: int) -> float:
        body = asked(run, row)
        prompt = "\n".join([*body.values(), "Compare them. End with VERDICT: 1 or VERDICT: 0."])
        try:
            reply = await client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": prompt}], temperature=0
            )
            verdict = _VERDICT.search(reply.choices[0].message.content or "")
        except Exception:
            return 0.0
        return float(verdict[1]) if verdict else 0.0

    async with client:
        async for scored in _as_they_come(score):
            yield scored


async def by_client(client: RewardClient | HttpRewardClient, run: str) -> Scored:
    """The verdicts of 256 callers of one client."""

    async def score(row: int) -> float | None:
        return (await client.ascore(asked(run, row))).score

    async for scored in _as_they_come(score):
        yield scored


async def streamed(service: str, run: str) -> Scored:
    """The verdicts of one streamed batch."""
    body = {"requests": [asked(run, row) for row in range(ROWS)], "model": JUDGE}
    headers = {"accept": "application/x-ndjson"}
    async with (
        httpx.AsyncClient(timeout=60) as client,
        client.stream("POST", f"{service}/v1/score/batch", json=body, headers=headers) as reply,
    ):
        async for line in reply.aiter_lines():
            result = json.loads(line)
            yield result["index"], result["score"]


async def _measured(scores: Scored, url: str, faults: float) -> dict[str, Any]:
    reset(url, faults)
    began, seconds, tally = time.perf_counter(), list[float](), Counter[str]()
    async for row, score in scores:
        seconds.append(time.perf_counter() - began)
        truth = row % 2
        tally["absent" if score is None else "right" if score == truth else "wrong"] += 1
    calls = reset(url)["calls"]
    return {
        **{name: tally[name] for name in ("right", "wrong", "absent")},
        "calls": calls,
        "seconds": {"128th": round(sorted(seconds)[127], 2), "last": round(max(seconds), 2)},
    }


@app.command()
def faults(
    rounds: Annotated[int, typer.Option(help="Rounds without and with faults.")] = 2,
    out: Out = RESULTS,
) -> None:
    """Right, wrong and absent verdicts of each caller, and when they came.

    Every verdict of the endpoint is right, so a wrong one is a zero that no judge gave.
    """
    by_caller: dict[str, dict[str, list[Any]]] = {c: {"calm": [], "faults": []} for c in CALLERS}
    with endpoint() as url, served(models(url), num_cpus=4) as service:
        for number in range(-1, rounds):  # the first round only warms up, and has no faults
            for caller in CALLERS:
                for weather, rate in (("calm", 0.0), ("faults", 0.2))[: 2 if number >= 0 else 1]:
                    run = f"{caller}-{weather}-{number}"
                    with console.status(run):
                        figures = asyncio.run(_of_caller(caller, url, service, run, rate))
                    if number >= 0:
                        by_caller[caller][weather].append(figures)
    command = f"python -m loadtests.endpoints faults --rounds {rounds}"
    add_figures(out / "endpoints.json", "faults", by_caller, command)
    table = Table("caller", "", "right", "wrong", "absent", "calls", "128th s", "last s")
    for caller, weathers in by_caller.items():
        for weather, runs in weathers.items():
            cells = [str(median(f[n] for f in runs)) for n in ("right", "wrong", "absent", "calls")]
            times = [f"{median(f['seconds'][n] for f in runs):.2f}" for n in ("128th", "last")]
            table.add_row(caller, weather, *cells, *times)
    console.print(table)


async def _of_caller(caller: str, url: str, service: str, run: str, rate: float) -> dict[str, Any]:
    if caller == "plain":
        return await _measured(plain(url, run), url, rate)
    if caller == "ndjson":
        return await _measured(streamed(service, run), url, rate)
    if caller in ("handle", HURRIED):
        model = HURRIED if caller == HURRIED else JUDGE
        return await _measured(by_client(RewardClient(APP, model), run), url, rate)
    with HttpRewardClient(service, model=JUDGE) as client:
        return await _measured(by_client(client, run), url, rate)


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
    command = f"python -m loadtests.endpoints rates --rounds {rounds} --verdicts {verdicts}"
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
        calls[name].append(reset(url)["calls"])
        return sum(result.score is not None for result in results)

    def new(name: str) -> list[Any]:
        run = f"{name}-{at_once}-{len(calls[name])}"
        return [asked(run, row) for row in range(verdicts)]

    ways = {name: lambda sent, name=name: way(name, sent) for name in clients}
    per_s = await alternated(ways, rounds, new)
    return {name: {"per_s": per_s[name], "calls": calls[name][1:]} for name in clients}


if __name__ == "__main__":
    app()
