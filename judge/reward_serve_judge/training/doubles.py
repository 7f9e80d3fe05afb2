"""Responses that state two or three values: equal ones are one answer, different ones none."""

from __future__ import annotations

from reward_serve_judge.training.answers.base import Answer
from reward_serve_judge.training.answers.numbers import Number
from reward_serve_judge.training.committed import then
from reward_serve_judge.training.drafts import Draft, Ending
from reward_serve_judge.training.texts import KINDS, TEXTS

_EQUAL_NUMBERS = frozenset(
    ["{a}, {b}", "{a} / {b}", "{a} {b} {c}", "{a}; {b}", "{a}: {b}", "{a} | {b}", "{a}... {b}",
     "{a} slash {b}", "#### {a} / {b}", r"\boxed{{{a}, {b}}}", "{a} as well as {b}.",
     "{a} together with {b}.", "{a} followed by {b}.", "First: {a}. Second: {b}."]
)  # fmt: skip
"""Wordings that make one number, or a list, of two equal ones."""


def double(draft: Draft[Answer], wordings: str = "doubles") -> Ending:
    """Two different values as if they were one, the reference's mostly among them."""
    rng = draft.rng
    values = [draft.stated, draft.gold, draft.other()]
    if rng.random() < 0.9:  # the third value is for wordings of three
        values[:2] = rng.sample(values[:2], 2)
    else:
        rng.shuffle(values)
    forms, chance = KINDS[wordings], rng.random()
    if isinstance(draft.stated, Number) and chance < 0.12 and wordings == "doubles":
        forms = KINDS["doubles_units"]
    elif chance > 0.9 and wordings == "doubles":
        forms = KINDS["doubles_three"]
    text = then(draft, _filled(draft, rng.choice(forms), values), 0.12)
    return draft.joined(draft.body(1) if rng.random() < 0.35 else "", text), None


def restated(draft: Draft[Answer], wordings: str = "doubles") -> Ending:
    """One value in two or three notations."""
    rng = draft.rng
    three = rng.random() < 0.08 and wordings == "doubles"
    forms = KINDS["doubles_three" if three else wordings]
    form = rng.choice([form for form in forms if form not in _EQUAL_NUMBERS])
    text = then(draft, _filled(draft, form, [draft.stated] * 3), 0.12)
    return draft.joined(draft.body(1) if rng.random() < 0.35 else "", text), draft.stated


def _filled(draft: Draft[Answer], form: str, values: list[Answer]) -> str:
    rng, tex = draft.rng, "boxed" in form
    texts = {}
    for slot, value in zip("abc", values, strict=True):
        short = rng.random() < 0.5
        texts[slot] = value.plain(rng) if short else value.written(rng, tex=tex)
    units = dict(zip("uv", rng.sample(TEXTS["units"], 2), strict=True))
    return draft.filled(form, **texts, **units)
