"""The workers of verl 0.9.1's reward loop, with a service that goes away and comes back."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from verl.experimental.reward_loop.reward_loop import RewardLoopWorker

from clients.verl.tests.reward_loop import REWARDS, configured, rollout
from tests.fake_service import FakeService


def test_an_outage_costs_one_step_a_deadline_and_ends_by_itself(tokenizer: Path) -> None:
    with FakeService() as service:
        asyncio.run(through_an_outage(service, tokenizer))


async def through_an_outage(service: FakeService, tokenizer: Path) -> None:
    config = configured(service.url, tokenizer, timeout_s=3.0, max_attempts=None)
    worker, batch = RewardLoopWorker(config), rollout(tokenizer)

    async def judged() -> bool:
        outputs = await worker.compute_score_batch(batch)
        assert [output["reward_score"] for output in outputs] == REWARDS  # a rule's, if not judged
        return not any(output["reward_extra_info"]["fallback"] for output in outputs)

    def drop(call: Any) -> None:
        raise ConnectionAbortedError

    def asked() -> int:
        return sum(call.path == "/v1/score/batch" for call in service.calls)

    assert await judged()
    service.before_reply = drop
    assert not await judged()
    before = asked()
    for _ in range(5):
        assert not await judged()
    assert asked() == before, "later steps do not wait for a service that is away"
    service.before_reply = lambda call: None
    while not await judged():
        continue
