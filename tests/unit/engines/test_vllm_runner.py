"""When an engine is beyond help; tests/service/integration shows that its replica then exits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from reward_serve.engines.vllm import Progress, VllmRunner


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
    assert await Engine(errored=errored, stall_timeout_s=60).fatal_error() == reason


async def test_a_core_that_answers_nothing_is_a_failure() -> None:
    engine = Engine(errored=False, stall_timeout_s=0)
    engine._progress.submitted()
    assert "the engine gave no output for" in str(await engine.fatal_error())


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def progress(clock: Clock) -> Progress:
    return Progress(clock)


def test_an_idle_engine_is_not_stalled(clock: Clock, progress: Progress) -> None:
    clock.now_s += 3600
    assert progress.stalled_s == 0


def test_an_engine_with_work_is_stalled_since_it_was_handed_in(
    clock: Clock, progress: Progress
) -> None:
    progress.submitted()
    clock.now_s += 5
    assert progress.stalled_s == 5


def test_further_work_does_not_hide_a_stall(clock: Clock, progress: Progress) -> None:
    progress.submitted()
    for _ in range(10):
        clock.now_s += 1
        progress.submitted()
    assert progress.stalled_s == 10


def test_output_for_any_request_is_progress(clock: Clock, progress: Progress) -> None:
    progress.submitted()
    progress.submitted()
    clock.now_s += 50
    progress.advanced()
    assert progress.stalled_s == 0
    clock.now_s += 7
    assert progress.stalled_s == 7


def test_an_answer_starts_the_wait_for_the_next_anew(clock: Clock, progress: Progress) -> None:
    progress.submitted()
    progress.submitted()
    clock.now_s += 50
    progress.answered()
    assert progress.stalled_s == 0
    clock.now_s += 7
    assert progress.stalled_s == 7


def test_an_engine_that_answered_all_is_idle(clock: Clock, progress: Progress) -> None:
    progress.submitted()
    progress.submitted()
    clock.now_s += 50
    progress.advanced()
    progress.answered()
    progress.advanced()
    progress.answered()
    clock.now_s += 3600
    assert progress.stalled_s == 0


def test_a_hung_engine_is_noticed_though_every_request_timed_out(
    clock: Clock, progress: Progress
) -> None:
    for _ in range(3):
        progress.submitted()
        clock.now_s += 20
        progress.abandoned()
    assert progress.stalled_s == 60


def test_an_answer_after_abandoned_requests_clears_the_stall(
    clock: Clock, progress: Progress
) -> None:
    progress.submitted()
    clock.now_s += 60
    progress.abandoned()
    progress.submitted()  # the probe
    progress.answered()
    clock.now_s += 3600
    assert progress.stalled_s == 0


def test_an_idle_time_is_not_counted_once_work_comes(clock: Clock, progress: Progress) -> None:
    progress.submitted()
    progress.answered()
    clock.now_s += 3600
    progress.submitted()
    clock.now_s += 2
    assert progress.stalled_s == 2
