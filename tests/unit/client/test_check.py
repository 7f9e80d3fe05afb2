from __future__ import annotations

import socket
import sys
import threading

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
    assert list(findings) == ["models", "ready", "a verdict"]
    assert findings["models"].found == "rule"
    assert findings["ready"].found == "yes"
    assert findings["a verdict"].found.startswith("ok, score 1.0, ")
    assert [finding.remedy for finding in findings.values()] == [None] * 3


def test_nobody_at_the_url_is_a_problem_with_a_remedy() -> None:
    url = dead_url()
    (finding,) = examine_service(url)
    assert finding.what == "service"
    assert finding.found.startswith(f"{url}: ConnectError")
    assert finding.remedy is not None
    assert "reward-serve serve" in finding.remedy


def test_another_service_at_the_url_is_a_problem(service: FakeService) -> None:
    service.replies["/v1/models"] = Reply(b"<html>nginx</html>", 404)
    (finding,) = examine_service(service.url)
    assert "not this service" in finding.found
    assert finding.remedy is not None


def test_a_service_without_a_replica_is_asked_for_no_verdict(service: FakeService) -> None:
    service.replies["/ready"] = Reply({"status": "waiting"}, 503)
    findings = by_name(examine_service(service.url))
    assert findings["ready"].found == "no"
    assert findings["ready"].remedy is not None
    assert "a verdict" not in findings
    assert "/v1/score" not in [call.path for call in service.calls]


@pytest.mark.parametrize("status", [Status.ERROR, Status.TIMEOUT, Status.UNPARSEABLE])
def test_a_verdict_that_failed_is_a_problem(service: FakeService, status: Status) -> None:
    result = failure(status, "the engine is gone").model_dump(mode="json")
    service.replies["/v1/score/batch"] = Reply({"results": [result]})
    verdict = by_name(examine_service(service.url))["a verdict"]
    assert verdict.found.startswith(f"{status.value}, score None")
    assert verdict.remedy == "the engine is gone"


def test_a_service_lost_before_its_verdict_is_a_problem(service: FakeService) -> None:
    service.replies["/v1/score/batch"] = Reply(b"Internal Server Error", 500)
    assert [f for f in examine_service(service.url) if f.remedy] != []


def test_a_wrong_verdict_is_a_problem(service: FakeService) -> None:
    service.replies["/v1/score/batch"] = Reply({"results": [{"status": "ok", "score": 0.0}]})
    assert [f for f in examine_service(service.url) if f.remedy] != []


def test_another_json_service_at_the_url_is_a_problem(service: FakeService) -> None:
    service.replies["/v1/models"] = Reply({"hello": 1})
    assert [f for f in examine_service(service.url) if f.remedy] != []


def test_a_malformed_url_is_a_problem() -> None:
    assert [f for f in examine_service("http://127.0.0.1:port") if f.remedy] != []


def test_a_listener_that_does_not_answer_is_a_problem() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host, port = listener.getsockname()
        listener.settimeout(5)

        hung_up = threading.Thread(target=lambda: listener.accept()[0].close(), daemon=True)
        hung_up.start()
        (finding,) = examine_service(f"http://{host}:{port}")
        hung_up.join(30)
    assert "RemoteProtocolError" in finding.found or "ReadError" in finding.found
    assert finding.remedy is not None


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
    said = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())

    assert list(said) == ["models", "ready", "a verdict", "API key", "latency", "a batch"]
    assert said["API key"] == "not needed"
    assert said["latency"].startswith("median ")
    assert said["a batch"].startswith("20 of 20 ok, ")
    bodies = [call.body for call in service.calls if call.path == "/v1/score/batch"]
    texts = [request["response"] for body in bodies for request in body["requests"]]
    assert len(set(texts)) == len(texts) == 1 + 10 + 20  # none is answered by a cache


def test_a_failure_in_the_batch_is_a_problem(
    service: FakeService, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    full = failure(Status.OVERLOADED, "the queue is full").model_dump(mode="json")

    def fill(call: object) -> None:
        if len(service.calls) > 13:  # models, ready, a verdict, models, ten
            service.replies["/v1/score/batch"] = Reply({"results": [full] * 5})

    service.before_reply = fill
    assert check(monkeypatch, "--url", service.url, "--requests", "5") == 1
    assert "a batch: 0 of 5 ok" in capsys.readouterr().out


def test_without_a_service_the_command_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REWARD_SERVE_URL", dead_url())
    assert check(monkeypatch) == 1
    assert "reward-serve serve" in capsys.readouterr().out
