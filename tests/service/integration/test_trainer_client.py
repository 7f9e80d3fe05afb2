"""The client that trainers share, by handle from every kind of caller."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import ray

from reward_serve.client import connect
from reward_serve.schema import ScoreResult
from tests.service.integration.applications import RULES

ASKED = [{"response": f"#### {n}", "reference": str(n - n % 2), "id": str(n)} for n in range(500)]
RIGHT = [(str(n), float(n % 2 == 0)) for n in range(500)]


def test_threads_and_coroutines_and_a_worker_of_the_cluster_score_by_handle(rule_url: str) -> None:
    client = connect(app=RULES, on_failure="rule")

    async def gathered() -> list[ScoreResult]:
        return await asyncio.gather(*map(client.ascore, ASKED))

    @ray.remote(num_cpus=0)
    def score(asked: dict[str, str]) -> ScoreResult:
        return connect(app=RULES).score(asked)

    with ThreadPoolExecutor(32) as pool:
        by_threads = list(pool.map(client.score, ASKED))
    for results in (asyncio.run(gathered()), by_threads):
        assert [(result.id, result.score) for result in results] == RIGHT
    counts = client.counters.snapshot()
    assert (counts["asked"], counts["ok"]) == (1000, 1000)
    by_worker = ray.get(score.remote(ASKED[1]))
    assert (by_worker.id, by_worker.score) == RIGHT[1]
