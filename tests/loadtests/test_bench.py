from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from loadtests.bench.common import chunks, load, machine, marked, read_requests, spread
from loadtests.bench.fabric import InstantReplica
from loadtests.bench.plots import bars, plot


def rate(value: float) -> dict[str, Any]:
    return {"per_s": spread([value, value + 2, value + 1])}


REPORT: dict[str, Any] = {
    "P1": {way: {"answers_per_s": 1.0} for way in ("label", "generate_batched", "old")},
    "P2": {"verdicts_per_s": {"bare": spread([2.0]), "handle_batch": spread([1.0])}},
    "P3": {
        str(concurrency): {way: rate(float(concurrency)) for way in ("raw", "handle", "http")}
        for concurrency in (1, 32, 256)
    },
    "P6": {"bare_s": spread([20.0]), "service_s": spread([30.0])},
    "cache": {"answers_per_s": 4.0, "answers_per_s_off": 2.0},
    "of another version": {},
}


def test_a_files_rows_become_requests(tmp_path: Path) -> None:
    row = {"response": "#### 18", "reference": "18", "correct": True, "question": "?"}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")

    assert read_requests(tmp_path / "rows.jsonl") == [{"response": "#### 18", "reference": "18"}]


def test_marked_requests_are_new_and_the_others_stay() -> None:
    requests = [{"response": "18", "reference": "18"}]

    assert marked(requests, "007") == [{"response": "(007) 18", "reference": "18"}]
    assert requests[0]["response"] == "18"


def test_chunks_hold_everything_in_order() -> None:
    requests: list[dict[str, Any]] = [{"n": n} for n in range(7)]

    assert [len(chunk) for chunk in chunks(requests, 3)] == [3, 3, 1]
    assert [one for chunk in chunks(requests, 3) for one in chunk] == requests


def test_a_spread_is_the_median_between_its_ends() -> None:
    assert spread([3.0, 1.0, 2.0]) == {"median": 2.0, "low": 1.0, "high": 3.0}


async def test_a_load_keeps_its_concurrency_and_asks_each_once() -> None:
    asked: list[int] = []
    most = now = 0

    async def ask(number: int) -> None:
        nonlocal most, now
        now += 1
        most = max(most, now)
        asked.append(number)
        await asyncio.sleep(0.001)
        now -= 1

    told = await load(ask, 40, 4)
    assert sorted(asked) == list(range(40))
    assert most == 4
    assert told["per_s"] > 0
    assert 1 <= told["p50_ms"] <= told["p99_ms"]


async def test_the_instant_replica_answers_by_the_contract() -> None:
    asked: list[dict[str, Any]] = [{"response": "18", "reference": "18"}, {"response": 18}]
    results = await InstantReplica().score_batch(asked)

    assert [(result["status"], result["score"]) for result in results] == [
        ("ok", 1.0),
        ("invalid", None),
    ]


@pytest.mark.parametrize("name", ["P1", "P2", "P3", "P6", "cache"])
def test_each_benchmark_has_its_panel(name: str) -> None:
    assert all(value > 0 for value in bars(name, REPORT[name]).values())


def test_a_report_is_plotted_and_an_empty_one_is_not(tmp_path: Path) -> None:
    plot(REPORT, tmp_path / "bench.png")
    plot({}, tmp_path / "none.png")

    assert (tmp_path / "bench.png").stat().st_size > 10_000
    assert not (tmp_path / "none.png").exists()


def test_the_machine_is_told() -> None:
    told = machine()

    assert told["cores"] >= 1
    assert told["ray"].startswith("2.")
