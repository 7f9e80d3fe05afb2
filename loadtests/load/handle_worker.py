"""Asks by handle for a process that cannot: Ray's gRPC does not run under gevent.

A child process of ``HandleLink``: connects to the cluster of ``RAY_ADDRESS`` and answers requests,
a JSON line each, over the socket whose file descriptor it is given. Singles travel together, as a
trainer's do; none is asked twice, so that what the service answered is what is counted. It ends
when the socket is closed, as it is when its parent is gone, however that came.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from typing import Annotated, Any

import typer

from reward_serve.client import Client, RewardClient
from reward_serve.schema import ScoreResult, Status

_LINE_BYTES = 2**24
_CLIENTS_OWN = (Status.ERROR, Status.TIMEOUT)


def main(
    descriptor: Annotated[int, typer.Argument(help="Of the socket to the parent.")],
    app: Annotated[str, typer.Argument(help="The Serve application.")],
) -> None:
    """Answer until the parent hangs up."""
    asyncio.run(serve(socket.socket(fileno=descriptor), app))
    os._exit(0)  # at once: nobody waits for what is still under way


async def serve(sock: socket.socket, app: str) -> None:
    """Say whether the application answers, then answer each line."""
    reader, writer = await asyncio.open_connection(sock=sock, limit=_LINE_BYTES)
    by_handle = RewardClient(app)
    try:
        _connect()
        await by_handle.ascore({})  # refused, over a handle that is ready from then on
    except Exception as error:  # the parent says what it was
        writer.write(_line({"failed": str(error)}))
        await writer.drain()
        return
    writer.write(_line({"ready": True}))
    client = Client(by_handle, on_failure="none", max_attempts=1)
    asking: set[asyncio.Task[None]] = set()
    while line := await reader.readline():
        task = asyncio.create_task(_answer(client, writer, json.loads(line)))
        asking.add(task)
        task.add_done_callback(asking.discard)


def told(result: ScoreResult) -> dict[str, Any]:
    """A result as it goes to the parent; one that the client had to make up was lost."""
    if result.status in _CLIENTS_OWN and result.model is None:
        return {"lost": result.reason}
    return {"result": result.model_dump(mode="json")}


def _connect() -> None:
    import ray

    ray.init(address="auto", namespace="serve", log_to_driver=False, logging_level="error")


async def _answer(client: Client, writer: asyncio.StreamWriter, asked: dict[str, Any]) -> None:
    try:
        answer = told(await client.ascore(asked["request"]))
    except Exception as error:
        answer = {"lost": f"{type(error).__name__}: {error}"}
    writer.write(_line({"n": asked["n"], **answer}))


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


if __name__ == "__main__":
    typer.run(main)
