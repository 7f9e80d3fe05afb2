"""Who is let in, how much at once, and what surrounds every reply."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from ray.exceptions import TaskCancelledError
from starlette.requests import Request

from reward_serve.config.app import ServerConfig
from reward_serve.http.api import Exchange, KeyLimit
from reward_serve.replica.admission import Admission
from reward_serve.version import VERSION_HEADER, __version__
from tests.fake_ingress import BEARER, GOOD, KEY, KEYS, OTHER_BEARER, OTHER_KEY, served
from tests.rows import rows

NDJSON = {"accept": "application/x-ndjson"}
SECRET = "internal-path-/srv/x"


def body_of(path: str) -> bytes:
    content = {"requests": [GOOD]} if path.endswith("batch") else GOOD
    return json.dumps(content).encode()


@pytest.mark.parametrize("path", rows(__file__, "paths"))
def test_every_path_but_those_for_probes_asks_for_a_key(path: str) -> None:
    client = served(KEYS, compatible_with=["openai", "openrlhf", "slime"])
    for method in ("GET", "POST"):
        reply = client.request(method, path, content=body_of(path))
        assert reply.status_code == 401
        assert "Authorization: is missing" in reply.json()["detail"]
        assert reply.headers["www-authenticate"] == "Bearer"
    assert client.get("/health").status_code == client.get("/ready").status_code == 200


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Authorization", "Bearer "),
        ("Authorization", KEY),
        ("Authorization", f"Basic {KEY}"),
        ("Authorization", f"Bearer {KEY}x"),
        ("Authorization", f"Bearer {KEY[:-1]}"),
        ("Authorization", f"Bearer {KEY.upper()}"),
        ("Authorization", f"Bearer {KEYS['trainer']}"),
        ("Authorization", "Bearer \xff\xfe"),
        ("X-API-Key", KEY),
    ],
    ids=range(9),
)
def test_a_wrong_key_is_401(name: str, value: str) -> None:
    headers = [(name.encode(), value.encode("latin-1"))]
    reply = served(KEYS).post("/v1/score", json=GOOD, headers=headers)
    assert reply.status_code == 401
    assert "Authorization: " in reply.json()["detail"]
    assert KEY not in reply.text


@pytest.mark.parametrize("authorization", [f"Bearer {KEY}", f"bearer {OTHER_KEY}"])
def test_each_key_opens_every_path(authorization: str) -> None:
    client = served(KEYS)
    client.headers["Authorization"] = authorization
    assert client.post("/v1/score", json=GOOD).json()["score"] == 1.0
    codes = [client.get(path).status_code for path in ("/v1/models", "/docs", "/nowhere")]
    assert codes == [200, 200, 404]


def test_probes_are_open_under_a_route_prefix_too() -> None:
    client = served(KEYS)
    client.app.root_path = "/judge"  # type: ignore[attr-defined] # as Serve does by the scope
    assert client.get("/judge/health").status_code == 200
    assert client.get("/judge/v1/models").status_code == 401
    assert client.get("/judge/v1/models", headers=BEARER).status_code == 200


def test_every_reply_has_its_headers() -> None:
    client = served(KEYS)
    for method, path, headers in (
        ("POST", "/v1/score", BEARER),
        ("POST", "/v1/score/batch", BEARER | NDJSON),
        ("POST", "/v1/score", {}),
        ("GET", "/health", {}),
        ("GET", "/docs", BEARER),
        ("GET", "/nowhere", BEARER),
        ("PUT", "/v1/score", BEARER),
    ):
        reply = client.request(method, path, content=body_of(path), headers=headers)
        assert reply.headers.get_list("x-content-type-options") == ["nosniff"]
        assert reply.headers.get_list("cache-control") == ["no-store"]
        assert reply.headers.get_list(VERSION_HEADER) == [__version__]


@pytest.mark.parametrize(
    ("path", "items", "headers"),
    [
        ("/v1/score", 1, {}),
        ("/v1/explain", 1, {}),
        ("/v1/score/batch", 2, {}),
        ("/v1/score/batch", 2, NDJSON),
    ],
)
def test_items_beyond_a_keys_limit_are_429_until_those_in_flight_are_answered(
    path: str, items: int, headers: dict[str, str], serve_log: pytest.LogCaptureFixture
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def before() -> None:
        begun.set()
        assert go_on.wait(30)

    body = {"requests": [GOOD] * items} if path.endswith("batch") else GOOD
    client = served(KEYS, before, max_concurrent_items_per_key=items)
    with client, ThreadPoolExecutor() as pool:
        first = pool.submit(client.post, path, json=body, headers=headers | BEARER)
        assert begun.wait(30)
        refused = client.post("/v1/score", json=GOOD, headers=BEARER)
        other = pool.submit(client.post, "/v1/score", json=GOOD, headers=OTHER_BEARER)
        go_on.set()
        assert first.result(30).status_code == 200
        assert other.result(30).status_code == 200
        for _ in range(items + 1):
            assert client.post("/v1/score", json=GOOD, headers=BEARER).status_code == 200
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
    assert f"max_concurrent_items_per_key: {items}; retry" in refused.json()["detail"]
    assert "key 'trainer'" in serve_log.text
    assert KEY not in serve_log.text


def test_a_key_has_so_many_requests_whatever_is_in_them_and_others_have_theirs() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def before() -> None:
        begun.set()
        assert go_on.wait(30)

    with served(KEYS, before, max_ongoing_requests=1) as client, ThreadPoolExecutor() as pool:
        first = pool.submit(client.post, "/v1/score/batch", json={"requests": []}, headers=BEARER)
        scored = pool.submit(client.post, "/v1/score", json=GOOD, headers=OTHER_BEARER)
        assert begun.wait(30)
        refused = client.post("/v1/score", json=GOOD, headers=OTHER_BEARER)
        go_on.set()
        assert (first.result(30).status_code, scored.result(30).status_code) == (200, 200)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
    assert "key 'evaluator': 1 in addition to 1 in flight" in refused.json()["detail"]
    assert "max_ongoing_requests: 1; retry after a pause" in refused.json()["detail"]


def test_the_name_of_a_key_reaches_the_replica_with_everything_that_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys: list[str | None] = []
    place = Admission.place

    def noted(self: Admission, *where: Any) -> Any:
        keys.append(where[2] if len(where) > 2 else None)
        return place(self, *where)

    monkeypatch.setattr(Admission, "place", noted)
    chat = {"messages": [{"role": "user", "content": "?"}]}
    client = served(KEYS, compatible_with=["openai", "slime"])
    for path, body in (
        ("/v1/score", GOOD),
        ("/v1/score/batch", {"requests": [GOOD]}),
        ("/v1/explain", GOOD),
        ("/v1/chat/completions", chat),
        ("/remote_rm", {"prompt": "?", "response": "#### 18", "label": "18"}),
    ):
        assert client.post(path, json=body, headers=BEARER).status_code == 200
    ndjson = BEARER | {"Accept": "application/x-ndjson"}
    assert client.post("/v1/score/batch", json={"requests": [GOOD]}, headers=ndjson).text
    assert keys == ["trainer"] * 6
    assert served().post("/v1/score", json=GOOD).status_code == 200
    assert keys[-1] is None


def test_what_can_never_fit_a_keys_limit_is_to_be_split() -> None:
    client = served(KEYS, max_concurrent_items_per_key=2)
    group = {"question": "?", "responses": ["a", "b", "c"]}
    for path, body in (("batch", {"requests": [GOOD] * 3}), ("group", group)):
        reply = client.post(f"/v1/score/{path}", json=body, headers=BEARER)
        assert reply.status_code == 413
        assert "split the batch" in reply.json()["detail"]


def test_our_own_fault_is_a_json_500_with_a_request_id(serve_log: pytest.LogCaptureFixture) -> None:
    def before() -> None:
        raise LookupError(SECRET)

    client = served(KEYS, before, max_concurrent_items_per_key=1)  # whose items come back
    for sent, known_as in ((b"abc-123", "abc-123"), (b"\x1b[31m\x85" + b"x" * 999, "x1b[31m")):
        headers = {b"x-request-id": sent, b"authorization": f"Bearer {KEY}".encode()}
        reply = client.post("/v1/score", json=GOOD, headers=headers)
        request_id = reply.json()["request_id"]
        assert reply.status_code == 500
        assert known_as in request_id
        assert len(request_id) <= 64
        assert request_id in reply.json()["detail"]
        assert f"request {request_id} failed: POST /v1/score, key trainer" in serve_log.text
        for hidden in (SECRET, "\x1b", "\x85"):
            assert hidden not in reply.text
    assert SECRET in serve_log.text  # in the traceback
    assert [bad for bad in (KEY, "\x1b", "\x85") if bad in serve_log.text] == []


async def test_a_caller_who_goes_early_is_no_fault(serve_log: pytest.LogCaptureFixture) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await Request(scope, receive, send).body()

    async def taken_back() -> Any:
        raise TaskCancelledError

    async def send(message: Any) -> None:
        raise AssertionError(message)

    scope = {"type": "http", "method": "POST", "path": "/x", "headers": []}
    await Exchange(app, {}, KeyLimit(ServerConfig()))(scope, taken_back, send)
    assert serve_log.records == []
