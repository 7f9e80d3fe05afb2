"""This service's client, over HTTP or by handle (``PEER_URL`` is then Ray's address)."""

from __future__ import annotations

from deployments.local import APP
from loadtests.peers.lines import URL, Row, answer, each
from reward_serve.client import HttpRewardClient, RewardClient

MODEL = "judge"
if URL.startswith("http"):
    client: HttpRewardClient | RewardClient = HttpRewardClient(URL, model=MODEL)
else:
    import ray

    ray.init(URL, logging_level="error", log_to_driver=False)
    client = RewardClient(APP, MODEL)


async def score(row: Row) -> float:
    """One request of its group."""
    asked = {name: row[name] for name in ("question", "response", "reference", "group")}
    result = await client.ascore(asked)
    if result.score is None:
        raise RuntimeError(f"{result.status.value}: {result.reason}")
    return result.score


if __name__ == "__main__":
    answer(each(score))
