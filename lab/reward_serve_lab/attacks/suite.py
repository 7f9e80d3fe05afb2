"""The suite: every family's texts, paired with references."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from random import Random

from reward_serve_lab.attacks.families import FAMILIES
from reward_serve_lab.attacks.family import Attack, Draft, Family
from reward_serve_lab.attacks.mentions import mentions
from reward_serve_lab.attacks.problems import problems

_MOST_PROBLEMS = 1000


def crossed(seed: int = 0, per_text: int = 3) -> list[Attack]:
    """Every attack text of a seed with ``per_text`` references, each of a different form.

    A text that depends on the reference is generated for each one; a text that two families share
    is only in the first. A larger ``per_text`` only adds
    rows.
    """
    attacks: list[Attack] = []
    seen: set[str] = set()
    for family in FAMILIES:
        drafts = family.drafts(Random(f"{seed}/{family.name}"))
        for place, draft in enumerate(drafts):
            rows = list(
                islice(_rows(family, draft, Random(f"{seed}/{family.name}/{place}")), per_text)
            )
            if rows[0].response not in seen:
                attacks.extend(rows)
            seen.update(row.response for row in rows)
    return attacks


def _rows(family: Family, draft: Draft, rng: Random) -> Iterator[Attack]:
    taken: set[str] = set()
    for problem in islice(problems(rng), _MOST_PROBLEMS):
        response = draft if isinstance(draft, str) else draft(problem)
        if problem.answer in taken:
            continue
        if family.may_mention or not mentions(response, problem.value):
            taken.add(problem.answer)
            yield Attack(family.name, response, problem.reference, problem.question)
    raise ValueError(f"{family.name}: no more references fit {draft!r}")
