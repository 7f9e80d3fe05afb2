"""One door for the reward models of several applications: ``reward_serve.gateway:build_gateway``.

Serve restarts every deployment of an application whose ``args`` change. Models that are to be
added and replaced without touching the others are applications of their own; the gateway picks by
``model``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reward_serve.app import bind_ingress
from reward_serve.config import parse_gateway

if TYPE_CHECKING:
    from ray.serve import Application


def build_gateway(args: dict[str, Any]) -> Application:
    """The gateway that ``args`` of a deployments file describe.

    The applications may come later, go and come back: until then their requests wait, and fail
    typed at their deadlines.

    Raises:
        ConfigError: names the field and the remedy.
    """
    config = parse_gateway(args)
    return bind_ingress(config.server, {each.name: each.application for each in config.models})
