"""Run the workbench: its pages on loopback, behind the guard, until Ctrl-C."""

from __future__ import annotations

import secrets
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from nicegui import ui
from starlette.types import ASGIApp

from reward_serve_lab.logs.table import VerdictTable
from reward_serve_lab.ui.guard import Guard
from reward_serve_lab.ui.service import Service
from reward_serve_lab.ui.session import Workbench
from reward_serve_lab.ui.shell import add_pages

HOST = "127.0.0.1"


def application(
    url: str, api_key: str | None, logs: Sequence[Path], port: int, token: str
) -> ASGIApp:
    """The pages behind their guard.

    Args:
        url: the service's URL.
        api_key: the service's key, if it has keys.
        logs: folders or files of verdict logs.
        port: the pages' port.
        token: the token that opens the pages.

    Raises:
        ValueError: a setting is invalid; the message names it.
    """
    for path in logs:
        if not path.exists():
            raise ValueError(f"--log: {path} does not exist; give verdict_log.folder")
    service = Service(url, api_key)
    verdicts = VerdictTable(logs) if logs else None

    @asynccontextmanager
    async def running(app: FastAPI) -> AsyncIterator[None]:
        if verdicts is not None:
            verdicts.start()
        try:
            yield
        finally:
            if verdicts is not None:
                verdicts.close()
            await service.close()

    app = FastAPI(lifespan=running, openapi_url=None)
    add_pages(Workbench(service, verdicts))
    ui.run_with(
        app,
        title="reward_serve",
        favicon=Path(__file__).with_name("favicon.svg"),
        dark=None,
        language="en-US",
        tailwind=False,
        reconnect_timeout=30,
        show_welcome_message=False,
    )
    return Guard(app, token, port)


def serve(
    url: str,
    api_key: str | None,
    logs: Sequence[Path],
    port: int,
    on_address: Callable[[str], None],
) -> None:
    """Serve the pages until a signal.

    ``on_address`` is called with the address to open, including the token.

    Raises:
        ValueError: a setting is invalid.
        OSError: the port is taken.
    """
    with socket.create_server((HOST, port)) as listening:
        token = secrets.token_urlsafe(24)
        app = application(url, api_key, logs, port, token)
        on_address(f"http://{HOST}:{port}/?token={token}")
        config = uvicorn.Config(
            app, log_level="warning", server_header=False, proxy_headers=False, lifespan="on"
        )
        uvicorn.Server(config).run(sockets=[listening])
