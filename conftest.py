"""Settings, tiers and fixtures of all tests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from unittest import mock

import httpx
import pytest
from hypothesis import settings

from reward_serve.client import client, transport
from reward_serve.client.transport import HttpTransport
from tests.fake_service import FakeService

# The same examples every time, so that a run says something of the change and not of its luck;
# HYPOTHESIS_PROFILE=search looks for others, and for longer.
settings.register_profile("fixed", derandomize=True, deadline=None, database=None)
settings.register_profile("sample", settings.get_profile("fixed"), max_examples=25)
settings.register_profile("search", max_examples=2000, deadline=None, print_blob=True)
pytest_plugins = ["tests.tiers"]


@pytest.fixture
def service() -> Iterator[FakeService]:
    with FakeService() as service:
        yield service


@pytest.fixture
def serve_log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """What Serve's logger says, which does not propagate."""
    serve = logging.getLogger("ray.serve")
    serve.addHandler(caplog.handler)
    yield caplog
    serve.removeHandler(caplog.handler)


@pytest.fixture(scope="session")
def connected() -> Iterator[list[HttpTransport]]:
    """The transports that have opened connections."""
    transports: list[HttpTransport] = []
    opened = HttpTransport._opened

    def recorded(transport: HttpTransport) -> httpx.AsyncClient:
        transports.append(transport)
        return opened(transport)

    with mock.patch.object(HttpTransport, "_opened", recorded):
        yield transports


@pytest.fixture(autouse=True)
def no_client_outlives_its_test(connected: list[HttpTransport]) -> Iterator[None]:
    """Close connections, and neither probe nor remember services that the test left dead."""
    yield
    client._client.cache_clear()
    client._shared_endpoint.cache_clear()
    if own := transport.process.loop:
        asyncio.run_coroutine_threadsafe(_end(connected), own).result(30)


async def _end(transports: list[HttpTransport]) -> None:
    for task in asyncio.all_tasks():
        if task.get_name().startswith("probe of "):
            task.cancel()
    while transports:
        await transports.pop().aclose()
