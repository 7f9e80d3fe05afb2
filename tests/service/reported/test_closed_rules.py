"""What one caller or one policy was reported to do to the others of a rule."""

import asyncio
import json
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reward_serve.child_process import ChildProcess
from reward_serve.config.models import RuleModel
from reward_serve.replica.admission import Admission
from reward_serve.replica.scoring import Scorer
from reward_serve.reward_models.rule import RuleRewardModel
from reward_serve.schema import Status
from reward_serve_answers.calls import grade_calls
from tests.rows import rows

Asked = list[tuple[str, list[str]]]
"""The lane and the last argument of each call, in the order in which processes were asked."""


class Rule:
    """A replica of one rule, and what its child processes were asked."""

    def __init__(self, verifier: str, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> None:
        config = {"name": "m", "kind": "rule", "rule": {"verifier": verifier, **settings}}
        self.model = RuleRewardModel(RuleModel.model_validate(config))
        self.scorer = Scorer("m", self.model, Admission(4, 512))
        self.asked: Asked = []
        ask = ChildProcess._ask

        def recorded(child: ChildProcess, lane: Any, calls: Any, workers: Any) -> list[Any]:
            name = "quick" if lane is child._quick else "slow"
            self.asked.append((name, [call[-1] for call in calls]))
            return ask(child, lane, calls, workers)

        monkeypatch.setattr(ChildProcess, "_ask", recorded)

    async def asked_quickly(self, count: int) -> None:
        """Wait until the quick lane was asked for so many texts."""
        async with asyncio.timeout(30):
            while len(self.quick()) < count:  # noqa: ASYNC110 - threads append to the list
                await asyncio.sleep(0.01)

    def quick(self) -> list[str]:
        return [text for lane, texts in self.asked if lane == "quick" for text in texts]


@pytest.fixture
def rule(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rule]:
    """A pattern that is slow on many texts."""
    made = Rule("regex", monkeypatch, pattern="(a+)+$")
    yield made
    made.model.close()


def slow(number: int) -> str:
    return f"{'a' * 40}!{number}"


def item(response: str, reference: Any = "a", timeout_s: float = 60) -> dict[str, Any]:
    return {"response": response, "reference": reference, "timeout_s": timeout_s}


@pytest.mark.parametrize("key", ["another", "the same"])
async def test_an_item_waits_for_few_slow_texts_and_not_for_a_batch(rule: Rule, key: str) -> None:
    await rule.scorer.score(item("a"))
    keys = {"another": "b", "the same": "a"}
    batch = asyncio.ensure_future(
        rule.scorer.score_batch([item(slow(n)) for n in range(64)], (object(), "a"))
    )
    await rule.asked_quickly(4)
    before = len(rule.quick())
    result = await rule.scorer.score(item("no a", timeout_s=20), (None, keys[key]))
    assert result["score"] == 1.0
    lanes = rule.model._verifier.child._quick.width  # type: ignore[union-attr]
    assert rule.quick().index("no a") - before <= lanes
    batch.cancel()


async def test_what_needs_no_process_awaits_no_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = Rule("math", monkeypatch)
    formulas = [rf"\boxed{{\sin(((2^{{999}})^{{999}})^{{{n + 9}}})}}" for n in range(32)]
    items = [item(formula, r"\sqrt{2}") for formula in formulas]
    batch = asyncio.ensure_future(rule.scorer.score_batch(items, (object(), "a")))
    await rule.asked_quickly(2)
    result = await rule.scorer.score(item(r"\boxed{2}", "2", timeout_s=1), (None, "b"))
    assert result["score"] == 1.0
    batch.cancel()
    rule.model.close()


async def test_an_items_references_count_together_and_what_was_slow_is_not_asked_quickly_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rule, formula = Rule("math", monkeypatch), r"\boxed{\sin(((2^{999})^{999})^{99})}"
    several = item(formula, [rf"\sqrt{{{n}}}" for n in range(2, 18)])
    result = await rule.scorer.score(several)
    assert result["reason"] == "the verifier abstains: too_slow"
    assert [lane for lane, _ in rule.asked] == ["quick", "slow"]
    rule.asked.clear()
    first = item(formula, r"\sqrt{2}")  # exceeded the quick lane, in the slow one it was the last
    for expected in (["slow"], []):
        assert (await rule.scorer.score(first))["reason"] == "the verifier abstains: too_slow"
        assert [lane for lane, _ in rule.asked] == expected
        rule.asked.clear()
    rule.model.close()


async def test_a_right_reference_after_a_slow_one_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = Rule("json_schema", monkeypatch)
    references = ['{"pattern": "^(a+)+$"}', '{"type": "string"}']
    result = await rule.scorer.score(item(json.dumps(slow(1)), references))
    assert result["score"] == 1.0
    rule.model.close()


async def test_a_slow_schema_takes_no_time_of_the_replica(monkeypatch: pytest.MonkeyPatch) -> None:
    rule, names = Rule("json_schema", monkeypatch), [f"a{n}" for n in range(2_000)]
    schema = {
        "$defs": {name: {"$anchor": name} for name in names},
        "allOf": [{"$ref": f"#{name}"} for name in names],
    }
    await rule.scorer.score(item("{}", "{}"))
    began = time.process_time()
    result = await rule.scorer.score(item("{}", json.dumps(schema)))
    assert result["reason"] == "the verifier abstains: too_slow"
    assert time.process_time() - began < 0.5
    rule.model.close()


def with_large_values(last: int) -> tuple[str, Any]:
    arguments = {"k" * 100_000: [*range(12_000), last]}
    return json.dumps({"name": "f", "arguments": arguments}), ()


def with_large_defaults(last: int) -> tuple[str, Any]:
    calls = [{"name": "f", "arguments": {"last": last}}] * 1_000
    properties = {f"p{n}": {"default": "x" * 400} for n in range(1_000)}
    return json.dumps(calls), [{"name": "f", "parameters": {"properties": properties}}]


@pytest.mark.parametrize("called", [with_large_values, with_large_defaults])
def test_calls_are_compared_in_little_memory(called: Any) -> None:
    tracemalloc.start()
    try:
        assert grade_calls(called(1)[0], *called(2)).score == 0.0
        assert tracemalloc.get_traced_memory()[1] < 100e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("verifier", "text"), [*rows(__file__, "texts"), ("json_schema", "[" * 100_000)]
)
async def test_no_text_of_a_policy_gets_a_status_that_clients_retry_until_the_deadline(
    verifier: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule, reference = Rule(verifier, monkeypatch), '{"name": "f", "arguments": {}}'
    result = await rule.scorer.score(item(text, reference))
    assert not Status(result["status"]).is_retried
    assert result["score"] in (None, 0.0)
    rule.model.close()


async def test_a_child_process_imports_nothing_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "resource.py").write_text("open('was_run', 'w')\nfrom _resource import *\n")
    rule = Rule("regex", monkeypatch, pattern="(a+)+$")
    assert (await rule.scorer.score(item("a")))["score"] == 1.0
    assert not (tmp_path / "was_run").exists()
    rule.model.close()
