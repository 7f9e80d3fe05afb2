import json
from typing import Any

import pytest

from reward_serve.schema import Status
from tests.fake_ingress import GOOD, served

GROUP: dict[str, Any] = {"question": "?", "responses": ["a", "aa"]}


def test_the_code_of_a_single_score() -> None:
    codes = {Status.INVALID: 422, Status.OVERLOADED: 503, Status.TIMEOUT: 504, Status.ERROR: 502}
    assert {status: status.http_code for status in Status} == dict.fromkeys(Status, 200) | codes


def test_a_wrong_path_or_method_has_a_remedy() -> None:
    path, method = served().post("/score"), served().get("/v1/score")
    assert (path.status_code, method.status_code) == (404, 405)
    assert path.json() == {"detail": "no such route; GET /docs lists the routes"}
    assert method.json() == {"detail": "method GET is not allowed here; send POST"}


def test_a_batch_keeps_order_and_each_fault_to_its_own_item() -> None:
    items: list[Any] = [
        {**GOOD, "id": "a"},
        3,
        None,
        {"response": "#### 18", "id": "b"},
        {**GOOD, "model": "jugde", "id": "c"},
        {**GOOD, "response": "#### 17", "id": "d", "metadata": {"n": 1}},
        {**GOOD, "respnse": "x"},
    ]
    results = served().post("/v1/score/batch", json={"requests": items}).json()["results"]
    statuses = ["ok", "invalid", "invalid", "invalid", "invalid", "ok", "invalid"]
    assert [result["status"] for result in results] == statuses
    assert [result["score"] for result in results] == [1.0, None, None, None, None, 0.0, None]
    assert [result["id"] for result in results] == ["a", None, None, "b", "c", "d", None]
    assert results[5]["metadata"] == {"n": 1}
    single = served().post("/v1/score", json=items[4])
    assert (single.status_code, single.json()["detail"]) == (404, results[4]["reason"])
    assert "no model is named 'jugde'; choose from " in results[4]["reason"]
    assert [result["details"] for result in results if result["status"] == "invalid"] == [
        *[None] * 3,
        {"refused": True},
        None,
    ]  # by which clients end a run


def test_a_lone_surrogate_spoils_its_own_item_alone() -> None:
    bad = b'{"response": "\\ud800", "reference": "18", "id": "\\udfff"}'
    body = b'{"requests": [%s, %s]}' % (json.dumps(GOOD).encode(), bad)
    results = served().post("/v1/score/batch", content=body).json()["results"]
    assert [result["status"] for result in results] == ["ok", "invalid"]
    assert "surrogate" in results[1]["reason"]


def test_a_batch_that_is_no_list_or_over_the_limit_is_refused() -> None:
    client = served(max_batch_items=2)
    bodies: list[Any] = [{}, {"requests": None}, []]
    for body in bodies:
        reply = client.post("/v1/score/batch", json=body)
        assert reply.status_code == 422
        assert reply.json()["detail"].startswith("requests: must be a list")
    reply = client.post("/v1/score/batch", json={"requests": [GOOD] * 3})
    assert reply.status_code == 413
    assert "3 items; the limit is server.max_batch_items: 2, so split" in reply.json()["detail"]


@pytest.mark.parametrize("headers", [{}, {"content-length": "-5"}])
def test_a_body_over_the_limit_is_413_whatever_length_it_claims(headers: dict[str, str]) -> None:
    content = json.dumps({"response": "1" * 2000})
    reply = served(max_body_bytes=1000).post("/v1/score", content=content, headers=headers)
    assert reply.status_code == 413
    detail = reply.json()["detail"]
    assert "more than 1000 bytes, the limit server.max_body_bytes; split the batch, or" in detail


def test_results_are_streamed_as_lines_with_their_index() -> None:
    items: list[Any] = [GOOD, {**GOOD, "model": "none"}, 3, {**GOOD, "response": "#### 17"}]
    headers = {"accept": "application/x-ndjson"}
    reply = served().post("/v1/score/batch", json={"requests": items}, headers=headers)
    assert reply.headers["content-type"].startswith("application/x-ndjson")
    lines = sorted(map(json.loads, reply.text.splitlines()), key=lambda line: line.pop("index"))
    assert [line["score"] for line in lines] == [1.0, None, None, 0.0]
    whole = served().post("/v1/score/batch", json={"requests": items}).json()["results"]
    for line, result in zip(lines, whole, strict=True):
        assert line.keys() == result.keys()
        assert line["reason"] == result["reason"]


def test_an_alias_is_known_on_every_path() -> None:
    aliased, client = {**GOOD, "model": "verifier"}, served(aliases={"verifier": "rule"})
    batch = client.post("/v1/score/batch", json={"requests": [aliased]}).json()["results"]
    explained = client.post("/v1/explain", json=aliased).json()["result"]
    for result in (client.post("/v1/score", json=aliased).json(), *batch, explained):
        assert (result["score"], result["model"]) == (1.0, "rule")


def metadata(content: str) -> bytes:
    return b'{"response": "#### 18", "reference": "18", "metadata": {"x": %s}}' % content.encode()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(b"", "body: is not JSON", id="empty"),
        pytest.param(b"{", "body: is not JSON", id="malformed"),
        pytest.param(b"\xff\xfe", "body: is not JSON", id="not UTF-8"),
        pytest.param(b"[]", "body: must be an object", id="a list"),
        pytest.param(b'{"response": 3, "reference": "18"}', "response: ", id="wrong type"),
        pytest.param(b'{"response": "18", "timeout_s": NaN}', "timeout_s: ", id="NaN"),
        pytest.param(b'{"response": "18", "timeout_s": %s}' % (b"9" * 400), "timeout_s: ", id="t"),
        pytest.param(metadata("1" * 5000), "metadata: ", id="an integer of 5,000 digits"),
        pytest.param(metadata("1e999"), "metadata: ", id="infinite"),
        pytest.param(metadata('"' + "x" * 70_000 + '"'), "65536", id="metadata of 70 kB"),
        *(
            pytest.param(metadata("[" * n + "]" * n), "body: is n", id=f"nested {n:,}")
            for n in (64, 1023, 1100, 100_000)
        ),
        pytest.param(metadata('{"a":' * 1020 + "1" + "}" * 1020), "body: is n", id="objects"),
        pytest.param(
            b'{"response": "' + b"x" * 1_200_000 + b'", "reference": "18"}',
            "response: has 1200000 of",
            id="a response of 1,200,000",
        ),
    ],
)
def test_a_body_at_fault_is_422_by_name_and_its_item_invalid(body: bytes, message: str) -> None:
    client = served()
    reply = client.post("/v1/score", content=body)
    assert reply.status_code == 422, reply.text[:200]
    assert message in reply.json()["detail"]
    assert len(reply.content) < 2000
    batch = client.post("/v1/score/batch", content=b'{"requests": [%s]}' % body)
    if body and batch.status_code != 422:
        assert [result["status"] for result in batch.json()["results"]] == ["invalid"]


def test_metadata_within_its_bounds_comes_back() -> None:
    nested = "[" * 61 + "18446744073709551615" + "]" * 61
    reply = served().post("/v1/score", content=metadata(nested))
    assert reply.json()["metadata"] == {"x": json.loads(nested)}


def test_a_long_body_is_read() -> None:
    items = [{**GOOD, "response": "½" * 100_000 + "\n#### 18"}] * 3
    results = served().post("/v1/score/batch", json={"requests": items}).json()["results"]
    assert [result["score"] for result in results] == [1.0] * 3


def test_a_result_is_explained_with_what_led_to_it() -> None:
    reply = served().post("/v1/explain", json={**GOOD, "id": "a"})
    content = reply.json()
    assert (reply.status_code, content["result"]["score"]) == (200, 1.0)
    assert content["result"]["id"] == "a"
    assert content["rule"]["span"] == {"start": 5, "end": 7}
    unexplained = served().post("/v1/explain", json={})
    assert (unexplained.status_code, unexplained.json()["detail"][:10]) == (422, "response: ")


def test_explanations_turned_off_are_404_and_in_no_document() -> None:
    client = served(explain=False)
    assert client.post("/v1/explain", json=GOOD).status_code == 404
    assert "/v1/explain" not in client.get("/openapi.json").json()["paths"]


def test_each_response_of_a_group_has_a_result_in_order() -> None:
    reply = served().post("/v1/score/group", json={**GROUP, "id": "g", "metadata": {"n": 1}})
    content = reply.json()
    assert (reply.status_code, content["status"], content["id"]) == (200, "ok", "g")
    scores = [(result["score"], result["model"]) for result in content["results"]]
    assert scores == [(0.5, "rule"), (1.0, "rule")]
    assert content["metadata"] == {"n": 1}


@pytest.mark.parametrize(
    ("fields", "code", "detail"),
    [
        ({"responses": ["a"]}, 422, "responses: List should have at least 2 items"),
        ({"model": "rul"}, 404, "model: no model is named 'rul'; choose from rule"),
    ],
)
def test_a_bad_field_of_a_group_is_named(fields: dict[str, Any], code: int, detail: str) -> None:
    reply = served().post("/v1/score/group", json={**GROUP, **fields})
    assert (reply.status_code, reply.json()["detail"][: len(detail)]) == (code, detail)
