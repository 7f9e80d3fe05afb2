from __future__ import annotations

import pytest

from tests.fake_service import FakeService, Reply, dead_url
from tests.unit.cli.test_main import invoke


def test_a_score_is_printed_with_its_source(service: FakeService) -> None:
    result = invoke("ask", "9 + 9?", "#### 18", "--reference", "18", "--url", service.url)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[:3] == ["score: 1.0", "status: ok", "source: rule"]
    (request,) = service.calls[-1].body["requests"]
    assert (request["question"], request["reference"]) == ("9 + 9?", ["18"])


def test_without_a_score_it_says_why_and_exits_1(service: FakeService) -> None:
    result = invoke("ask", "", "#### 18", "--url", service.url)
    assert result.exit_code == 1
    assert "status: invalid" in result.stdout
    assert "reason: reference: " in result.stdout
    assert "score:" not in result.stdout


def test_an_unreachable_service_is_asked_once() -> None:
    result = invoke("ask", "", "18", "--url", dead_url())
    assert result.exit_code == 1
    assert "ConnectError" in result.output
    assert "is a service running there?" in result.output


def test_the_key_is_sent_and_a_refusal_shown(
    service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REWARD_SERVE_API_KEY", "s3cret-0123456789")
    service.replies["/v1/score/batch"] = Reply({"detail": "unknown API key"}, 401)
    result = invoke("ask", "", "18", "--reference", "18", "--url", service.url)
    assert result.exit_code == 1
    assert service.calls[-1].headers["authorization"] == "Bearer s3cret-0123456789"
    assert "unknown API key; set REWARD_SERVE_API_KEY to one of" in result.output
