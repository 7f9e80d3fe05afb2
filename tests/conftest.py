"""Unit tests run first: they take seconds, and some check that nothing started Ray."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fake_service import FakeService


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "integration" in item.path.parts:
            item.add_marker(pytest.mark.integration)
    items.sort(key=lambda item: "integration" in item.path.parts)


@pytest.fixture
def service() -> Iterator[FakeService]:
    with FakeService() as service:
        yield service
