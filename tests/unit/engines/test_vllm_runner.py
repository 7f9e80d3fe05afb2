"""When an engine is beyond help; tests/service/integration shows that its replica then exits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from reward_serve.engines.vllm_runner import Progress, VllmRunner


class Engine(VllmRunner):
    """Without vLLM, and with a probe that never succeeds."""

    def __init__(self, *, errored: bool, stall_timeout_s: float) -> None:
        llm: Any = SimpleNamespace(errored=errored)
        config: Any = SimpleNamespace(stall_timeout_s=stall_timeout_s)
        self._llm, self._config, self._progress = llm, config, Progress()

    async def _probe(self) -> None:
        raise TimeoutError


@pytest.mark.parametrize(
    ("errored", "reason"), [(True, "the engine core died"), (False, None)], ids=["dead", "well"]
)
async def test_a_dead_core_is_a_failure(errored: bool, reason: str | None) -> None:
    assert await Engine(errored=errored, stall_timeout_s=60).failure() == reason


async def test_a_core_that_answers_nothing_is_a_failure() -> None:
    engine = Engine(errored=False, stall_timeout_s=0)
    engine._progress.submitted()
    assert "the engine gave no output for" in str(await engine.failure())
