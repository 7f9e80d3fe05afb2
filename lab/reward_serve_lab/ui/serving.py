"""Run the workbench: its pages on loopback, behind the guard, until Ctrl-C."""

from __future__ import annotations

import secrets
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
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


@dataclass(frozen=True)
class Settings:
    """The command's options.

    Attributes:
        url: the service's URL.
        api_key: the service's key, if it has keys.
        log: folders or files of verdict logs.
        token: the token that opens the pages.
    """

    url: str
    api_key: str | None = None
    log: Sequence[Path] = ()
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))


def application(settings: Settings, port: int) -> ASGIApp:
    """The pages behind their guard.

    Raises:
        ValueError: a setting is invalid; the message names it.
    """
    for path in settings.log:
        if not path.exists():
            raise ValueError(f"--log: {path} does not exist; give verdict_log.folder")
    service = Service(settings.url, settings.api_key)
    verdicts = VerdictTable(settings.log) if settings.log else None

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
    return Guard(app, settings.token, port)


def serve(settings: Settings, port: int, on_address: Callable[[str], None]) -> None:
    """Serve the pages until a signal.

    Args:
        settings: the command's options.
        port: the port on loopback.
        on_address: called with the address to open, including the token.

    Raises:
        ValueError: a setting is invalid.
        OSError: the port is taken.
    """
    with socket.create_server((HOST, port)) as listening:
        app = application(settings, port)
        on_address(f"http://{HOST}:{port}/?token={settings.token}")
        config = uvicorn.Config(
            app, log_level="warning", server_header=False, proxy_headers=False, lifespan="on"
        )
        uvicorn.Server(config).run(sockets=[listening])
