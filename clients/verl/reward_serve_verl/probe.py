"""Checks before training that the service accepts the data's rows."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from reward_serve.client.rows import PROBE_RESPONSE, check_rows
from reward_serve_verl.default_scoring import is_judged
from reward_serve_verl.requests import client_for, request_for

logger = logging.getLogger(__name__)


def check_first_rows(rows: Iterable[Mapping[str, Any]], settings: Mapping[str, Any]) -> None:
    """Score each row once, with a wrong response; if the service does not answer, log a warning.

    Args:
        rows: rows of the training data; ``data_source``, ``reward_model.ground_truth`` and
            ``extra_info`` are read. Rows that verl scores itself are left out.
        settings: ``reward_kwargs``.

    Raises:
        RefusedRowError: the service refuses a row; the message has the reason.
        ValueError: a setting is invalid.
    """
    settings = {**settings, "on_failure": "none", "max_attempts": 1}

    def probe(row: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        info = row.get("extra_info") or {}
        truth = (row.get("reward_model") or {}).get("ground_truth")
        return client_for(info, settings), request_for(PROBE_RESPONSE, truth, info)

    judged = (row for row in rows if is_judged(str(row.get("data_source")), settings))
    failed = check_rows(map(probe, judged))
    if failed is not None:
        logger.warning("a probe had no verdict: %s: %s", failed.status.value, failed.reason)
