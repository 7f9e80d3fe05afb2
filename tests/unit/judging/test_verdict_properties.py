"""Whatever a judge writes."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reward_serve.judging.verdict import read_verdict
from reward_serve.schema import Status
from reward_serve.templates import Template, inline_template, load_template, template_names

INLINE = "{PROBLEM} {REFERENCE_SOLUTION} {CANDIDATE_SOLUTION}"
TEMPLATES = [
    *(pytest.param(load_template(name), id=name) for name in template_names()),
    pytest.param(inline_template(INLINE), id="inline"),
    pytest.param(inline_template(f"{INLINE} from 0 to 100"), id="inline of 100"),
]
PIECES = [
    "VERDICT: 1", "VERDICT: 0", "verdict: **1**", "VERDICT:", "VERDICT", "REWARD: 1", "REWARD: 0.5",
    "REWARD: 100", "REWARD: nan", "REWARD: 1e999", "REWARD: -1", "REWARD: 1_0", "REWARD: ١", ":",
    "<think>", "</think>", "<THINK>", "\n", " ", "1", "0", "\\boxed{1}", "\x00", "\ud800",
    "Final Score: 1", "### Final Score:",
]  # fmt: skip
texts = st.lists(st.sampled_from(PIECES) | st.text(max_size=8), max_size=20).map("".join)
plain = texts.filter(lambda text: "think>" not in text)
each_template = pytest.mark.parametrize("template", TEMPLATES)


@each_template
@given(texts, st.booleans())
def test_any_text_has_a_verdict_within_the_scale_or_none(
    template: Template, text: str, cut_off: bool
) -> None:
    verdict = read_verdict(template, text, cut_off)
    assert verdict.status in (Status.OK, Status.UNPARSEABLE, Status.TRUNCATED)
    assert (verdict.status is Status.TRUNCATED) is cut_off
    assert (verdict.score is None) is (verdict.status is not Status.OK)
    assert (verdict.reason is None) is (verdict.status is Status.OK)
    if verdict.score is not None:
        assert math.isfinite(verdict.score)
        assert 0.0 <= verdict.score <= template.highest


@each_template
@given(texts, plain)
def test_a_verdict_in_a_thought_never_counts(template: Template, thought: str, answer: str) -> None:
    alone = read_verdict(template, answer, cut_off=False)
    for text in (f"<think>{thought}</think>{answer}", f"{thought}</think>{answer}"):
        found = read_verdict(template, text, cut_off=False)
        assert found == alone.model_copy(update={"text": text})
    verdict = read_verdict(template, f"{answer}<think>{answer}", cut_off=False)
    assert verdict.status is Status.UNPARSEABLE
