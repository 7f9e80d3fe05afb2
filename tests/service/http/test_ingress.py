from __future__ import annotations

import json
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from reward_serve.http.contract import MAX_BODY_DEPTH
from reward_serve.version import VERSION_HEADER
from tests.fake_ingress import BEARER, GOOD, KEY, KEYS, OTHER_BEARER, OTHER_KEY, served

KEYED = [
    ("POST", "/v1/score"),
    ("POST", "/v1/score/batch"),
    ("POST", "/v1/score/group"),
    ("POST", "/v1/explain"),
    ("GET", "/v1/models"),
    ("GET", "/docs"),
    ("GET", "/redoc"),
    ("GET", "/openapi.json"),
    ("GET", "/nowhere"),
    ("GET", "/health/"),
    ("GET", "//health"),
    ("GET", "/HEALTH"),
    ("GET", "/health/../v1/models"),
    ("GET", "/v1/models?x=/health"),
]
OPEN = [("GET", "/health"), ("GET", "/ready")]
NDJSON = {"accept": "application/x-ndjson"}


def body_of(path: str) -> bytes:
    content = {"requests": [GOOD]} if path.endswith("batch") else GOOD
    return json.dumps(content).encode()


@pytest.mark.parametrize(
    ("method", "path", "code", "detail"),
    [
        ("POST", "/score", 404, "no such route; GET /docs lists the routes"),
        ("GET", "/v1/score", 405, "method GET is not allowed here; send POST"),
    ],
)
def test_a_wrong_path_or_method_has_a_remedy(
    method: str, path: str, code: int, detail: str
) -> None:
    reply = served().request(method, path)
    assert (reply.status_code, reply.json()) == (code, {"detail": detail})


@pytest.mark.parametrize(("method", "path"), [*KEYED, *OPEN])
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer "},
        {"Authorization": KEY},
        {"Authorization": f"Basic {KEY}"},
        {"Authorization": "Bearer wrong-key-0123456789"},
        {"Authorization": f"Bearer {KEY}x"},
        {"Authorization": f"Bearer {KEY[:-1]}"},
        {"Authorization": f"Bearer {KEYS['trainer']}"},
        {"Authorization": "Bearer \xff\xfe"},
        {"X-API-Key": KEY},
        {"Cookie": f"Authorization=Bearer {KEY}"},
    ],
    ids=range(13),
)
def test_no_key_and_a_wrong_key_are_401_everywhere_but_for_probes(
    method: str, path: str, headers: dict[str, str]
) -> None:
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    reply = served(KEYS).request(method, path, content=body_of(path), headers=raw)
    if (method, path) in OPEN:
        assert reply.status_code == 200
        return
    assert reply.status_code == 401
    assert "Authorization: " in reply.json()["detail"]
    assert reply.headers["www-authenticate"] == "Bearer"
    assert KEY not in reply.text


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
@pytest.mark.parametrize("key", [KEY, OTHER_KEY])
def test_each_key_opens_every_path(scheme: str, key: str) -> None:
    client = served(KEYS)
    headers = {"Authorization": f"{scheme} {key}"}
    assert client.post("/v1/score", json=GOOD, headers=headers).json()["score"] == 1.0
    batch = client.post("/v1/score/batch", json={"requests": [GOOD, GOOD]}, headers=headers)
    assert [result["score"] for result in batch.json()["results"]] == [1.0, 1.0]
    for path in ("/v1/models", "/docs", "/openapi.json"):
        assert client.get(path, headers=headers).status_code == 200
    assert client.get("/nowhere", headers=headers).status_code == 404


def test_probes_are_open_under_a_route_prefix_too() -> None:
    client = served(KEYS)
    client.app.root_path = "/judge"  # type: ignore[attr-defined] # as Serve does by the scope
    assert client.get("/judge/health").status_code == 200
    assert client.get("/judge/v1/models").status_code == 401
    assert client.get("/judge/v1/models", headers=BEARER).status_code == 200


def test_without_keys_nobody_is_asked_for_one() -> None:
    client = served()
    assert client.post("/v1/score", json=GOOD).json()["score"] == 1.0
    assert client.get("/docs").status_code == 200
    assert "securitySchemes" not in client.get("/openapi.json").text


def test_with_keys_the_openapi_document_says_so_and_names_none() -> None:
    reply = served(KEYS).get("/openapi.json", headers=BEARER)
    document = reply.json()
    (scheme,) = document["components"]["securitySchemes"].values()
    assert (scheme["type"], scheme["scheme"]) == ("http", "bearer")
    for path in ("/v1/score", "/v1/score/batch"):
        operation = document["paths"][path]["post"]
        assert operation["security"] == [{"API key": []}]
    assert "security" in document["paths"]["/v1/models"]["get"]
    assert "security" not in document["paths"]["/health"]["get"]
    assert [secret for secret in (KEY, *KEYS, *KEYS.values()) if secret in reply.text] == []


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("POST", "/v1/score", BEARER),
        ("POST", "/v1/score/batch", BEARER | NDJSON),
        ("POST", "/v1/score", {}),
        ("GET", "/health", {}),
        ("GET", "/docs", BEARER),
        ("GET", "/nowhere", BEARER),
        ("PUT", "/v1/score", BEARER),
    ],
)
def test_every_reply_has_its_headers(method: str, path: str, headers: dict[str, str]) -> None:
    reply = served(KEYS).request(method, path, content=body_of(path), headers=headers)
    for name in ("x-content-type-options", "cache-control", VERSION_HEADER):
        assert len(reply.headers.get_list(name)) == 1
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["cache-control"] == "no-store"
    assert reply.headers["content-type"].split(";")[0] in (
        "application/json", "application/x-ndjson", "text/html",
    )  # fmt: skip


class TestAKeysOwnLimit:
    @pytest.mark.parametrize(
        ("path", "items", "headers"),
        [("/v1/score", 1, {}), ("/v1/score/batch", 2, {}), ("/v1/score/batch", 2, NDJSON)],
    )
    def test_items_beyond_it_are_429_until_those_in_flight_are_answered(
        self, path: str, items: int, headers: dict[str, str], serve_log: pytest.LogCaptureFixture
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
            assert client.post("/v1/score", json=GOOD, headers=BEARER).status_code == 200
        assert refused.status_code == 429
        assert refused.headers["retry-after"] == "1"
        detail = refused.json()["detail"]
        assert f"max_concurrent_items_per_key: {items}; retry" in detail
        assert "key 'trainer'" in serve_log.text
        assert KEY not in serve_log.text

    @pytest.mark.parametrize("headers", [{}, NDJSON], ids=["whole", "streamed"])
    def test_it_counts_what_is_in_flight_and_not_what_was(self, headers: dict[str, str]) -> None:
        client = served(KEYS, max_concurrent_items_per_key=2)
        for _ in range(3):
            batch = {"requests": [GOOD] * 2}
            reply = client.post("/v1/score/batch", json=batch, headers=headers | BEARER)
            assert reply.status_code == 200
            assert client.post("/v1/score", json={}, headers=BEARER).status_code == 422

    def test_a_batch_that_can_never_fit_is_to_be_split(self) -> None:
        client = served(KEYS, max_concurrent_items_per_key=2)
        reply = client.post("/v1/score/batch", json={"requests": [GOOD] * 3}, headers=BEARER)
        assert reply.status_code == 413
        assert "split the batch" in reply.json()["detail"]


def metadata(content: str) -> bytes:
    return b'{"response": "#### 18", "reference": "18", "metadata": {"x": %s}}' % content.encode()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param(metadata("1" * 400), "64 bits", id="an integer of 400 digits"),
        pytest.param(metadata("1" * 5000), "JSON", id="an integer of 5,000 digits"),
        pytest.param(metadata("-" + "1" * 400), "64 bits", id="negative"),
        pytest.param(metadata("1e999"), "metadata", id="infinite"),
        pytest.param(metadata("NaN"), "metadata", id="NaN"),
        pytest.param(metadata("[" * 40 + "]" * 40), "deep", id="nested 40"),
        *(
            pytest.param(metadata("[" * n + "]" * n), "body", id=f"nested {n:,}")
            for n in (100, 300, 900, 1000, 1023, 1100, 5000, 100_000)
        ),
        *(
            pytest.param(metadata('{"a":' * n + "1" + "}" * n), "body", id=f"objects {n:,}")
            for n in (100, 900, 1020, 5000)
        ),
        pytest.param(metadata('"' + "x" * 70_000 + '"'), "65536", id="metadata of 70 kB"),
        pytest.param(b'{"response": "18", "timeout_s": ' + b"9" * 400 + b"}", "timeout_s", id="t"),
        pytest.param(
            b'{"response": "18", "reference": ["18"' + b', "18"' * 64 + b"]}", "64", id="references"
        ),
        pytest.param(b'{"response": "18", "id": "' + b"i" * 2000 + b'"}', "id: ", id="id of 2,000"),
        pytest.param(
            b'{"response": "' + b"x" * 1_200_000 + b'", "reference": "18"}',
            "response: has 1200000 of",
            id="a response of 1,200,000",
        ),
        pytest.param(
            b'{"response": "18", "reference": "18", "question": "' + b"x" * 1_200_000 + b'"}',
            "question: has 1200000 of",
            id="a question of 1,200,000",
        ),
    ],
)
def test_a_body_made_to_break_the_service_is_422(body: bytes, said: str) -> None:
    client = served()
    reply = client.post("/v1/score", content=body)
    assert reply.status_code == 422, reply.text[:200]
    assert said in reply.json()["detail"]
    assert len(reply.content) < 2000
    batch = client.post("/v1/score/batch", content=b'{"requests": [%s]}' % body)
    if batch.status_code != 422:
        assert [result["status"] for result in batch.json()["results"]] == ["invalid"]


def test_metadata_within_its_bounds_comes_back() -> None:
    nested = "[" * 20 + "18446744073709551615" + "]" * 20
    reply = served().post("/v1/score", content=metadata(nested))
    assert reply.json()["metadata"] == {"x": json.loads(nested)}


def test_a_body_is_nested_so_deep_and_no_deeper() -> None:
    client = served()
    for depth, code in [(MAX_BODY_DEPTH, "must be an object"), (MAX_BODY_DEPTH + 1, "nested")]:
        reply = client.post("/v1/score", content="[" * depth + "1" + "]" * depth)
        assert code in reply.json()["detail"]


@pytest.mark.parametrize("length", ["abc", "-", "1e3", "0x10", "²", "1" * 5000, "1, 2"])
def test_a_content_length_that_is_no_number_is_422(length: str) -> None:
    headers = [(b"content-length", length.encode("latin-1"))]
    reply = served().post("/v1/score", content=json.dumps(GOOD), headers=headers)
    assert reply.status_code in (413, 422)
    assert "detail" in reply.json()


def test_a_body_is_counted_whatever_its_length_claims() -> None:
    reply = served(max_body_bytes=100).post(
        "/v1/score", content=b"x" * 200, headers={"content-length": "-5"}
    )
    assert reply.status_code == 413


class TestAFaultOfOurs:
    SECRET = "internal-path-/srv/x"

    def broken(self) -> Any:
        def before() -> None:
            raise LookupError(self.SECRET)

        return served(KEYS, before)

    def test_it_is_a_json_500_that_tells_a_request_id_and_no_more(
        self, serve_log: pytest.LogCaptureFixture
    ) -> None:
        headers = BEARER | {"x-request-id": "abc-123"}
        reply = self.broken().post("/v1/score", json=GOOD, headers=headers)
        assert reply.status_code == 500
        assert reply.json()["request_id"] == "abc-123"
        assert "abc-123" in reply.json()["detail"]
        assert self.SECRET not in reply.text
        assert "Traceback" not in reply.text
        assert reply.headers["x-content-type-options"] == "nosniff"
        (record,) = [r for r in serve_log.records if r.levelno == logging.ERROR]
        assert "request abc-123 failed: POST /v1/score, key trainer" in record.getMessage()
        assert self.SECRET in serve_log.text  # in the traceback
        assert KEY not in serve_log.text

    def test_it_gets_an_id_where_the_caller_gave_none(self) -> None:
        reply = self.broken().post("/v1/score", json=GOOD, headers=BEARER)
        assert len(reply.json()["request_id"]) == 36

    def test_a_callers_id_cannot_write_the_log(self, serve_log: pytest.LogCaptureFixture) -> None:
        hostile = [(b"x-request-id", b"\x1b[31m\x85forged" + b"x" * 999)]
        raw = [*hostile, *((k.encode(), v.encode()) for k, v in BEARER.items())]
        reply = self.broken().post("/v1/score", json=GOOD, headers=raw)
        assert len(reply.json()["request_id"]) <= 64
        assert "\x1b" not in serve_log.text + reply.text
        assert "\x85" not in serve_log.text + reply.text

    def test_it_gives_back_the_keys_items(self) -> None:
        def before() -> None:
            raise LookupError

        client = served(KEYS, before, max_concurrent_items_per_key=1)
        codes = [client.post("/v1/score", json=GOOD, headers=BEARER).status_code for _ in range(3)]
        assert codes == [500] * 3


class TestExplain:
    def test_a_result_comes_with_what_led_to_it(self) -> None:
        reply = served().post("/v1/explain", json={**GOOD, "id": "a"})
        assert reply.status_code == 200
        content = reply.json()
        assert (content["result"]["score"], content["result"]["id"]) == (1.0, "a")
        assert content["rule"]["span"] == {"start": 5, "end": 7}

    def test_turned_off_it_is_404_and_says_so_and_is_in_no_document(self) -> None:
        client = served(explain=False)
        reply = client.post("/v1/explain", json=GOOD)
        assert reply.status_code == 404
        assert "server.explain: true" in reply.json()["detail"]
        assert "/v1/explain" not in client.get("/openapi.json").json()["paths"]

    @pytest.mark.parametrize(
        ("body", "code", "said"),
        [
            ([], 422, "body: must be an object"),
            ({**GOOD, "model": "none"}, 404, "model: no model is named 'none'"),
            ({**GOOD, "timeout_s": "soon"}, 422, "timeout_s: "),
            ({}, 422, "response: "),
        ],
    )
    def test_a_request_at_fault_is_refused_by_name(self, body: Any, code: int, said: str) -> None:
        reply = served().post("/v1/explain", json=body)
        assert reply.status_code == code
        assert reply.json()["detail"].startswith(said)

    def test_it_counts_as_an_item_of_the_callers_key(self) -> None:
        begun, go_on = threading.Event(), threading.Event()

        def before() -> None:
            begun.set()
            assert go_on.wait(30)

        client = served(KEYS, before, max_concurrent_items_per_key=1)
        with client, ThreadPoolExecutor() as pool:
            first = pool.submit(client.post, "/v1/explain", json=GOOD, headers=BEARER)
            assert begun.wait(30)
            assert client.post("/v1/score", json=GOOD, headers=BEARER).status_code == 429
            go_on.set()
            assert first.result(30).status_code == 200


GROUP: dict[str, Any] = {"question": "?", "responses": ["a", "aa"]}


class TestAGroup:
    def test_each_response_has_a_result_in_order(self) -> None:
        reply = served().post("/v1/score/group", json={**GROUP, "id": "g", "metadata": {"n": 1}})
        content = reply.json()
        assert (reply.status_code, content["status"], content["id"]) == (200, "ok", "g")
        assert [(r["score"], r["model"]) for r in content["results"]] == [
            (0.5, "rule"),
            (1.0, "rule"),
        ]
        assert content["metadata"] == {"n": 1}

    @pytest.mark.parametrize(
        ("fields", "code", "detail"),
        [
            ({"responses": ["a"]}, 422, "responses: List should have at least 2 items"),
            ({"responses": "ab"}, 422, "responses: Input should be a valid list"),
            ({"responses": ["a", 1]}, 422, "responses.1: Input should be a valid string"),
            ({"response": "a"}, 422, "response: unknown field (did you mean 'responses'?)"),
            ({"model": "rul"}, 404, "model: no model is named 'rul'; choose from rule"),
        ],
    )
    def test_a_bad_field_is_named(self, fields: dict[str, Any], code: int, detail: str) -> None:
        reply = served().post("/v1/score/group", json={**GROUP, **fields})
        assert reply.status_code == code
        assert detail in reply.json()["detail"]

    def test_its_responses_count_for_the_keys_limit(self) -> None:
        client = served(KEYS, max_concurrent_items_per_key=2)
        body = {**GROUP, "responses": ["a", "b", "c"]}
        assert client.post("/v1/score/group", json=body, headers=BEARER).status_code == 413
        assert client.post("/v1/score/group", json=GROUP, headers=BEARER).status_code == 200
