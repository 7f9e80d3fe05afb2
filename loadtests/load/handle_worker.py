"""Calls a Serve handle for ``HandleLink``, since Ray's gRPC does not run under gevent.

Connects to the cluster at ``RAY_ADDRESS`` and answers requests, one JSON line each, over the socket
whose descriptor it is given. Requests are batched as a trainer's are, and never retried, so that
the service's own answers are counted. It ends when the socket is closed, also if the parent was
killed.
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
    descriptor: Annotated[int, typer.Argument(help="File descriptor of the socket.")],
    app: Annotated[str, typer.Argument(help="The Serve application.")],
) -> None:
    """Answer requests until the parent closes the socket."""
    asyncio.run(serve(socket.socket(fileno=descriptor), app))
    os._exit(0)  # do not wait for calls in flight


async def serve(sock: socket.socket, app: str) -> None:
    """Report whether the application answers, then answer each line."""
    reader, writer = await asyncio.open_connection(sock=sock, limit=_LINE_BYTES)
    by_handle = RewardClient(app)
    try:
        _connect()
        await by_handle.ascore({})  # is refused, and sets up the handle
    except Exception as error:  # the parent reports it
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


def message_of(result: ScoreResult) -> dict[str, Any]:
    """The message for a result; a failure made by the client, not the service, is lost."""
    if result.status in _CLIENTS_OWN and result.model is None:
        return {"lost": result.reason}
    return {"result": result.model_dump(mode="json")}


def _connect() -> None:
    import ray

    ray.init(address="auto", namespace="serve", log_to_driver=False, logging_level="error")


async def _answer(client: Client, writer: asyncio.StreamWriter, asked: dict[str, Any]) -> None:
    try:
        answer = message_of(await client.ascore(asked["request"]))
    except Exception as error:
        answer = {"lost": f"{type(error).__name__}: {error}"}
    writer.write(_line({"n": asked["n"], **answer}))


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


if __name__ == "__main__":
    typer.run(main)
