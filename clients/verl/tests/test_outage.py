"""The workers of verl 0.9.1's reward loop, with a service that goes away and comes back."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from pathlib import Path
from typing import Any

import pytest
from verl.experimental.reward_loop.reward_loop import RewardLoopWorker

from clients.verl.tests.reward_loop import REWARDS, configured, rollout
from tests.fake_service import FakeService

DEADLINE_S = 3.0
OUTAGE_S = float(os.environ.get("OUTAGE_S", "5"))


def test_an_outage_in_mid_run_costs_one_deadline_and_ends_by_itself(
    tokenizer: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with FakeService() as service:
        waits, recovered_s = asyncio.run(through_an_outage(service, tokenizer))

    logging.getLogger(__name__).info(
        "an outage of %g s: %d steps took %.2f s in all, the longest %.2f s; judged again %.2f s "
        "after its end", OUTAGE_S, len(waits), sum(waits), max(waits), recovered_s,
    )  # fmt: skip
    assert len(waits) > 5
    assert sum(waited_s > DEADLINE_S / 2 for waited_s in waits) <= 1
    texts = [record.getMessage() for record in caplog.records]
    assert sum("does not answer" in text for text in texts) == 1
    assert sum("answers again" in text for text in texts) == 1


async def through_an_outage(service: FakeService, tokenizer: Path) -> tuple[list[float], float]:
    """How long each step took that was not judged, and when one was after the outage's end."""
    config = configured(service.url, tokenizer, timeout_s=DEADLINE_S, max_attempts=None)
    worker, batch = RewardLoopWorker(config), rollout(tokenizer)

    async def judged() -> bool:
        outputs = await worker.compute_score_batch(batch)
        assert [output["reward_score"] for output in outputs] == REWARDS
        return not any(output["reward_extra_info"]["fallback"] for output in outputs)

    assert await judged()
    back_at = time.monotonic() + OUTAGE_S

    def away(call: Any) -> None:
        if time.monotonic() < back_at:
            raise ConnectionAbortedError

    service.before_reply = away
    waits: list[float] = []
    began = time.monotonic()
    while not await judged():
        waits.append(time.monotonic() - began)
        began = time.monotonic()
    return waits, time.monotonic() - back_at
