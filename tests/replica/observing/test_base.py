from __future__ import annotations

from reward_serve.replica.observing.base import Observers, Times


def test_several_observers_are_told_alike() -> None:
    told: list[str] = []

    class Named:
        def __init__(self, name: str) -> None:
            self._name = name

        def observe(self, *_: object) -> None:
            told.append(f"{self._name} observes")

        def cancelled(self) -> None:
            told.append(f"{self._name} cancelled")

        def flush(self) -> None:
            told.append(f"{self._name} flushes")

    both = Observers(Named("a"), Named("b"))
    both.observe({}, {}, Times(1.0))
    both.cancelled()
    both.flush()
    assert told == [
        *("a observes", "b observes"),
        *("a cancelled", "b cancelled"),
        *("a flushes", "b flushes"),
    ]
