"""Malformed HTTP on real sockets: no server error, and the next caller is served at once."""

from __future__ import annotations

import re
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

import httpx
import pytest
import ray

from reward_serve import HttpRewardClient
from tests.service.integration.conftest import wait_for
from tests.service.integration.raw_http import CASES, CLOSE, DROP, Part, post
from tests.tiers import share

GOOD = {"response": "#### 18", "reference": "18"}
AT_ONCE_S = 20.0  # on a machine that others use too; some milliseconds on a free one
IDLE_S = 0.1
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] (\d{3}) ")
_TRACEBACK = re.compile(r"Traceback \(most recent call last\):(?:\n.*){1,40}?/reward_serve/")


@pytest.fixture(scope="module")
def service(rule_url: str) -> Iterator[str]:
    """The URL; what is left at work, and what was logged, is looked at in the end."""
    before = {file: file.stat().st_size for file in logs()}
    yield rule_url
    with HttpRewardClient(rule_url) as client:
        wait_for("no items in flight", lambda: client.models()[0]["items"] == 0, 60)
    for file in logs():
        text = file.read_bytes()[before.get(file, 0) :].decode("utf-8", "replace")
        assert not _TRACEBACK.search(text), file


def logs() -> list[Path]:
    """What Serve and its workers have written."""
    folder = Path(ray._private.worker._global_node.get_logs_dir_path())
    return [*(folder / "serve").rglob("*.log"), *folder.glob("worker-*.err")]


def exchange(url: str, parts: list[Part], expected: int = 1) -> list[int]:
    """The status of each reply to what is sent: so many, unless the connection ends before."""
    place = urlsplit(url)
    target = b" " + place.path.encode() + b"/"
    with socket.create_connection((place.hostname, place.port), timeout=AT_ONCE_S) as connection:
        try:
            for part in parts:
                if part is CLOSE:
                    connection.shutdown(socket.SHUT_WR)
                elif part == DROP:
                    linger = struct.pack("ii", 1, 0)
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    return []
                elif isinstance(part, float):
                    time.sleep(part)
                else:
                    connection.sendall(part.replace(b" /", target))
        except OSError:  # refused before it was all sent
            pass
        return replies(connection, expected)


def replies(connection: socket.socket, expected: int) -> list[int]:
    """The status of each reply that comes."""
    received = b""
    while True:
        codes = [int(code) for code in _STATUS_LINE.findall(received)]
        connection.settimeout(AT_ONCE_S if len(codes) < expected else IDLE_S)
        try:
            some = connection.recv(2**20)
        except TimeoutError:
            assert len(codes) >= expected, f"neither a reply nor an end after {received[-200:]!r}"
            return codes
        except ConnectionError:
            return codes
        if not some:
            return codes
        received += some


@pytest.mark.parametrize("name", Random(0).sample(sorted(CASES), share(len(CASES), 50)))
def test_malformed_http_is_no_server_error_and_harms_nobody(service: str, name: str) -> None:
    codes = exchange(service, CASES[name])
    assert [code for code in codes if code >= 500] == []
    reply = httpx.post(f"{service}/v1/score", json=GOOD, timeout=AT_ONCE_S)
    assert (reply.status_code, reply.json()["score"]) == (200, 1.0)


def test_every_pipelined_request_is_answered(service: str) -> None:
    codes = exchange(service, [post() * 20], expected=20)
    assert codes == [200] * 20


@pytest.mark.parametrize("name", ["length and chunks", "chunks and length"])
def test_a_request_cannot_hide_another(service: str, name: str) -> None:
    codes = exchange(service, CASES[name], expected=2)
    assert codes in ([400], [200, 400], [422, 400])


@pytest.mark.parametrize("pause_s", [0.0, 0.002, 0.005, 0.01, 0.02] * 4)
def test_callers_who_drop_in_the_body_leave_nothing_behind(service: str, pause_s: float) -> None:
    assert exchange(service, [post(length=b"500"), pause_s, DROP]) == []
