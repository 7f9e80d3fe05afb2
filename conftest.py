"""Settings, tiers and fixtures of all tests."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from reward_serve.client import connecting, loop
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


_past: list[Any] = []
"""Clients of tests that are over: kept, since a connection that is collected unclosed warns."""


@pytest.fixture(autouse=True)
def no_outage_outlives_its_test() -> Iterator[None]:
    """Services that a test left dead are neither probed nor remembered during the next ones."""
    yield
    _past.append((*connecting._clients.values(), *connecting._endpoints.values()))
    connecting._clients.clear()
    connecting._endpoints.clear()
    if own := loop._loops.get(os.getpid()):
        asyncio.run_coroutine_threadsafe(_cancel_probes(), own).result()


async def _cancel_probes() -> None:
    for task in asyncio.all_tasks():
        if task.get_name().startswith("probe of "):
            task.cancel()
