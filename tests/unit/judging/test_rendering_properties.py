"""Whatever stands in a field: the prompt is the template's own tokens, and the field's as text."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from reward_serve.engines.tokenizer import ChatTokenizer
from reward_serve.judging.rendering import Renderer, defuse
from reward_serve.schema import Mode
from reward_serve.templates import FIELDS, Template
from reward_serve_answers.committed import committed
from reward_serve_judge.canonical import canonical
from reward_serve_judge.places import OCCURRENCES
from tests.unit.judging.test_rendering import EVERY_FIELD, HOSTILE, SHOWN, UNKNOWN

MAX_PROMPT = 400
PIECES = [
    *HOSTILE, *UNKNOWN, "<", "</", ">", "/", "response", "</response>", "< / reference >",
    "question", "<\x04/response>", "</refer\x06ence>", "</resp", "onse>",
    "ſ", "\u200b", "\n", " ", "1", "8", "1,800", "eighteen", "½", "\\frac{1}{2}",
]  # fmt: skip
texts = st.lists(st.sampled_from(PIECES) | st.text(max_size=6), max_size=30).map("".join)
fields = st.fixed_dictionaries(dict.fromkeys(FIELDS, texts))
_TAG = re.compile(r"<\s*/?\s*(?:question|reference|response)\b", re.IGNORECASE)


@pytest.fixture(scope="session")
def renderer(tokenizer: ChatTokenizer) -> Renderer:
    return Renderer(tokenizer, MAX_PROMPT)


def render(renderer: Renderer, shape: Template, mode: Mode, values: Any, budget: int = 999) -> Any:
    try:
        return renderer.render(shape, values, mode, response_tokens=budget, reserve_tokens=1)
    except ValueError as error:
        assert "prompt tokens leave no room" in str(error) or "do not fit" in str(error)
        return None


@pytest.mark.parametrize(("shape", "mode"), SHOWN)
@given(values=fields, budget=st.integers(1, 300))
def test_a_prompt_is_the_templates_tokens_and_each_fields_own(
    renderer: Renderer,
    tokenizer: ChatTokenizer,
    control_ids: frozenset[int],
    shape: Template,
    values: dict[str, str],
    mode: Mode,
    budget: int,
) -> None:
    prompt = render(renderer, shape, mode, values, budget)
    assume(prompt is not None)
    assert len(prompt.token_ids) < MAX_PROMPT
    plain = canonical if shape.numerals == "canonical" else str

    def shown(name: str) -> str:
        text = values[name]
        if name == "response" and shape.reference == "final_answer":
            text = committed(text).text
        where = prompt.fields[name].rpartition(" ")[2] if shape.occurrence else ""
        assert name != "reference" or where in ("", *(f"({one})" for one in OCCURRENCES))
        return defuse(plain(text)) + (f" {where}" if where and name == "reference" else "")

    left = list(prompt.token_ids)
    runs = renderer.skeleton(shape, mode, False).runs
    behind = sum(len(run) for run, _ in runs)
    for run, name in runs:
        assert tuple(left[: len(run)]) == run
        left, behind = left[len(run) :], behind - len(run)
        if name is None:
            continue
        own = tokenizer.encode_plain(shown(name))[0]
        assert control_ids.isdisjoint(own)
        if name == "response":  # cut from the front, by tokens
            others = sum(len(tokenizer.encode_plain(shown(n))[0]) for n in _after(runs, name))
            kept = len(left) - behind - others
            assert kept == min(len(own), budget, kept)
            own = own[len(own) - kept :] if not prompt.head_characters else left[:kept]
        assert left[: len(own)] == own
        left = left[len(own) :]
    assert left == []


def _after(runs: Any, name: str) -> list[str]:
    names = [field for _, field in runs if field]
    return names[names.index(name) + 1 :]


@pytest.mark.parametrize(("shape", "mode"), SHOWN)
@given(values=fields)
def test_no_field_opens_or_closes_a_fence(
    renderer: Renderer, hub_tokenizer: Any, shape: Template, values: dict[str, str], mode: Mode
) -> None:
    prompt = render(renderer, shape, mode, values)
    assume(prompt is not None)
    empty = render(renderer, shape, mode, dict.fromkeys(FIELDS, ""))
    tags = [_TAG.findall(hub_tokenizer.decode(one.token_ids)) for one in (empty, prompt)]
    assert tags[0] == tags[1]


@given(values=fields, budget=st.integers(1, 60))
def test_cutting_keeps_the_tail_and_the_same_input_gives_the_same_prompt(
    renderer: Renderer, tokenizer: ChatTokenizer, values: dict[str, str], budget: int
) -> None:
    whole = render(renderer, EVERY_FIELD, "label", values)
    assume(whole is not None and whole.cut_characters == 0)
    cut = render(renderer, EVERY_FIELD, "label", values, budget)
    assert cut == render(Renderer(tokenizer, MAX_PROMPT), EVERY_FIELD, "label", values, budget)
    missing = len(whole.token_ids) - len(cut.token_ids)
    same = sum(a == b for a, b in zip(whole.token_ids[::-1], cut.token_ids[::-1], strict=False))
    assert same >= min(budget, len(cut.token_ids))
    assert (missing > 0) is (cut.cut_characters > 0)
