from __future__ import annotations

import logging
from typing import Any

import pytest

from reward_serve.engines.base import EngineError, OverloadedError
from reward_serve.reward_models.base import DeadlinePassedError, InvalidRequestError, failure_of
from reward_serve.schema import Status, failure


@pytest.mark.parametrize(
    ("error", "status", "reason", "details"),
    [
        (InvalidRequestError("field: why"), Status.INVALID, "field: why", None),
        (EngineError("gone"), Status.ERROR, "gone", None),
        (DeadlinePassedError("late"), Status.TIMEOUT, "late", None),
        (
            OverloadedError("full", 3.0),
            Status.OVERLOADED,
            "full; retry after 3 s",
            {"retry_after_s": 3.0},
        ),
    ],
)
def test_an_expected_exception_has_its_status_and_is_not_logged(
    error: Exception,
    status: Status,
    reason: str,
    details: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert failure_of(error, "judge") == failure(status, reason, details=details)
    assert caplog.records == []


def test_an_unexpected_exception_is_an_error_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        assert failure_of(KeyError("x"), "judge").reason == "KeyError: 'x'"
    assert "judge failed" in caplog.text
