"""Answers of several elements: tuples, lists and sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import ClassVar

from typing_extensions import override

from reward_serve_judge.training.answers.base import Answer
from reward_serve_judge.training.answers.numerals import decimal
from reward_serve_judge.training.answers.words import misspelt
from reward_serve_judge.training.texts import KINDS

Element = Fraction | str
_NAMES = ("xyz", "abc", "mnp", "pqr")


def number(rng: Random) -> Fraction:
    """A small number, mostly an integer."""
    chance = rng.random()
    if chance < 0.75:
        return Fraction(rng.randint(-12, 30))
    if chance < 0.85:
        return Fraction(rng.randint(31, 400))
    return Fraction(rng.randint(-9, 19), rng.choice((2, 2, 3, 4, 5, 10)))


def _elements(rng: Random, count: int) -> tuple[Element, ...]:
    chance = rng.random()
    if chance < 0.65:
        return tuple(number(rng) for _ in range(count))
    if chance < 0.9:
        return tuple(rng.sample(KINDS["words"], count))
    return tuple(rng.sample(rng.choice(("ABCDEFGHKXYZ", "abcdefghkxyz", "ABCabcXxYyZz")), count))


def write_element(element: Element, tex: bool, words: str = "{}") -> str:
    """An element in digits, as a fraction, or as a word."""
    if isinstance(element, str):
        return rf"\text{{{element}}}" if tex and len(element) > 1 else words.format(element)
    text = decimal(element)
    top, bottom = element.numerator, element.denominator
    if bottom == 1 and text:
        return text
    if tex:
        return rf"{'-' if top < 0 else ''}\frac{{{abs(top)}}}{{{bottom}}}"
    return text if text and bottom in (5, 10) else f"{top}/{bottom}"


def _missed(elements: tuple[Element, ...], rng: Random) -> tuple[Element, ...]:
    """The elements with one changed, left out or added."""
    at, chance = rng.randrange(len(elements)), rng.random()
    old = elements[at]
    if chance < 0.15 and len(elements) > 2:
        return (*elements[:at], *elements[at + 1 :])
    if chance < 0.25:
        return (*elements, number(rng) if isinstance(old, Fraction) else rng.choice(KINDS["words"]))
    if isinstance(old, str):
        new: Element = misspelt(old, rng) if chance < 0.4 else rng.choice(KINDS["words"])
    elif chance < 0.55 and old:
        new = -old
    else:
        new = rng.choice((old + 1, old - 1, number(rng), old * 10, old / 2))
    return (*elements[:at], new, *elements[at + 1 :])


@dataclass(frozen=True, slots=True)
class Ordered(Answer):
    """A tuple or a list: its order matters."""

    kind: ClassVar[str] = "tuple"
    elements: tuple[Element, ...]
    brackets: str = "()"

    @classmethod
    def pair(cls, rng: Random) -> Ordered:
        """A point of two or three coordinates."""
        return cls(tuple(number(rng) for _ in range(rng.choice((2, 2, 2, 3)))))

    @classmethod
    def list(cls, rng: Random) -> Ordered:
        """A list of two to seven elements."""
        return cls(_elements(rng, rng.randint(2, 7)), "[]")

    @override
    def written(self, rng: Random, *, tex: bool = False, lang: str = "en") -> str:
        chance = rng.random()
        words = rng.choice(("{}", "'{}'", '"{}"')) if self.brackets == "[]" else "{}"
        texts = [write_element(element, tex, words) for element in self.elements]
        left, right = tuple(self.brackets)
        if self.brackets == "()" and len(texts) < 4 and chance < 0.2:
            names = zip(rng.choice(_NAMES), texts, strict=False)
            return rng.choice((", ", ",", " and ")).join(
                f"{name}{rng.choice((' = ', '='))}{text}" for name, text in names
            )
        if tex and chance < 0.5:
            left, right = rf"\left{left}", rf"\right{right}"
        if self.brackets == "[]" and chance < 0.35 and not tex:
            link = rng.choice((", ", ", ", " → ", " -> ", "\n", "\n- ", " "))
            return self._cased(link.join(texts).replace("'", ""), rng)
        text = left + rng.choice((", ", ", ", ",")).join(texts) + right
        return self._cased(text, rng)

    def _cased(self, text: str, rng: Random) -> str:
        """The text, sometimes in another case if all elements have the same one."""
        together = "".join(element for element in self.elements if isinstance(element, str))
        if rng.random() > 0.1 or not (together.isupper() or together.islower()) or "\\" in text:
            return text
        return text.swapcase()

    @override
    def reference(self, rng: Random) -> str:
        return (
            self.brackets[0]
            + rng.choice((", ", ",")).join(
                write_element(element, False) for element in self.elements
            )
            + self.brackets[1]
        )

    @override
    def miss(self, rng: Random, others: Sequence[Answer]) -> Ordered:
        elements = self.elements
        if rng.random() < 0.35:
            first, other = sorted(rng.sample(range(len(elements)), 2))
            new = list(elements)
            new[first], new[other] = new[other], new[first]
            return Ordered(tuple(new), self.brackets)
        return Ordered(_missed(elements, rng), self.brackets)


@dataclass(frozen=True, slots=True)
class Unordered(Answer):
    """A set, or the solutions of an equation: in any order."""

    kind: ClassVar[str] = "set"
    elements: frozenset[Element]

    @classmethod
    def invented(cls, rng: Random) -> Unordered:
        """A set of two to five elements."""
        return cls(frozenset(_elements(rng, rng.choice((2, 2, 2, 3, 3, 4, 5)))))

    def _shuffled(self, rng: Random, tex: bool) -> list[str]:
        texts = sorted(write_element(element, tex) for element in self.elements)
        rng.shuffle(texts)
        return texts

    @override
    def written(self, rng: Random, *, tex: bool = False, lang: str = "en") -> str:
        texts, chance = self._shuffled(rng, tex), rng.random()
        numbers = not any(isinstance(element, str) for element in self.elements)
        if chance < 0.15 and numbers and len(texts) < 4:
            name, link = rng.choice("xnt"), r" \text{ or } " if tex else " or "
            return rng.choice((link, ", ")).join(f"{name} = {text}" for text in texts)
        if chance < 0.3 and not tex:
            return ", ".join(texts[:-1]) + rng.choice((" and ", ", and ")) + texts[-1]
        left, right = (r"\{", r"\}") if tex else ("{", "}")
        if chance < 0.5:
            left = right = ""
        return left + rng.choice((", ", ", ", ",")).join(texts) + right

    @override
    def reference(self, rng: Random) -> str:
        form = rng.choice(("{{{}}}", "{{{}}}", r"\{{{}\}}", "{}"))
        return form.format(rng.choice((", ", ",")).join(self._shuffled(rng, False)))

    @override
    def miss(self, rng: Random, others: Sequence[Answer]) -> Unordered:
        return Unordered(frozenset(_missed(tuple(sorted(self.elements, key=str)), rng)))
