"""A judge behind vLLM's own OpenAI server."""

from typing import Any

import pytest

from loadtests.bench.bare_engine import vllm_server
from reward_serve import HttpRewardClient, RewardClient
from reward_serve_judge.weights import ADAPTER, prepare_bundled
from tests.service.integration.conftest import Deploy, wait_for

APP = "remote"


@pytest.mark.slow
@pytest.mark.timeout(420)
def test_a_remote_judge_scores_by_its_endpoints_logprobs(deploy_app: Deploy, url: str) -> None:
    weights = str(prepare_bundled(adapter=ADAPTER))
    with vllm_server(weights) as endpoint:
        remote: dict[str, Any] = {"base_url": f"{endpoint}/v1", "api_key_env": None}
        model = {
            "name": "remote",
            "kind": "remote",
            "remote": {**remote, "model": weights},
            "judge": {"rules_first": False},
            "resources": {"num_cpus": 0.1},
        }
        deploy_app(APP, {"models": [model]})
        asked = [{"response": f"The answer is {n}.", "reference": "18"} for n in (18, 16)]
        with HttpRewardClient(f"{url}/{APP}", timeout_s=60) as http:
            wait_for("the remote judge", http.is_ready, 60)
            for client in (http, RewardClient(APP, timeout_s=60)):
                results = client.score_batch(asked)
                assert [result.score for result in results] == [1.0, 0.0]
            (described,) = http.models()
    assert results[0].usage.prompt_tokens > 50
    assert (described["kind"], described["engine"]["weights"]) == ("remote", weights)
