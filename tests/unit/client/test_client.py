import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from reward_serve.client import HttpRewardClient, ScoringError, connect, retrying
from reward_serve.schema import ScoreResult
from tests.fake_service import FakeService, Reply, dead_url
from tests.rows import rows

VARIABLES = ("URL", "APP", "API_KEY", "TIMEOUT_S")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrying, "_backoff_s", lambda attempt: 0.01)
    for name in VARIABLES:
        monkeypatch.delenv(f"REWARD_SERVE_{name}", raising=False)


def asked(n: int) -> dict[str, Any]:
    """A request whose right answer depends on its number."""
    return {"response": f"#### {n}", "reference": str(n - n % 2), "id": str(n)}


def answer(n: int) -> tuple[str, float]:
    return str(n), float(n % 2 == 0)


def outcome(result: ScoreResult) -> tuple[str | None, float | None]:
    return result.id, result.score


def test_threads_and_event_loops_each_get_their_own_answers(service: FakeService) -> None:
    client = connect(url=service.url)

    async def together(numbers: range) -> list[ScoreResult]:
        return await asyncio.gather(*(client.ascore(asked(n)) for n in numbers))

    def work(thread: int) -> list[Any]:
        numbers = range(100 * thread, 100 * thread + 20)
        if thread % 4 == 0:
            results = asyncio.run(together(numbers))
        else:
            results = [client.score(asked(n)) for n in numbers]
        return [outcome(result) for result in results]

    with ThreadPoolExecutor(32) as pool:
        results = list(pool.map(work, range(32)))
    assert results == [[answer(100 * thread + n) for n in range(20)] for thread in range(32)]
    counts = client.counters.snapshot()
    assert (counts["asked"], counts["ok"], counts["failed"]) == (640, 640, 0)
    assert len(service.calls) < 640 / 2  # calls that came together travelled together


async def test_a_batch_is_answered_in_order_in_both_forms(service: FakeService) -> None:
    client = connect(url=service.url, max_batch=8)
    requests = [asked(n) for n in range(30)]
    results = await client.ascore_batch(requests)
    assert [outcome(result) for result in results] == [answer(n) for n in range(30)]
    again = await asyncio.to_thread(client.score_batch, requests)
    assert [outcome(result) for result in again] == [answer(n) for n in range(30)]
    assert max(len(call.body["requests"]) for call in service.calls) == 8


@pytest.mark.parametrize(("on_failure", "score"), [("rule", 1.0), (-1.0, -1.0), ("none", None)])
def test_without_a_service_the_caller_gets_what_it_chose(on_failure: Any, score: Any) -> None:
    client = connect(url=dead_url(), on_failure=on_failure, max_attempts=2)
    result = client.score(asked(2))
    counts = client.counters.snapshot()
    assert result.score == score
    assert (counts["failed_error"], counts["retried"]) == (1, 1)
    assert counts["fallback"] == (score is not None)


def test_the_same_target_gives_the_same_client(service: FakeService) -> None:
    with ThreadPoolExecutor(8) as pool:
        clients = set(pool.map(lambda _: connect(url=service.url, on_failure="rule"), range(8)))
    assert len(clients) == 1
    assert connect(url=service.url, on_failure="none") not in clients


def test_a_variable_names_the_target(service: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REWARD_SERVE_URL", service.url)
    monkeypatch.setenv("REWARD_SERVE_API_KEY", "s3cret")
    monkeypatch.setenv("REWARD_SERVE_TIMEOUT_S", "7")
    assert connect().score(asked(2)).score == 1.0
    (call,) = service.calls
    assert call.headers["authorization"] == "Bearer s3cret"
    assert 6 < call.body["requests"][0]["timeout_s"] <= 7


@pytest.mark.parametrize(("arguments", "variables", "message"), rows(__file__, "settings"))
def test_a_wrong_setting_is_reported(
    arguments: dict[str, Any],
    variables: dict[str, str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(f"REWARD_SERVE_{name}", value)
    with pytest.raises(ValueError, match=message):
        connect(**arguments)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"api_key": "k", "api_key_file": "f"}, "are both given"),
        ({"api_key_file": "none/there"}, "api_key_file: none/there: No such file"),
        ({"api_key_file": __file__}, "api_key_file: .* must contain only the key"),
    ],
)
def test_a_key_that_cannot_be_read_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        connect(url="http://x", **settings)


def test_the_thin_client_has_the_settings_of_all_clients(service: FakeService) -> None:
    service.replies["/v1/score/batch"] = Reply({"detail": "wrong key"}, 401)
    with HttpRewardClient(service.url, on_failure="raise") as client:
        with pytest.raises(ScoringError, match=r"invalid: .*HTTP 401: wrong key"):
            client.score(asked(0))
        assert client.counters.snapshot()["retried"] == 0
    service.replies["/v1/score/batch"] = Reply({"detail": "busy"}, 503)
    with HttpRewardClient(service.url, on_failure="rule", model="judge", max_attempts=1) as client:
        assert client.score(asked(0)).source == "fallback"
    assert service.calls[-1].body["requests"][0]["model"] == "judge"


@pytest.mark.parametrize(
    ("setting", "remedy"),
    [("on_fail", "did you mean 'on_failure'?"), ("retries", "choose from api_key, ")],
)
def test_an_unknown_setting_is_refused_by_name(setting: str, remedy: str) -> None:
    settings: dict[str, Any] = {setting: "rule"}
    with pytest.raises(TypeError) as error:
        connect(url="http://127.0.0.1:8000", **settings)
    assert str(error.value).startswith(f"{setting}: unknown setting ({remedy}")


def test_a_request_that_is_only_a_text_is_refused_with_the_form_to_send() -> None:
    client = connect(url=dead_url())
    with pytest.raises(TypeError, match=r"request: must be a dict or a ScoreRequest .found str"):
        client.score("#### 18")  # type: ignore[arg-type]
