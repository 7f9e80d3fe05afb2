from __future__ import annotations

from typing import Any

import pytest

from reward_serve.config import ConfigError
from reward_serve.gateway import build_gateway

ARGS: dict[str, Any] = {
    "models": [{"name": "judge", "application": "a"}, {"name": "rule", "application": "b"}],
    "server": {"num_replicas": 2},
}


def test_a_gateway_is_an_ingress_that_knows_each_models_application() -> None:
    bound = build_gateway(ARGS)._bound_deployment
    assert bound.name == "ingress"
    assert bound.init_args[1] == {"judge": "a", "rule": "b"}
    assert bound.num_replicas == 2


def test_a_bad_file_fails_before_anything_is_deployed() -> None:
    with pytest.raises(ConfigError, match=r"models\.0\.application"):
        build_gateway({"models": [{"name": "judge"}]})
