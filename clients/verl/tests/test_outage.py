"""The workers of verl 0.9.1's reward loop, with a service that goes away and comes back."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from verl.experimental.reward_loop.reward_loop import RewardLoopWorker

from clients.verl.tests.reward_loop import REWARDS, configured, rollout
from tests.fake_service import FakeService
from tests.outage import Outage, check_cost

DEADLINE_S = 3.0


def test_an_outage_in_mid_run_costs_one_deadline_and_ends_by_itself(
    tokenizer: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with FakeService() as service:
        waits, recovered_s = asyncio.run(through_an_outage(service, tokenizer))

    check_cost(service.url, waits, DEADLINE_S / 2, recovered_s, caplog)


async def through_an_outage(service: FakeService, tokenizer: Path) -> tuple[list[float], float]:
    """How long each step took that was not judged, and when one was after the outage's end."""
    config = configured(service.url, tokenizer, timeout_s=DEADLINE_S, max_attempts=None)
    worker, batch = RewardLoopWorker(config), rollout(tokenizer)

    async def judged() -> bool:
        outputs = await worker.compute_score_batch(batch)
        assert [output["reward_score"] for output in outputs] == REWARDS
        return not any(output["reward_extra_info"]["fallback"] for output in outputs)

    assert await judged()
    outage = Outage(service)
    waits: list[float] = []
    began = time.monotonic()
    while not await judged():
        waits.append(time.monotonic() - began)
        began = time.monotonic()
    return waits, outage.seconds_since_end()
