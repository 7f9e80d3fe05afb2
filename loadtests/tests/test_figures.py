"""The arithmetic of the reports."""

import asyncio

import pytest

from loadtests.bench.common import alternated, relative, spread
from loadtests.bench.groups import BLOCK_TOKENS, PrefixCache
from loadtests.bench.long import right
from loadtests.gpu import card
from loadtests.gpu.card import parameters, share_of_peak
from loadtests.gpu.check import compared, key
from loadtests.soak import Memory, Sizes, growth_mib
from reward_serve.schema import ScoreResult, Status


async def test_ways_take_turns_and_a_missing_verdict_is_an_error() -> None:
    turns: list[str] = []

    async def way(sent: list[str]) -> int:
        turns.extend(sent)
        return len(sent)

    rates = await alternated({"a": way, "b": way}, 3, lambda name: [name])
    assert sorted(turns) == ["a"] * 4 + ["b"] * 4  # the first round is not counted
    assert {name: len(per_round) for name, per_round in rates.items()} == {"a": 3, "b": 3}
    with pytest.raises(RuntimeError, match="a: 2 verdicts of 3"):
        await alternated({"a": lambda _: asyncio.sleep(0, 2)}, 1, lambda _: [1, 2, 3])


def test_ratios_are_taken_round_by_round() -> None:
    assert relative({"base": [1.0, 2.0, 4.0], "other": [2.0, 2.0, 2.0]}, "base") == {"other": 1.0}
    assert spread([3.0, 1.0, 2.0]) == {"median": 2.0, "low": 1.0, "high": 3.0}


def test_a_prefix_cache_keeps_whole_blocks_of_a_prompts_beginning() -> None:
    cache = PrefixCache(blocks=8)
    block = list(range(BLOCK_TOKENS))
    prompt = [*block, *block, 1, 2]
    assert cache.add(prompt) == 0
    assert cache.add(prompt) == 2 * BLOCK_TOKENS
    assert cache.add([*block, *block]) == BLOCK_TOKENS  # the last token is always computed
    assert cache.add([9, *block, *block]) == 0


def test_an_absent_or_wrong_result_is_not_right() -> None:
    results = [
        ScoreResult(status=Status.OK, score=1.0),
        ScoreResult(status=Status.OK, score=0.0),
        ScoreResult(status=Status.ERROR, reason="gone"),
    ]
    assert right([{"metadata": {"right": True}}] * 3, results) == 1


def test_growth_is_measured_after_start_up_where_a_deployment_was_sampled() -> None:
    start_up = [{"replica": 100.0 * n} for n in range(10)]
    assert growth_mib(start_up + [{"replica": 1000.0}] * 90) == {"replica": 0.0}
    leaking = [{"replica": 1000.0 + n} for n in range(100)]
    assert growth_mib(leaking) == {"replica": pytest.approx(80.0)}
    assert growth_mib([{"a": 1.0}]) == {"a": 0.0}
    samples: list[Sizes] = [{"a": 1.0}, {"a": 2.0, "b": 5.0}, {"b": 6.0}]
    assert growth_mib(samples) == {"b": 1.0}
    assert Memory([0, 1, 2], samples).peaks == {"a": 2.0, "b": 6.0}


def test_the_share_of_the_peak_is_two_operations_a_parameter_and_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert parameters("qwen2.5-1.5b") == 1_543_714_304
    assert parameters("llama-8b") == 8_030_261_248
    assert share_of_peak(1000.0, "llama-8b", 256) is None  # an unknown card
    monkeypatch.setattr(card, "card", lambda: {"name": "NVIDIA H200"})
    assert share_of_peak(1000.0, "qwen2.5-1.5b", 256) == pytest.approx(
        1000 * 2 * 1_543_714_304 * 256 / 989.4e12
    )


def test_a_flip_near_a_half_is_distinguished_from_one_that_is_not() -> None:
    rows = [{"response": f"It is {n}", "reference": "18", "correct": n == 18} for n in (17, 18, 19)]
    expected = {key(row): p for row, p in zip(rows, (0.49, 0.99, 0.01), strict=True)}
    comparison = compared(rows, expected, [0.51, 0.2, 0.01])

    assert [flip["cpu"] for flip in comparison["flips"]] == [0.49, 0.99]
    assert comparison["flips_not_near_half"] == 1
    assert comparison["difference"]["largest"] == pytest.approx(0.79)
    assert comparison["agreement"] == pytest.approx(1 / 3)
    with pytest.raises(KeyError):  # a reference of other rows
        compared(rows, {}, [0.1, 0.9, 0.1])
