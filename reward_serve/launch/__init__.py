"""Implements ``reward-serve serve``: serves a deployments file on Ray until a signal."""

from reward_serve.launch.clusters import (
    START_SETTINGS,
    LaunchError,
    models_of,
    serve_run,
    set_start_settings,
)
from reward_serve.launch.serving import serve_until_stopped, urls, wait_until_ready
from reward_serve.launch.signals import until_stopped

__all__ = [
    "START_SETTINGS",
    "LaunchError",
    "models_of",
    "serve_run",
    "serve_until_stopped",
    "set_start_settings",
    "until_stopped",
    "urls",
    "wait_until_ready",
]
