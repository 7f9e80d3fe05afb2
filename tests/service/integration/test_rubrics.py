"""Rubrics through the deployed service; only the model's endpoint is fake."""

from __future__ import annotations

import pytest

from reward_serve import HttpRewardClient, RewardClient
from tests.rubric_faults import check_items, faulty_rubrics
from tests.service.integration.conftest import Deploy, wait_for_app

APP = "rubrics"


@pytest.mark.timeout(240)
def test_under_faults_no_failed_criterion_is_a_number_and_every_score_its_formula(
    url: str, deploy_app: Deploy
) -> None:
    with faulty_rubrics(["weighted"]) as args:
        deploy_app(APP, args)
        wait_for_app(APP, 120)
        clients = [
            HttpRewardClient(f"{url}/{APP}", max_attempts=1, max_batch=1),
            RewardClient(APP, max_attempts=1, max_batch=1),
        ]
        check_items(clients, 80, timeout_s=6, aggregates=["weighted"])
