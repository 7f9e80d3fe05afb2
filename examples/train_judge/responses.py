"""Labelled training examples: a response, a reference, and whether they agree.

A response that commits to a value is paired with equal and different references, so that only the
comparison reveals the label.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from examples.train_judge.drafts import Draft, Problem
from examples.train_judge.families import FAMILIES
from examples.train_judge.texts import TEXTS
from examples.train_judge.values import gold_text, lookalikes, numbers_in

_UNCOMMITTED = frozenset(["cut_off", "question", "no_answer", "unfinished"])


@dataclass(frozen=True, slots=True)
class Example:
    """A response and a reference.

    Attributes:
        response: the response.
        reference: the final answer.
        correct: whether the two agree.
        family: the response's family.
        answered: whether the response commits to a value.
    """

    response: str
    reference: str
    correct: bool
    family: str
    answered: bool = True


def make(problems: Sequence[Problem], rng: Random) -> list[Example]:
    """One response, paired with wrong references and, if it commits to a value, the right one.

    Args:
        problems: problems whose working and sentences may be used.
        rng: random generator.
    """
    weights = [weight for weight, _ in FAMILIES.values()]
    family = rng.choices(list(FAMILIES), weights)[0]
    draft = Draft.of(rng.choice(problems), rng.choice(problems), rng)
    response, committed = FAMILIES[family][1](draft)
    if committed is not None:
        return _paired(response, draft, family)
    golds = [draft.gold]
    if family in _UNCOMMITTED:  # a number's presence proves nothing
        golds += [n for n in rng.sample(numbers_in(response) or golds, 1) if n not in golds]
    return [
        Example(response, gold_text(gold, rng), False, family, answered=False) for gold in golds
    ]


def make_bare(problems: Sequence[Problem], rng: Random) -> list[Example]:
    """An answer without working."""
    draft = Draft.of(rng.choice(problems), rng.choice(problems), rng)
    return _paired(draft.closing(), draft, "bare")


def make_first(rng: Random) -> list[Example]:
    """An integer in a few wordings, for learning the comparison."""
    stated = rng.randint(1, 999)
    misses = {abs(stated + step) for step in (-1, 1, 10, -10, 2, 5, 9 * stated, stated)}
    golds = [stated, *rng.sample(sorted(misses - {stated}), 1)]
    response = rng.choice(TEXTS["first"]).format(s=stated)
    return [Example(response, str(gold), gold == stated, "first") for gold in golds]


def _paired(response: str, draft: Draft, family: str) -> list[Example]:
    rng, stated = draft.rng, draft.stated
    alike = [value for value in lookalikes(response[-300:]) if value != stated]
    chance = rng.random()
    if alike and chance < 0.55:  # the last number tempts most
        other = alike[-1] if chance < 0.25 else rng.choice(alike)
    else:
        other = draft.gold
    golds = [stated, other]
    if rng.random() < 0.1:
        golds.append(draft.other())
    return [Example(response, gold_text(gold, rng), gold == stated, family) for gold in golds]
