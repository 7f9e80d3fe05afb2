"""Asks the service about a row before a run trains on it; a refusal would be every sample's."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from reward_serve.schema import Status
from reward_serve_verl.requests import client_for, request_for

logger = logging.getLogger(__name__)

_RESPONSE = "I do not know."  # no rule decides it, so that the model is asked


def check_row(row: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Ask about a row once, with a response of no worth.

    Args:
        row: of the training data; ``reward_model.ground_truth`` and ``extra_info`` are read.
        settings: ``reward_kwargs``.

    Raises:
        ValueError: the service refuses the row, and says why. A service that does not answer is a
            warning: its samples come to ``on_failure``.
    """
    info = row.get("extra_info") or {}
    client = client_for(info, {**settings, "on_failure": "none", "max_attempts": 1})
    request = request_for(_RESPONSE, row["reward_model"]["ground_truth"], info)
    result = client.score(request)
    if result.status is Status.INVALID:
        raise ValueError(
            f"the service refuses the first row, so no row would have its verdict: {result.reason}"
        )
    if result.status is not Status.OK:
        logger.warning("a probe had no verdict: %s: %s", result.status.value, result.reason)
