"""The parts of a response: a problem's working, the stated value, and its wording.

The stated value and the reference are drawn independently of the working. So neither a number's
presence nor consistent working reveals the label; only the equality of the two does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from examples.train_judge.sentences import bare, carriers, givens
from examples.train_judge.texts import CLOSINGS, LANGUAGES, TEX, TEXTS
from examples.train_judge.values import (
    Value,
    digits,
    invented,
    near_miss,
    numbers_in,
    numeral,
    parse,
    written,
)

Ending = tuple[str, Value | None]
"""A response and the value it commits to, if any."""

_SHAPES = {
    "hash": 1.0,
    "label": 1.0,
    "box": 1.0,
    "tex": 0.9,
    "prose": 3.2,
    "bare": 0.9,
    "markdown": 1.1,
    "code": 1.0,
    "equation": 0.8,
    "language": 1.2,
    "contrast": 0.9,
    "sentence": 3.6,
}
SHORT_SHAPES = ("label", "bare", "markdown", "hash", "box", "prose", "sentence")
_DECIMAL_COMMA = frozenset(["es", "de", "fr", "pt", "it", "nl", "pl", "ru", "sv", "tr"])


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem, the lines of its solution, and its final answer."""

    question: str
    lines: tuple[str, ...]
    answer: Value

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
class Draft:
    """The parts of a response.

    Attributes:
        problem: the problem whose working it shows.
        stated: the value that it commits to.
        gold: the reference's value.
        nearby: numbers of the problem, as distractors.
        rng: random generator.
        elsewhere: another problem, to borrow sentences from.
    """

    problem: Problem
    stated: Value
    gold: Value
    nearby: Sequence[Value]
    rng: Random
    elsewhere: Problem

    @classmethod
    def of(cls, problem: Problem, elsewhere: Problem, rng: Random) -> Draft:
        """A random draft for the problem."""
        base = problem.answer if rng.random() < 0.55 else invented(rng)
        nearby = [v for v in numbers_in(" ".join(problem.lines)) if v != base]
        miss = near_miss(base, rng, nearby)
        # Stating the problem's own answer must not reveal the label.
        stated, gold = (base, miss) if rng.random() < 0.5 else (miss, base)
        return cls(problem, stated, gold, nearby, rng, elsewhere)

    def other(self) -> Value:
        """A value that is neither the stated one nor the reference's."""
        for _ in range(50):
            value = near_miss(self.gold, self.rng, self.nearby)
            if value not in (self.stated, self.gold):
                return value
        return Value(self.gold.number + self.stated.number + 12_345)

    def body(self, most_lines: int | None = None) -> str:
        """Some of the working's last lines, usually adapted to the stated value."""
        rng = self.rng
        if self.stated.percent and rng.random() < 0.3:
            return self._ratio()
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

    def _ratio(self) -> str:
        """A ratio that equals the stated percentage: "14/40 = 0.35."."""
        whole = self.rng.choice((8, 20, 40, 50, 60, 80, 200, 250, 400))
        part = digits(Value(self.stated.number * whole / 100), self.rng)
        decimal = digits(Value(self.stated.number / 100), self.rng)
        return self.rng.choice(TEXTS["ratios"]).format(part=part, whole=whole, decimal=decimal)

    def restated(self, text: str) -> str:
        """The text with the problem's answer replaced by the stated value."""
        own = self.problem.answer.decimal
        if own is None or not text:
            return text
        whole, point, rest = own.partition(".")
        grouped = f"{int(whole):,}{point}{rest}"
        either = f"{re.escape(own)}|{re.escape(grouped)}"
        pattern = rf"(?<![\d.,])(?:{either})(?:\.0+)?(?![\d]|[.,]\d)"
        return re.sub(pattern, lambda _: numeral(self.stated, self.rng), text)

    def closing(self, shape: str | None = None, value: Value | None = None) -> str:
        """An ending that commits to a value.

        Args:
            shape: the closing's shape; random by default.
            value: the value; the stated value by default.
        """
        rng, value = self.rng, value or self.stated
        shape = shape or rng.choices(list(_SHAPES), list(_SHAPES.values()))[0]
        if shape == "language":
            return self._foreign(value)
        if shape == "sentence":
            text = numeral(value, rng) if rng.random() < 0.6 else written(value, rng)
            return self.in_sentence(text) or self.closing("prose", value)
        text = written(value, rng, tex=shape in TEX)
        return self.filled(rng.choice(CLOSINGS[shape]), s=text)

    def _foreign(self, value: Value) -> str:
        rng = self.rng
        lang = rng.choices(list(LANGUAGES), [len(forms) for forms in LANGUAGES.values()])[0]
        form = rng.choice(LANGUAGES[lang])
        decimal = value.decimal
        if decimal and "." in decimal and lang in _DECIMAL_COMMA and rng.random() < 0.4:
            return self.filled(form, s=decimal.replace(".", ","))
        return self.filled(form, s=written(value, rng, lang=lang))

    def in_sentence(self, text: str) -> str | None:
        """A sentence of a problem with its number replaced by the text; None without a number."""
        rng = self.rng
        source = self.problem if rng.random() < 0.5 else self.elsewhere
        found = carriers(source.lines)
        if rng.random() < 0.2:
            found = givens(source.question) or found
        if not found:
            return None
        before, after = rng.choice(found[-2:])
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
        """The form, with its distracting numbers and its unit filled in."""
        slots = {slot: self._distraction() for slot in "mnk"}
        slots = {k: f"{v}1" if v == self.stated.decimal else v for k, v in slots.items()}
        slots["u"] = self.rng.choice(TEXTS["units"])
        return form.format(**(slots | texts))

    def _distraction(self) -> str:
        rng, chance = self.rng, self.rng.random()
        if chance < 0.2 and not self.gold.percent:
            return digits(self.gold, rng)
        if chance < 0.35 and self.nearby:
            return digits(rng.choice(list(self.nearby)), rng)
        return str(rng.randint(2, 10 ** rng.choice((1, 1, 2, 2, 3))))

    def joined(self, *parts: str) -> str:
        """The non-empty parts, on separate lines or on one line."""
        link = self.rng.choice(("\n", "\n", "\n\n", " "))
        return link.join(part for part in parts if part)
