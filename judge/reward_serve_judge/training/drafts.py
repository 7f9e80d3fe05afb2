"""The parts of a response: a problem's working, the stated value, and its wording.

The stated value and the reference are drawn independently of the working. So neither a number's
presence nor consistent working reveals the label; only the equality of the two does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Generic, TypeVar

from reward_serve_judge.training.answers.base import A, Answer, near_miss
from reward_serve_judge.training.answers.numbers import Number, invented, numbers_in, parse
from reward_serve_judge.training.sentences import bare, carriers, givens
from reward_serve_judge.training.texts import (
    CLOSINGS,
    GENERAL,
    GENERAL_SHAPES,
    KINDS,
    LANGUAGES,
    SAID_FOREIGN,
    SHAPES,
    TEX,
    TEXTS,
)

A_co = TypeVar("A_co", bound=Answer, covariant=True)
Ending = tuple[str, Answer | None]
"""A response and the value it commits to, if any."""

_AS_FORMULA = frozenset(["formula", "tuple", "set", "interval"])
_FEW = 3  # near misses that the working of an answer other than a number may mention
SHORT_SHAPES = ("label", "bare", "markdown", "hash", "box", "prose", "sentence")
_DECIMAL_COMMA = frozenset(["es", "de", "fr", "pt", "it", "nl", "pl", "ru", "sv", "tr"])


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem, the lines of its solution, and its final answer."""

    question: str
    lines: tuple[str, ...]
    answer: Number

    @classmethod
    def from_row(cls, row: dict[str, str]) -> Problem:
        """Parse a row of GSM8K.

        Raises:
            ValueError: the solution does not end in a number.
        """
        solution, _, answer = row["answer"].rpartition("####")
        lines = tuple(line.strip() for line in solution.splitlines() if line.strip())
        return cls(row["question"].strip(), lines, parse(answer))


@dataclass(frozen=True, slots=True)
class Draft(Generic[A_co]):
    """The parts of a response.

    Attributes:
        problem: the problem whose working it shows.
        stated: the value that it commits to.
        gold: the reference's value.
        nearby: other answers that the working may mention, such as the problem's numbers.
        rng: random generator.
        elsewhere: another problem, to borrow sentences from.
    """

    problem: Problem
    stated: A_co
    gold: A_co
    nearby: Sequence[Answer]
    rng: Random
    elsewhere: Problem

    def other(self) -> Answer:
        """A value that is neither the stated one nor the reference's."""
        return near_miss(self.gold, self.rng, self.nearby, but=[self.stated])

    def decoy(self) -> Answer:
        """A value for working and talk, often the reference's; never the stated one."""
        rng = self.rng
        return self.gold if rng.random() < 0.4 or not self.nearby else rng.choice(self.nearby)

    def body(self, most_lines: int | None = None) -> str:
        """Some of the working's last lines, usually adapted to the stated value."""
        rng = self.rng
        if not isinstance(self.stated, Number):
            return self._steps()
        if self.stated.percent and rng.random() < 0.3:
            return self._ratio(self.stated)
        lines = list(self.problem.lines)
        chance = rng.random()
        keep = 0 if chance < 0.45 else len(lines) if chance > 0.9 else rng.randint(1, 2)
        if most_lines is not None:
            keep = min(keep, most_lines)
        text = "\n".join(lines[max(0, len(lines) - keep) :])
        if rng.random() < 0.7:
            text = bare(text)
        if rng.random() < 0.3:
            text = text.replace("\n", rng.choice((" ", "\n\n", "\n- ")))
        return self.restated(text) if rng.random() < 0.65 else text

    def _steps(self) -> str:
        steps = self.rng.sample(KINDS["workings"], self.rng.choice((0, 0, 1, 1, 2, 3)))
        return self.rng.choice((" ", "\n")).join(map(self.filled, steps))

    def _ratio(self, stated: Number) -> str:
        """A ratio that equals the stated percentage: "14/40 = 0.35."."""
        whole = self.rng.choice((8, 20, 40, 50, 60, 80, 200, 250, 400))
        part = Number(stated.number * whole / 100).digits(self.rng)
        decimal = Number(stated.number / 100).digits(self.rng)
        return self.rng.choice(TEXTS["ratios"]).format(part=part, whole=whole, decimal=decimal)

    def restated(self, text: str) -> str:
        """The text with the problem's answer replaced by the stated value."""
        answer = self.problem.answer.decimal
        if answer is None or not text:
            return text
        whole, point, rest = answer.partition(".")
        grouped = f"{int(whole):,}{point}{rest}"
        either = f"{re.escape(answer)}|{re.escape(grouped)}"
        pattern = rf"(?<![\d.,])(?:{either})(?:\.0+)?(?![\d]|[.,]\d)"
        return re.sub(pattern, lambda _: self.stated.plain(self.rng), text)

    def closing(self, shape: str | None = None, value: Answer | None = None) -> str:
        """An ending that commits to a value.

        Args:
            shape: the closing's shape; random by default.
            value: the value; the stated value by default.
        """
        rng, value = self.rng, value or self.stated
        if not isinstance(value, Number):
            return self._general(shape, value)
        shape = shape or rng.choices(list(SHAPES), list(SHAPES.values()))[0]
        if shape == "language":
            return self._foreign(value)
        if shape == "sentence":
            text = value.plain(rng) if rng.random() < 0.6 else value.written(rng)
            return self.in_sentence(text) or self.closing("prose", value)
        text = value.written(rng, tex=shape in TEX)
        return self.filled(rng.choice(CLOSINGS[shape]), s=text)

    def _general(self, shape: str | None, value: Answer) -> str:
        """An ending that commits to an answer other than a number."""
        rng = self.rng
        shape = shape or rng.choices(list(GENERAL_SHAPES), list(GENERAL_SHAPES.values()))[0]
        if shape == "language":
            lang = rng.choice(list(SAID_FOREIGN))
            return self.filled(rng.choice(SAID_FOREIGN[lang]), s=value.written(rng, lang=lang))
        tex = shape == "box" or (value.kind in _AS_FORMULA and rng.random() < 0.35)
        text = value.written(rng, tex=tex)
        if tex and shape != "box":
            text = rng.choice(("${}$", "${}$", r"\({}\)")).format(text)
        return self.filled(rng.choice(GENERAL.get(shape, GENERAL["said"])), s=text)

    def _foreign(self, value: Number) -> str:
        rng = self.rng
        lang = rng.choices(list(LANGUAGES), [len(forms) for forms in LANGUAGES.values()])[0]
        form = rng.choice(LANGUAGES[lang])
        decimal = value.decimal
        if decimal and "." in decimal and lang in _DECIMAL_COMMA and rng.random() < 0.4:
            return self.filled(form, s=decimal.replace(".", ","))
        return self.filled(form, s=value.written(rng, lang=lang))

    def in_sentence(self, text: str) -> str | None:
        """A sentence of a problem with its number replaced by the text; None without a number."""
        rng = self.rng
        source = self.problem if rng.random() < 0.5 else self.elsewhere
        frames = carriers(source.lines)
        if rng.random() < 0.2:
            frames = givens(source.question) or frames
        if not frames:
            return None
        before, after = rng.choice(frames[-2:])
        if not re.match(r"[a-z ]*[\d.,/]+$", text):  # the text has its own "$" or unit
            before = before.removesuffix("$")
        if rng.random() < 0.2:
            before = re.sub(r"^(?:So|Thus|Therefore|Then|Hence|In total),? *", "", before)
        if text[0].isdigit() and before.endswith(" ") and rng.random() < 0.08:
            before += rng.choice(TEXTS["modifiers"]) + " "
        if rng.random() < 0.12:
            after = f"{after.rstrip('.')} {rng.choice(TEXTS['tails'])}."
        lead = rng.choice(TEXTS["leads"]) if rng.random() < 0.3 else ""
        return lead + before + text + (after.rstrip(".") if rng.random() < 0.15 else after)

    def filled(self, form: str, **texts: str) -> str:
        """The form, with its distracting numbers, its decoy and its unit filled in."""
        stated = self.stated.decimal if isinstance(self.stated, Number) else None
        slots = {slot: self._distraction() for slot in "mnk"}
        slots = {k: f"{v}1" if v == stated else v for k, v in slots.items()}
        slots["u"] = self.rng.choice(TEXTS["units"])
        if "{o}" in form:
            slots["o"] = self.decoy().plain(self.rng)
        return form.format(**(slots | texts))

    def _distraction(self) -> str:
        rng, chance, gold = self.rng, self.rng.random(), self.gold
        if isinstance(gold, Number):
            if chance < 0.2 and not gold.percent:
                return gold.digits(rng)
            if chance < 0.35 and self.nearby:
                return rng.choice(self.nearby).plain(rng)
        return str(rng.randint(2, 10 ** rng.choice((1, 1, 2, 2, 3))))

    def joined(self, *parts: str) -> str:
        """The non-empty parts, on separate lines or on one line."""
        link = self.rng.choice(("\n", "\n", "\n\n", " "))
        return link.join(part for part in parts if part)


def of_number(problem: Problem, elsewhere: Problem, rng: Random) -> Draft[Number]:
    """A random draft whose answer is a number: the problem's, or one of another kind."""
    base = problem.answer if rng.random() < 0.55 else invented(rng)
    nearby = [v for v in numbers_in(" ".join(problem.lines)) if v != base]
    stated, gold = _parted(base, near_miss(base, rng, nearby), rng)
    return Draft(problem, stated, gold, nearby, rng, elsewhere)


def of_answer(answer: Answer, problem: Problem, elsewhere: Problem, rng: Random) -> Draft[Answer]:
    """A random draft for an answer of any kind."""
    stated, gold = _parted(answer, near_miss(answer, rng), rng)
    nearby = [miss for _ in range(_FEW) if (miss := answer.miss(rng, ())) not in (None, stated)]
    return Draft(problem, stated, gold, [miss for miss in nearby if miss], rng, elsewhere)


def _parted(base: A, miss: A, rng: Random) -> tuple[A, A]:
    """Stated value and reference: stating the problem's own answer must not reveal the label."""
    return (base, miss) if rng.random() < 0.5 else (miss, base)
