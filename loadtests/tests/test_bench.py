from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from loadtests.bench.common import chunks, load, machine, marked, read_requests, spread
from loadtests.bench.cpu import cpu_seconds, spent
from loadtests.bench.groups import PROMPTS, WAYS, PerGroup, step
from loadtests.bench.instant_model import InstantReplica
from loadtests.bench.plots import bars, plot
from loadtests.bench.prefix_cache import BLOCK_TOKENS, PrefixCache, PrefixReplica
from loadtests.bench.scaling import prompt_flops
from reward_serve.routing.placement import group_key


def rate(value: float) -> dict[str, Any]:
    return {"per_s": spread([value, value + 2, value + 1])}


REPORT: dict[str, Any] = {
    "P1": {way: {"answers_per_s": 1.0} for way in ("label", "generate_batched", "old")},
    "P2": {"verdicts_per_s": {"bare": spread([2.0]), "handle_batch": spread([1.0])}},
    "P3": {
        str(concurrency): {way: rate(float(concurrency)) for way in ("raw", "handle", "http")}
        for concurrency in (1, 32, 256)
    },
    "P4": {
        "stand-in, 8 replicas": {
            case: {way: {"answers_per_s": spread([5.0])} for way in WAYS}
            for case in ("short, apart", "long, apart")
        }
    },
    "scaling": {
        "points": [
            {
                "prompt_tokens": tokens,
                "batch": batch,
                "verdicts_per_s": batch / tokens,
                "roofline_per_s": 100 / tokens,
            }
            for tokens in (32, 64)
            for batch in (1, 8)
        ]
    },
    "P6": {"bare_s": spread([20.0]), "service_s": spread([30.0])},
    "cache": {"answers_per_s": 4.0, "answers_per_s_off": 2.0},
    "of another version": {},
}


def test_rows_of_a_file_become_requests(tmp_path: Path) -> None:
    row = {"response": "#### 18", "reference": "18", "correct": True, "question": "?"}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")

    assert read_requests(tmp_path / "rows.jsonl") == [{"response": "#### 18", "reference": "18"}]


def test_marking_copies_the_requests() -> None:
    requests = [{"response": "18", "reference": "18"}]

    assert marked(requests, "007") == [{"response": "(007) 18", "reference": "18"}]
    assert requests[0]["response"] == "18"


def test_chunks_keep_all_requests_in_order() -> None:
    requests: list[dict[str, Any]] = [{"n": n} for n in range(7)]

    assert [len(chunk) for chunk in chunks(requests, 3)] == [3, 3, 1]
    assert [one for chunk in chunks(requests, 3) for one in chunk] == requests


def test_a_spread_is_median_minimum_and_maximum() -> None:
    assert spread([3.0, 1.0, 2.0]) == {"median": 2.0, "low": 1.0, "high": 3.0}


async def test_a_load_keeps_its_concurrency_and_sends_each_once() -> None:
    asked: list[int] = []
    most = now = 0

    async def ask(number: int) -> None:
        nonlocal most, now
        now += 1
        most = max(most, now)
        asked.append(number)
        await asyncio.sleep(0.001)
        now -= 1

    figures = await load(ask, 40, 4)
    assert sorted(asked) == list(range(40))
    assert most == 4
    assert figures["per_s"] > 0
    assert 1 <= figures["p50_ms"] <= figures["p99_ms"]


async def test_the_instant_replica_keeps_the_contract() -> None:
    asked: list[dict[str, Any]] = [{"response": "18", "reference": "18"}, {"response": 18}]
    results = await InstantReplica().score_batch(asked)

    assert [(result["status"], result["score"]) for result in results] == [
        ("ok", 1.0),
        ("invalid", None),
    ]


@pytest.mark.parametrize("name", ["P1", "P2", "P3", "P4", "P6", "cache"])
def test_each_benchmark_has_its_panel(name: str) -> None:
    assert all(value > 0 for value in bars(name, REPORT[name]).values())


def test_a_prefix_cache_keeps_whole_blocks_of_a_prompts_beginning() -> None:
    cache = PrefixCache(blocks=8)
    block = list(range(BLOCK_TOKENS))
    prompt = [*block, *block, 1, 2]
    assert cache.add(prompt) == 0
    assert cache.add(prompt) == 2 * BLOCK_TOKENS
    assert cache.add([*block, *block]) == BLOCK_TOKENS  # the last token is always computed
    assert cache.add([9, *block, *block]) == 0
    assert cache.add([*block, 3, *block]) == BLOCK_TOKENS


def test_a_prefix_cache_drops_what_was_used_least_recently() -> None:
    cache = PrefixCache(blocks=2)
    first, second, third = ([n] * BLOCK_TOKENS + [n] for n in range(3))
    for prompt in (first, second, first, third):
        cache.add(prompt)
    assert cache.add(first) == BLOCK_TOKENS
    assert cache.add(second) == 0


@pytest.mark.parametrize("prompts", PROMPTS)
async def test_the_stand_in_scores_a_step_and_computes_a_groups_reference_once(
    prompts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loadtests.bench.prefix_cache._TOKENS_PER_S", 1e6)
    fields = {"judge": {"rules_first": False}, "max_concurrent_items": 64}
    replica = PrefixReplica({"name": "judge", "kind": "judge", **fields})
    asked = step([{"response": "#### 18", "reference": "18"}], 2, prompts, "apart", "mark")
    results = await replica.score_batch(asked)

    assert {result["status"] for result in results} == {"ok"}
    prompt = sum(result["usage"]["prompt_tokens"] for result in results)
    cached = sum(result["usage"]["cached_tokens"] for result in results)
    if prompts == "long":
        assert 14 * 750 < cached < prompt - 2 * 750
    else:
        assert 0 < cached < prompt


def test_a_step_is_the_same_for_every_way_but_for_its_mark() -> None:
    requests = [{"response": str(n), "reference": f"r{n}"} for n in range(40)]
    together, apart, other = (
        step(requests, 3, "short", order, f"{way} short 0")
        for order, way in (("together", 0), ("apart", 0), ("apart", 1))
    )
    assert [one["group"][-3:] for one in together] == ["0) "] * 8 + ["1) "] * 8 + ["2) "] * 8
    assert [one["group"] for one in together] != [one["group"] for one in apart]
    assert [one["group"][-3:] for one in apart] == [one["group"][-3:] for one in other]
    assert not {one["response"] for one in apart} & {one["response"] for one in other}
    assert len({one["response"] for one in apart}) == len(apart)


@pytest.mark.parametrize("sessions", [True, False])
def test_calls_per_group_hold_a_group_each(sessions: bool) -> None:
    items = [{"group": f"g{n % 3}"} for n in range(12)]
    shares = PerGroup(sessions).shares(items, ["r0", "r1"])
    assert [list(share.indices) for share in shares] == [[n, n + 3, n + 6, n + 9] for n in range(3)]
    assert [share.replica for share in shares] == (
        [str(group_key(one)) for one in items[:3]] if sessions else [None] * 3
    )


def test_operations_grow_faster_than_the_prompts_tokens() -> None:
    config = SimpleNamespace(
        hidden_size=4,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        intermediate_size=8,
        vocab_size=10,
    )
    weights = 2 * (2 * 16 + 2 * 4 * 2 + 3 * 4 * 8)
    assert prompt_flops(config, 1) == 2 * weights + 2 * 2 * 2 * 4 + 2 * 40
    once, twice = (prompt_flops(config, tokens) for tokens in (100, 200))
    assert 2 < twice / once < 4


def test_a_report_is_plotted_and_an_empty_one_is_not(tmp_path: Path) -> None:
    plot(REPORT, tmp_path / "bench.png")
    plot({}, tmp_path / "none.png")

    assert (tmp_path / "bench.png").stat().st_size > 10_000
    assert not (tmp_path / "none.png").exists()


def test_the_machine_is_described() -> None:
    figures = machine()

    assert figures["cores"] >= 1
    assert figures["ray"].startswith("2.")


def test_cpu_seconds_are_split_by_part() -> None:
    before = cpu_seconds()
    sum(range(3_000_000))
    used = spent(before, cpu_seconds())
    assert 0.01 < used["client"] < 10
    assert set(used) <= {"client", "Ray's own"}


def test_a_process_that_has_exited_is_in_no_reading() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        before = cpu_seconds()
        assert child.stdin is not None
        child.stdin.write(b"\n")
    after = cpu_seconds()

    assert child.pid in {process.pid for process in before.keys() - after.keys()}
    assert min(spent(before, after).values()) >= 0
