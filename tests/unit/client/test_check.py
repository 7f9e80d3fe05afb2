import sys

import pytest

from reward_serve.client.check import Finding, examine_service, main
from reward_serve.schema import Status, failure
from tests.fake_service import FakeService, Reply, dead_url


def by_name(findings: list[Finding]) -> dict[str, Finding]:
    named = {finding.what: finding for finding in findings}
    assert len(named) == len(findings)
    return named


def test_a_service_that_gives_a_verdict_has_no_problem(service: FakeService) -> None:
    findings = by_name(examine_service(service.url))
    assert list(findings) == ["models", "model rule"]
    assert findings["models"].observed == "rule"
    assert findings["model rule"].observed.startswith("ok, score 1.0, ")
    assert [finding.remedy for finding in findings.values()] == [None] * 2


LATE = failure(Status.TIMEOUT, "the engine is gone").model_dump(mode="json")


@pytest.mark.parametrize(
    ("path", "reply", "what", "observed", "remedy"),
    [
        ("/v1/models", Reply(b"<html>", 404), "service", "HTTP 404, not this service", "start it"),
        ("/v1/models", Reply({"hello": 1}), "service", "HTTP 200, not this service", "start it"),
        ("/v1/models", Reply({"models": [{"name": "rule", "ready": False}]}), "model rule",
         "not ready", "wait for a replica"),
        ("/v1/score/batch", Reply({"results": [LATE]}), "model rule", "timeout", "gone"),
        ("/v1/score/batch", Reply({"results": [{"status": "ok", "score": 0.0}]}), "model rule",
         "ok, score 0.0", "should be right"),
        ("/v1/score/batch", Reply(b"Server Error", 500), "model rule", "error", "HTTP 500"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_a_problem_with_a_remedy(
    service: FakeService, path: str, reply: Reply, what: str, observed: str, remedy: str
) -> None:
    service.replies[path] = reply
    finding = examine_service(service.url)[-1]
    assert finding.what == what and observed in finding.observed
    assert finding.remedy is not None and remedy in finding.remedy


def test_nobody_at_the_url_fails_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REWARD_SERVE_URL", dead_url())
    assert check(monkeypatch) == 1
    output = capsys.readouterr().out
    assert "ConnectError" in output and "reward-serve serve" in output


def test_a_service_that_wants_a_key_is_asked_with_it(service: FakeService) -> None:
    service.replies["/v1/models"] = Reply({"detail": "Authorization: is missing"}, 401)
    (finding,) = examine_service(service.url)
    assert "REWARD_SERVE_API_KEY" in (finding.remedy or "")
    del service.replies["/v1/models"]
    examine_service(service.url, "s3cret")
    assert {call.headers.get("authorization") for call in service.calls[1:]} == {"Bearer s3cret"}


def check(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["check", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def test_the_command_measures_latency_and_rate(
    service: FakeService, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("REWARD_SERVE_API_KEY", raising=False)
    assert check(monkeypatch, "--url", service.url, "--requests", "20") == 0
    output = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())

    assert list(output) == ["models", "model rule", "latency", "a batch"]
    assert output["latency"].startswith("median ")
    assert output["a batch"].startswith("20 of 20 ok, ")
    bodies = [call.body for call in service.calls if call.path == "/v1/score/batch"]
    texts = [request["response"] for body in bodies for request in body["requests"]]
    assert len(set(texts)) == len(texts) == 1 + 10 + 20  # none is answered by a cache
