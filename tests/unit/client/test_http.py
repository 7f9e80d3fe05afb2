from __future__ import annotations

import asyncio

import pytest

from reward_serve.client import HttpRewardClient, ServiceUnavailableError, http
from reward_serve.client.http import HttpTransport
from tests.fake_service import FakeService, Reply

RIGHT = {"response": "#### 18", "reference": "18"}


def send(service: FakeService) -> None:
    asyncio.run(HttpTransport(service.url).ascore_batch([RIGHT]))


def test_an_answer_larger_than_the_limit_is_not_read(
    service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "MAX_ANSWER_BYTES", 100_000)
    service.replies["/v1/score/batch"] = Reply(b" " * 100_001)

    with pytest.raises(ServiceUnavailableError, match=r"exceeds 100000 bytes; send fewer"):
        send(service)


def test_an_answer_nested_too_deep_is_not_the_services(service: FakeService) -> None:
    service.replies["/v1/score/batch"] = Reply(b"[" * 100_000)

    with pytest.raises(ServiceUnavailableError, match="HTTP 200, not this service"):
        send(service)


def test_a_long_detail_is_cut(service: FakeService) -> None:
    service.replies["/v1/score/batch"] = Reply({"detail": "x" * 1_000_000}, 500)

    with pytest.raises(ServiceUnavailableError) as caught:
        send(service)
    assert len(str(caught.value)) < 3000


def test_cookies_are_not_kept(service: FakeService) -> None:
    unsendable = {"set-cookie": "\xff=1"}
    service.replies["/ready"] = Reply({"status": "ok"}, headers=unsendable)
    client = HttpRewardClient(service.url)

    assert client.is_ready()
    assert client.score(RIGHT).score == 1.0
    assert "cookie" not in service.calls[1].headers
