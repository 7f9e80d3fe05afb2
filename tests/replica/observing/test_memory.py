from __future__ import annotations

import pytest

from reward_serve import memory
from reward_serve.replica.observing.base import Times
from reward_serve.replica.observing.memory import MemoryTrimmer


def test_large_requests_are_trimmed_once_they_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    trims: list[None] = []
    monkeypatch.setattr(memory, "trim", lambda: trims.append(None))
    trimmer = MemoryTrimmer()
    trimmer.observe({"response": "a" * (memory.LARGE_BYTES - 1000)}, {}, Times(1.0))
    trimmer.flush()
    assert trims == []
    trimmer.observe({"response": "a" * 2000}, {}, Times(1.0))
    trimmer.flush()
    trimmer.flush()
    assert trims == [None]
