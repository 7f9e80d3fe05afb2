from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from loadtests.bench.common import alternated, load, relative, spread
from loadtests.bench.groups import PROMPTS, step
from loadtests.bench.instant_model import InstantReplica
from loadtests.bench.long import absent_or_wrong
from loadtests.bench.prefix_cache import BLOCK_TOKENS, PrefixCache, PrefixReplica
from loadtests.bench.scaling import prompt_flops
from reward_serve.schema import ScoreResult, Status


async def test_ways_take_turns_and_a_missing_verdict_is_an_error() -> None:
    turns: list[str] = []

    async def way(sent: list[str]) -> int:
        turns.extend(sent)
        return len(sent)

    rates = await alternated({"a": way, "b": way}, 3, lambda name: [name])
    assert sorted(turns) == ["a"] * 4 + ["b"] * 4  # the first round is not counted
    assert {name: len(each) for name, each in rates.items()} == {"a": 3, "b": 3}
    with pytest.raises(RuntimeError, match="a: 2 verdicts of 3"):
        await alternated({"a": lambda _: asyncio.sleep(0, 2)}, 1, lambda _: [1, 2, 3])


def test_ratios_are_taken_round_by_round() -> None:
    assert relative({"base": [1.0, 2.0, 4.0], "other": [2.0, 2.0, 2.0]}, "base") == {"other": 1.0}
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
    assert 1 <= figures["p50_ms"] <= figures["p99_ms"]


async def test_the_instant_replica_keeps_the_contract() -> None:
    asked: list[dict[str, Any]] = [{"response": "18", "reference": "18"}, {"response": 18}]
    results = await InstantReplica().score_batch(asked)

    assert [(result["status"], result["score"]) for result in results] == [
        ("ok", 1.0),
        ("invalid", None),
    ]


def test_a_prefix_cache_keeps_whole_blocks_of_a_prompts_beginning() -> None:
    cache = PrefixCache(blocks=8)
    block = list(range(BLOCK_TOKENS))
    prompt = [*block, *block, 1, 2]
    assert cache.add(prompt) == 0
    assert cache.add(prompt) == 2 * BLOCK_TOKENS
    assert cache.add([*block, *block]) == BLOCK_TOKENS  # the last token is always computed
    assert cache.add([9, *block, *block]) == 0


@pytest.mark.parametrize("prompts", PROMPTS)
async def test_the_stand_in_scores_a_step_and_computes_a_groups_reference_once(
    prompts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loadtests.bench.prefix_cache._TOKENS_PER_S", 1e6)
    fields = {"judge": {"rules_first": False}, "max_concurrent_items": 64}
    replica = PrefixReplica({"name": "judge", "kind": "judge", **fields}, 64)
    asked = step([{"response": "#### 18", "reference": "18"}], 2, prompts, "apart", "mark")
    results = await replica.score_batch(asked)

    assert {result["status"] for result in results} == {"ok"}
    prompt = sum(result["usage"]["prompt_tokens"] for result in results)
    cached = sum(result["usage"]["cached_tokens"] for result in results)
    if prompts == "long":
        assert 14 * 750 < cached < prompt - 2 * 750
    else:
        assert 0 < cached < prompt


def test_operations_of_a_prompt_are_those_of_weights_attention_and_output() -> None:
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


def test_absent_and_wrong_results_are_counted() -> None:
    results = [
        ScoreResult(status=Status.OK, score=1.0),
        ScoreResult(status=Status.OK, score=0.0),
        ScoreResult(status=Status.ERROR, reason="gone"),
    ]
    asked = [{"metadata": {"right": True}}] * 3
    assert absent_or_wrong(asked, results) == {"absent": 1, "wrong": 1}
