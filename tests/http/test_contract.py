from __future__ import annotations

import pytest

from reward_serve.http.contract import http_status
from reward_serve.schema import Status


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (Status.OK, 200),
        (Status.UNPARSEABLE, 200),
        (Status.TRUNCATED, 200),
        (Status.ERROR, 200),
        (Status.INVALID, 422),
        (Status.OVERLOADED, 503),
        (Status.TIMEOUT, 504),
    ],
)
def test_the_code_of_a_single_score(status: Status, code: int) -> None:
    assert http_status(status) == code
