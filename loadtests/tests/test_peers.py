"""What the comparison counts, and that a peer's program runs against the stand-in."""

import asyncio
import json
from typing import Any

import pytest

from loadtests.peers.__main__ import measured, tallied
from loadtests.peers.endpoint import Endpoint


def test_a_number_without_a_verdict_is_not_a_verdict_however_it_falls() -> None:
    rows = [(0, 0.0), (1, 0.0), (2, 0.0), (3, 0.0), (4, None)]
    lines: list[dict[str, Any]] = [{"row": row, "score": score, "s": 1.0} for row, score in rows]
    counts = tallied([*lines, {"done": True, "s": 2.0}], 6, {0, 1, 4})
    assert counts["right"] == 1
    assert counts["wrong"] == 1
    assert counts["no verdict"] == 2  # rows 2 and 3, though 0.0 is true of row 2
    assert counts["absent"] == 2  # row 4, and row 5, of which nothing was said
    assert tallied(lines, 6, {0, 1, 4})["hung"] == 1


async def asked(endpoint: Endpoint, row: int) -> tuple[int, dict[bytes, bytes], Any]:
    body = {"model": "verifiers", "messages": [{"content": f"a run, row {row}: 18."}]}
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": json.dumps(body).encode()}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await endpoint({"type": "http", "client": ("127.0.0.1", 1)}, receive, send)
    return sent[0]["status"], dict(sent[0]["headers"]), json.loads(sent[1]["body"])


def test_the_stand_in_answers_in_the_askers_form_and_a_run_of_429_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calm, refusing = Endpoint("calm"), Endpoint("429")
    replies = [asyncio.run(asked(calm, row)) for row in (0, 1)]
    assert [body["choices"][0]["message"]["content"] for _, _, body in replies] == ["no", "yes"]
    assert calm.verdicts == {0, 1}
    status, headers, _ = asyncio.run(asked(refusing, 1))
    assert (status, headers[b"retry-after"]) == (429, b"1")
    monkeypatch.setattr("loadtests.peers.endpoint.REFUSED_S", 0.0)
    assert asyncio.run(asked(refusing, 1))[0] == 200


@pytest.mark.slow
def test_a_plain_client_is_measured_under_faults() -> None:
    figures = measured("plain", "faults", 32)
    assert figures["right"] == 32 - figures["absent"]
    assert figures["calls"]["verdict"] == figures["right"]
    assert figures["no verdict"] == figures["hung"] == 0
