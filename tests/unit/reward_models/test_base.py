from __future__ import annotations

from typing import Any

import pytest

from reward_serve.engines.base import (
    EngineError,
    OverloadedError,
    RefusedError,
    UnusableReplyError,
)
from reward_serve.reward_models.base import DeadlinePassedError, InvalidRequestError, failure_of
from reward_serve.schema import Status, failure


@pytest.mark.parametrize(
    ("error", "status", "reason", "details"),
    [
        (InvalidRequestError("field: why"), Status.INVALID, "field: why", None),
        (EngineError("gone"), Status.ERROR, "gone", None),
        (DeadlinePassedError("late"), Status.TIMEOUT, "late", None),
        (RefusedError("never"), Status.INVALID, "never", None),
        (UnusableReplyError("odd"), Status.UNPARSEABLE, "odd", None),
        (KeyError("x"), Status.ERROR, "KeyError: 'x'", None),
        (
            OverloadedError("full", 3),
            Status.OVERLOADED,
            "full; retry after 3 s",
            {"retry_after_s": 3},
        ),
    ],
)
def test_every_exception_has_its_status(
    error: Exception, status: Status, reason: str, details: Any
) -> None:
    assert failure_of(error, "judge") == failure(status, reason, details=details)
