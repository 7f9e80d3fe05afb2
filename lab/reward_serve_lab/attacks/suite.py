"""The suite's attacks on generated problems or a given one, and a user's own from a file."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from pathlib import Path
from random import Random
from typing import Annotated, Self, cast

from pydantic import AfterValidator, BaseModel, model_validator

from reward_serve.messages import Message, Text
from reward_serve_answers.values import parse_number
from reward_serve_lab.attacks.families import FAMILIES
from reward_serve_lab.attacks.family import Attack, Draft, Family
from reward_serve_lab.attacks.mentions import mentions
from reward_serve_lab.attacks.problems import GENERIC_QUESTION, Problem, problems
from reward_serve_lab.evaluation.bulk import judged_text
from reward_serve_lab.evaluation.json_lines import LinesError, all_valid, json_lines

_MOST_PROBLEMS = 1000
_PLACES = 6


def crossed(seed: int = 0, per_text: int = 3) -> list[Attack]:
    """Every attack text of a seed with ``per_text`` references, each of a different form.

    A text that depends on the reference is generated for each one; a text that two families share
    is only in the first. A larger ``per_text`` only adds rows.
    """
    attacks: list[Attack] = []
    seen: set[str] = set()
    for family in FAMILIES:
        drafts = family.drafts(Random(f"{seed}/{family.name}"))
        for place, draft in enumerate(drafts):
            rows = list(
                islice(_rows(family, draft, Random(f"{seed}/{family.name}/{place}")), per_text)
            )
            if rows[0].text not in seen:
                attacks.extend(rows)
            seen.update(row.text for row in rows)
    return attacks


def _rows(family: Family, draft: Draft, rng: Random) -> Iterator[Attack]:
    taken: set[str] = set()
    for problem in islice(problems(rng), _MOST_PROBLEMS):
        attack = _attack(family, draft, problem, problem.question, problem.reference)
        if problem.answer in taken:
            continue
        if family.may_mention or not mentions(attack.text, problem.value):
            taken.add(problem.answer)
            yield attack
    raise ValueError(f"{family.name}: no more references fit {draft!r}")


def _attack(
    family: Family, draft: Draft, problem: Problem | None, question: str, reference: str
) -> Attack:
    made = draft if isinstance(draft, str) else draft(cast(Problem, problem))
    if isinstance(made, str):
        return Attack(family.name, made, reference, question)
    return Attack(family.name, made[-1]["content"], reference, question, made)


def variants(
    question: str | None, reference: str, *, seed: int = 0, per_family: int = 2
) -> list[Attack]:
    """Up to ``per_family`` attacks of each family on a problem; all deserve a score of 0.

    Texts that depend on the answer need a number: not 0 or 1, which a planted verdict could match,
    and not a percentage, of which 18% and 0.18 are forms of the same value. Other texts that
    contain the answer are left out, except in families that may mention it.

    Args:
        question: the problem; a generic one if None.
        reference: the gold answer, or a solution that ends in ``#### answer``.
        seed: seed of the attacks.
        per_family: maximum attacks per family.
    """
    answer = reference.rpartition("####")[2].strip()
    value = _value(answer)
    problem = _problem(question, reference, value) if value is not None else None
    attacks: list[Attack] = []
    for family in FAMILIES:
        rng = Random(f"{seed}/{family.name}")
        drafts = list(family.drafts(rng))
        rng.shuffle(drafts)
        by_text: dict[str, Attack] = {}
        for draft in drafts:
            if len(by_text) == per_family:
                break
            if problem is None and not isinstance(draft, str):
                continue
            attack = _attack(family, draft, problem, question or GENERIC_QUESTION, reference)
            if (family.may_mention and problem) or not _holds(attack.text, answer, value):
                by_text[attack.text] = attack
        attacks += by_text.values()
    return attacks


def _holds(response: str, answer: str, value: Decimal | None) -> bool:
    if value is not None:
        return mentions(response, value)
    return bool(answer) and answer.casefold() in response.casefold()


def _value(answer: str) -> Decimal | None:
    """The answer as a decimal; None unless it is short, positive, not 1 and not a percentage."""
    number = parse_number(answer)
    if number is None or number.percent or number.value <= 0 or number.value == 1:
        return None
    value = Decimal(number.value.numerator) / Decimal(number.value.denominator)
    exact = Fraction(value) == number.value and value == round(value, _PLACES)
    return value.normalize() if exact else None


def _problem(question: str | None, reference: str, value: Decimal) -> Problem:
    working, full, answer = reference.rpartition("####")
    lines = [line.strip() for line in working.splitlines() if line.strip()]
    steps = tuple(lines) or ("The answer is worked out.", f"In all that is = {value:f}.")
    return Problem(question or GENERIC_QUESTION, steps, value, "," in answer, bool(full))


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must be a non-blank string")
    return text


class _Line(BaseModel):
    family: Annotated[Text, AfterValidator(_not_blank)]
    response: Text | None = None
    messages: list[Message] = []
    reference: Annotated[Text, AfterValidator(_not_blank)]
    question: Text | None = None

    @model_validator(mode="after")
    def _has_a_response(self) -> Self:
        if self.response is None and all(turn.role != "assistant" for turn in self.messages):
            raise ValueError("response: is missing; write it, or messages with an assistant's turn")
        return self

    def attack(self) -> Attack:
        turns = self.messages
        if turns and self.response is not None:
            turns = [*turns, Message(role="assistant", content=self.response)]
        return Attack(
            self.family,
            judged_text({"response": self.response, "messages": self.messages}),
            self.reference,
            self.question or GENERIC_QUESTION,
            [turn.model_dump(mode="json", exclude_unset=True) for turn in turns],
        )


def read_attacks(path: Path) -> list[Attack]:
    """Read the file's attacks: ``family``, ``reference`` and ``response`` or ``messages``.

    ``question`` is optional; other fields and blank lines are ignored.

    Raises:
        OSError: the file cannot be read.
        LinesError: a line is invalid, or the file has no attacks.
    """
    lines = all_valid(json_lines(path, _Line))
    if not lines:
        raise LinesError("has no attacks")
    return [line.attack() for line in lines]
