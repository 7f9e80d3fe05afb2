"""Intervals, and unions of two."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import ClassVar

from typing_extensions import override

from reward_serve_judge.training.answers.base import Answer
from reward_serve_judge.training.answers.sequences import number, write_element


@dataclass(frozen=True, slots=True)
class Interval(Answer):
    """An interval; an end of None is infinite."""

    kind: ClassVar[str] = "interval"
    low: Fraction | None
    high: Fraction | None
    closed: tuple[bool, bool]

    @classmethod
    def invented(cls, rng: Random) -> Interval:
        """A random interval; one in three is infinite."""
        low = number(rng)
        high = low + abs(number(rng)) + 1
        closed = rng.random() < 0.5, rng.random() < 0.5
        chance = rng.random()
        if chance < 0.17:
            return cls(None, high, (False, closed[1]))
        return cls(low, None if chance < 0.34 else high, (closed[0], closed[1] and chance >= 0.34))

    @override
    def written(self, rng: Random, *, tex: bool = False, lang: str = "en") -> str:
        chance = rng.random()
        if chance < 0.3:
            return self.compared(rng, tex)
        text = self.bracketed(rng.choice((", ", ",")), tex, scaled=tex and chance < 0.6)
        return rf"x \in {text}" if tex and chance > 0.9 else text

    def bracketed(self, comma: str, tex: bool, scaled: bool = False) -> str:
        """With brackets, as in "[0, 1)"."""
        infinite = r"\infty" if tex else "∞"
        low = f"-{infinite}" if self.low is None else write_element(self.low, tex)
        high = infinite if self.high is None else write_element(self.high, tex)
        left, right = "[" if self.closed[0] else "(", "]" if self.closed[1] else ")"
        if scaled:
            left, right = rf"\left{left}", rf"\right{right}"
        return left + low + comma + high + right

    def compared(self, rng: Random, tex: bool) -> str:
        """As an inequality of x."""
        less = [rng.choice((r"\le", r"\leq")) if tex else rng.choice(("≤", "<=")), "<"]
        more = [rng.choice((r"\ge", r"\geq")) if tex else rng.choice(("≥", ">=")), ">"]
        if self.low is None and self.high is not None:
            return f"x {less[not self.closed[1]]} {write_element(self.high, tex)}"
        assert self.low is not None
        if self.high is None:
            return f"x {more[not self.closed[0]]} {write_element(self.low, tex)}"
        left, right = less[not self.closed[0]], less[not self.closed[1]]
        return f"{write_element(self.low, tex)} {left} x {right} {write_element(self.high, tex)}"

    @override
    def reference(self, rng: Random) -> str:
        if rng.random() < 0.15:
            return self.compared(rng, rng.random() < 0.5)
        return self.bracketed(rng.choice((", ", ",")), rng.random() < 0.5)

    @override
    def miss(self, rng: Random, others: Sequence[Answer]) -> Interval | None:
        low, high, (left, right), chance = self.low, self.high, self.closed, rng.random()
        if chance < 0.5:
            closed = rng.choice(((not left, right), (left, not right), (not left, not right)))
            ends = closed[0] and low is not None, closed[1] and high is not None
            return Interval(low, high, ends)
        move: Callable[[Fraction], Fraction] = rng.choice(
            (lambda end: end + 1, lambda end: end - 1, lambda end: -end, lambda end: number(rng))
        )
        if high is None or (low is not None and chance < 0.75):
            low = None if low is None else move(low)
        else:
            high = move(high)
        if low is not None and high is not None and low >= high:
            return None
        return Interval(low, high, self.closed)


@dataclass(frozen=True, slots=True)
class Union(Answer):
    """Two intervals, the lower one first; they do not meet."""

    kind: ClassVar[str] = "interval"
    low: Interval
    high: Interval

    @classmethod
    def invented(cls, rng: Random) -> Union:
        """A random union, mostly the solution of a quadratic inequality."""
        first, second = sorted(rng.sample(range(-15, 25), 2))
        closed = rng.choice((False, False, True))
        low, high = Interval(None, Fraction(first), (False, closed)), Fraction(second)
        if rng.random() < 0.25:
            low = Interval(Fraction(first - rng.randint(1, 9)), Fraction(first), (closed, closed))
        end = high + rng.randint(1, 9) if rng.random() < 0.25 else None
        return cls(low, Interval(high, end, (closed, closed and end is not None)))

    @override
    def written(self, rng: Random, *, tex: bool = False, lang: str = "en") -> str:
        chance = rng.random()
        if chance < 0.3:
            link = r" \text{ or } " if tex else " or "
            return link.join(part.compared(rng, tex) for part in (self.low, self.high))
        comma = rng.choice((", ", ","))
        link = rng.choice((r" \cup ", r"\cup")) if tex else rng.choice((" ∪ ", "∪", " U "))
        text = link.join(part.bracketed(comma, tex) for part in (self.low, self.high))
        return rf"x \in {text}" if tex and chance > 0.9 else text

    @override
    def reference(self, rng: Random) -> str:
        return self.written(rng, tex=rng.random() < 0.7)

    @override
    def miss(self, rng: Random, others: Sequence[Answer]) -> Union | None:
        low, high, chance = self.low, self.high, rng.random()
        if chance < 0.2:
            closed = not low.closed[1]
            low = Interval(low.low, low.high, (closed and low.low is not None, closed))
            high = Interval(high.low, high.high, (closed, closed and high.high is not None))
        elif chance < 0.6:
            low = low.miss(rng, others) or low
        else:
            high = high.miss(rng, others) or high
        if low.high is None or high.low is None or low.high >= high.low:
            return None
        return Union(low, high)
