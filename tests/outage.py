"""An outage in the middle of a run, for the tests of trainers' adapters.

``OUTAGE_S`` in the environment makes it longer.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from typing import Any

import pytest

from tests.fake_service import FakeService

OUTAGE_S = float(os.environ.get("OUTAGE_S", "5"))

logger = logging.getLogger(__name__)


class Outage:
    """Drops every connection to the service for ``OUTAGE_S`` seconds from now."""

    def __init__(self, service: FakeService) -> None:
        self._ends = time.monotonic() + OUTAGE_S
        service.before_reply = self._drop

    def seconds_since_end(self) -> float:
        return time.monotonic() - self._ends

    def _drop(self, call: Any) -> None:
        if time.monotonic() < self._ends:
            raise ConnectionAbortedError


def check_cost(
    url: str,
    waits_s: Sequence[float],
    long_s: float,
    recovered_s: float,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Check that one of the steps without the judge was long, and that the log says it twice.

    Args:
        url: of the service.
        waits_s: how long each step waited for the judge.
        long_s: a step that waited for a deadline takes longer.
        recovered_s: from the outage's end to the next verdict, to report.
        caplog: of the run.
    """
    logger.info(
        "an outage of %g s: %d steps waited %.2f s in all, the longest %.2f s; judged again %.2f s "
        "after its end", OUTAGE_S, len(waits_s), sum(waits_s), max(waits_s), recovered_s,
    )  # fmt: skip
    assert len(waits_s) > 5
    assert sum(waited_s > long_s for waited_s in waits_s) <= 1
    logged = [record.getMessage() for record in caplog.records]
    texts = [text for text in logged if text.startswith(url)]  # clients of earlier tests log too
    assert sum("does not answer" in text for text in texts) == 1
    assert sum("answers again" in text for text in texts) == 1
