from __future__ import annotations

from typing import Any

from reward_serve.by_value import by_value


class Handle:
    """A deployment's handle that keeps the options it is given."""

    def __init__(self, **options: Any) -> None:
        self.given = options

    def options(self, **options: Any) -> Handle:
        return Handle(**options)


class OldHandle:
    """One of a Ray without the option."""

    def options(self, *, method_name: str = "") -> OldHandle:
        raise AssertionError("was not to be called without what it refuses")


def test_calls_carry_their_data() -> None:
    assert by_value(Handle()).given["_by_reference"] is False


def test_an_older_rays_handle_stays_as_it_is() -> None:
    handle = OldHandle()

    assert by_value(handle) is handle
