"""The client that trainers share, on a real application: by handle, and when it goes away."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import ray
from ray import serve

from reward_serve.client import connect
from reward_serve.schema import ScoreResult, Status
from reward_serve_verl import compute_score
from tests.service.integration.applications import RULES
from tests.service.integration.conftest import Deploy, wait_for

RULE = {"models": [{"name": "rule", "kind": "rule", "resources": {"num_cpus": 0.1}}]}


def asked(n: int) -> dict[str, Any]:
    """A request whose right answer depends on its number."""
    return {"response": f"#### {n}", "reference": str(n - n % 2), "id": str(n)}


def outcome(result: ScoreResult) -> tuple[str | None, float | None]:
    return result.id, result.score


def answer(n: int) -> tuple[str, float]:
    return str(n), float(n % 2 == 0)


def test_threads_and_coroutines_score_by_handle(rule_url: str) -> None:
    client = connect(app=RULES, on_failure="rule")

    async def gathered() -> list[ScoreResult]:
        return await asyncio.gather(*(client.ascore(asked(n)) for n in range(500)))

    assert [outcome(result) for result in asyncio.run(gathered())] == [
        answer(n) for n in range(500)
    ]
    with ThreadPoolExecutor(32) as pool:
        results = list(pool.map(lambda n: client.score(asked(n)), range(500)))
    assert [outcome(result) for result in results] == [answer(n) for n in range(500)]
    counts = client.counters.snapshot()
    assert (counts["asked"], counts["ok"]) == (1000, 1000)


def test_a_worker_of_the_cluster_connects_by_name(rule_url: str) -> None:
    @ray.remote(num_cpus=0)
    def score(n: int) -> tuple[str | None, float | None]:
        return outcome(connect(app=RULES).score(asked(n)))

    assert ray.get([score.remote(n) for n in range(4)]) == [answer(n) for n in range(4)]


@pytest.mark.slow
def test_an_application_that_goes_away_is_counted(deploy_app: Deploy) -> None:
    deploy_app("leaves", RULE)
    client = connect(app="leaves", on_failure="rule", timeout_s=20, max_attempts=2)
    assert client.score(asked(0)).source == "rule"

    serve.delete("leaves")
    results = client.score_batch([asked(n) for n in range(20)])

    assert [outcome(result) for result in results] == [answer(n) for n in range(20)]
    assert {result.source for result in results} == {"fallback"}
    counts = client.counters.snapshot()
    assert (counts["failed"], counts["fallback"], counts["ok"]) == (20, 20, 1)


def test_an_inline_template_that_is_refused_is_reported_with_the_remedy(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    info = {"prompt_template": "{PROBLEM} {CANDIDATE_SOLUTION} REWARD: 0 to 1", "problem": "?"}
    row = asyncio.run(compute_score("gsm8k", "#### 18", "18", info, url=url))

    assert (row["score"], row["fallback"], row["failed_invalid"]) == (1.0, 1.0, 1.0)
    # The answer is handed out before the batch is reported.
    wait_for("the report", lambda: "judge.inline_templates: true" in caplog.text, 30)


@pytest.mark.slow
def test_an_inline_template_is_judged_where_they_are_allowed(deploy_app: Deploy, url: str) -> None:
    judge = {"inline_templates": True, "max_tokens": 16}
    model = {"name": "judge", "kind": "judge", "judge": judge, "engine": {"model": "bundled"}}
    client = deploy_app("inline", {"models": [model | {"resources": {"num_cpus": 1}}]})
    template = "Say REWARD: 1 or REWARD: 0.\n{CANDIDATE_SOLUTION}"
    result = client.score({"response": "18", "template": template, "timeout_s": 60})

    assert result.template == "inline"
    assert result.status in (Status.OK, Status.TRUNCATED, Status.UNPARSEABLE)
    assert result.usage.completion_tokens > 0
