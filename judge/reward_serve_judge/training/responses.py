"""Labelled training examples: a response, a reference, and whether they agree.

A response that commits to a value is paired with equal and different references, so that only the
comparison reveals the label.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from reward_serve_judge.training import committed, uncommitted
from reward_serve_judge.training.answers.base import Answer
from reward_serve_judge.training.answers.kinds import drawn
from reward_serve_judge.training.answers.numbers import Number, lookalikes, numbers_in
from reward_serve_judge.training.drafts import A_co, Draft, Ending, Problem, of_answer, of_number
from reward_serve_judge.training.texts import TEXTS

GENERAL: Mapping[str, tuple[float, Callable[[Draft[Answer]], Ending]]] = {
    "plain": (0.14, committed.plain),
    "chatter": (0.10, committed.chatter),
    "answer_first": (0.09, committed.answer_first),
    "retraction": (0.10, committed.retraction),
    "taken_back": (0.11, uncommitted.taken_back),
    "double": (0.12, committed.double),
    "restated": (0.09, committed.restated),
    "long_tail": (0.08, committed.long_tail),
    "middle": (0.07, committed.middle),
    "run_on": (0.04, committed.run_on),
    "hedge": (0.05, uncommitted.hedge),
    "cut_off": (0.04, uncommitted.cut_off),
    "cut_after": (0.02, committed.cut_after),
    "question": (0.03, committed.question),
    "repeated": (0.02, committed.repeated),
    "no_answer": (0.03, uncommitted.no_answer),
    "thinking": (0.04, committed.thinking),
    "unfinished": (0.02, uncommitted.unfinished),
    "attack": (0.08, uncommitted.attacked),
}
"""Families for answers of any kind, with their weights."""
NUMERIC: Mapping[str, tuple[float, Callable[[Draft[Number]], Ending]]] = {
    **GENERAL,
    "last_line": (0.12, committed.last_line),
    "converted": (0.04, committed.converted),
    "calculation": (0.025, committed.calculation),
    "listed": (0.025, committed.listed),
    "expression": (0.06, committed.expression),
    "bound": (0.06, uncommitted.bound),
    "obscured": (0.02, uncommitted.obscured),
}
"""Families for numbers, with their weights."""
UNCOMMITTED = frozenset(["cut_off", "question", "no_answer", "unfinished"])
"""Families whose text may mention a value without committing to it."""
_NUMBERS, _TASKS = 0.42, 0.16  # shares of responses; the rest are of generated kinds
_MENTIONED = UNCOMMITTED | {"attack"}


@dataclass(frozen=True, slots=True)
class Material:
    """What examples are made of.

    Attributes:
        problems: problems whose working and sentences may be used.
        tasks: answers of reasoning-gym's tasks.
    """

    problems: Sequence[Problem]
    tasks: Sequence[Answer] = field(default=())


@dataclass(frozen=True, slots=True)
class Example:
    """A response and a reference.

    Attributes:
        response: the response.
        reference: the final answer.
        correct: whether the two agree.
        family: the response's family.
        answered: whether the response commits to a value.
        kind: the answer's kind.
    """

    response: str
    reference: str
    correct: bool
    family: str
    answered: bool = True
    kind: str = "number"


def make(material: Material, rng: Random) -> list[Example]:
    """One response, paired with wrong references and, if it commits to a value, the right one."""
    if rng.random() < _NUMBERS:
        return in_a_family(_numeric(material, rng), NUMERIC)
    return in_a_family(_general(material, rng), GENERAL)


def make_bare(material: Material, rng: Random) -> list[Example]:
    """An answer without working."""
    number = rng.random() < _NUMBERS
    draft: Draft[Answer] = _numeric(material, rng) if number else _general(material, rng)
    return _paired(draft.closing(), draft, "bare")


def make_first(rng: Random) -> list[Example]:
    """An integer in a few wordings, for learning the comparison."""
    stated = rng.randint(1, 999)
    misses = {abs(stated + step) for step in (-1, 1, 10, -10, 2, 5, 9 * stated, stated)}
    golds = [stated, *rng.sample(sorted(misses - {stated}), 1)]
    response = rng.choice(TEXTS["first"]).format(s=stated)
    return [Example(response, str(gold), gold == stated, "first") for gold in golds]


def in_a_family(
    draft: Draft[A_co], families: Mapping[str, tuple[float, Callable[[Draft[A_co]], Ending]]]
) -> list[Example]:
    """The draft as a response of a random family, paired with references."""
    rng = draft.rng
    family = rng.choices(list(families), [weight for weight, _ in families.values()])[0]
    response, value = families[family][1](draft)
    if value is None and family in _MENTIONED and _mentioned(draft.gold, response):
        family, (response, value) = (
            "plain",
            committed.plain(draft),
        )  # "No" may be a refusal, or "no"
    if value is not None:
        return _paired(response, draft, family)
    golds: list[Answer] = [draft.gold]
    if family == "double":  # either of its values
        golds.append(draft.stated)
    elif family in UNCOMMITTED:  # a number's presence proves nothing
        others: Sequence[Answer] = numbers_in(response) or golds
        golds += [other for other in rng.sample(others, 1) if other not in golds]
    return [
        Example(response, gold.reference(rng), False, family, answered=False, kind=gold.kind)
        for gold in golds
    ]


def _numeric(material: Material, rng: Random) -> Draft[Number]:
    problem, elsewhere = rng.choice(material.problems), rng.choice(material.problems)
    return of_number(problem, elsewhere, rng)


def _general(material: Material, rng: Random) -> Draft[Answer]:
    use_task = material.tasks and rng.random() < _TASKS / (1 - _NUMBERS)
    answer = rng.choice(material.tasks) if use_task else drawn(rng)
    return of_answer(answer, rng.choice(material.problems), rng.choice(material.problems), rng)


def _mentioned(gold: Answer, response: str) -> bool:
    """Whether a text that commits to nothing has the reference as one of its words."""
    if isinstance(gold, Number):
        return False
    text = re.escape(gold.reference(Random(0)).strip("()").rstrip(")"))
    return bool(re.search(rf"(?<!\w){text}(?!\w)", response, re.IGNORECASE))


def _paired(response: str, draft: Draft[Answer], family: str) -> list[Example]:
    rng, stated = draft.rng, draft.stated
    alike: Sequence[Answer] = draft.nearby
    if isinstance(stated, Number) and family != "converted":  # 0.54 km is as right as 540 meters
        alike = [value for value in lookalikes(response[-300:]) if value != stated]
    chance = rng.random()
    if alike and chance < 0.55:  # the last number tempts most
        other = alike[-1] if chance < 0.25 else rng.choice(alike)
    else:
        other = draft.gold
    golds = [stated, other]
    if rng.random() < 0.1:
        golds.append(draft.other())
    return [
        Example(response, gold.reference(rng), gold == stated, family, kind=stated.kind)
        for gold in golds
    ]
