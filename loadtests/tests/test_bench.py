from __future__ import annotations

import asyncio
from typing import Any

import pytest

from loadtests.bench.common import alternated, relative, spread
from loadtests.bench.groups import BLOCK_TOKENS, PROMPTS, PrefixCache, PrefixReplica, step
from loadtests.bench.instant_model import InstantReplica
from loadtests.bench.long import right
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
    monkeypatch.setattr("loadtests.bench.groups._TOKENS_PER_S", 1e6)
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


def test_an_absent_or_wrong_result_is_not_right() -> None:
    results = [
        ScoreResult(status=Status.OK, score=1.0),
        ScoreResult(status=Status.OK, score=0.0),
        ScoreResult(status=Status.ERROR, reason="gone"),
    ]
    assert right([{"metadata": {"right": True}}] * 3, results) == 1
