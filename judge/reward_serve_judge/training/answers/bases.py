"""Numbers in another base than ten, which are equal to the same number in any base."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from typing_extensions import override

from reward_serve_judge.training.answers.base import Answer

_DIGITS = "0123456789ABCDEF"
_NAMES = {2: "binary", 8: "octal", 16: "hexadecimal", 10: "decimal"}
_PREFIXES = {2: "0b", 8: "0o", 16: "0x"}
_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


@dataclass(frozen=True, slots=True)
class Based(Answer):
    """An integer written in a base; the base is not compared.

    Attributes:
        number: the value.
        base: the base that it is mostly written in.
    """

    kind: ClassVar[str] = "base"
    number: int
    base: int

    def __eq__(self, other: object) -> bool:
        """Whether the values are equal."""
        return isinstance(other, Based) and other.number == self.number

    def __hash__(self) -> int:
        """Of the value."""
        return hash(self.number)

    @classmethod
    def invented(cls, rng: Random) -> Based:
        """A random number of two digits or more."""
        base = rng.choice((2, 2, 2, 3, 4, 5, 6, 7, 8, 8, 9, 12, 16, 16, 16))
        return cls(rng.randint(base, rng.choice((base**2, base**3, 1000))), base)

    @property
    def digits(self) -> str:
        """In the base, without saying which."""
        rest, out = self.number, ""
        while rest:
            rest, digit = divmod(rest, self.base)
            out = _DIGITS[digit] + out
        return out or "0"

    @override
    def written(self, rng: Random, *, tex: bool = False, lang: str = "en") -> str:
        if rng.random() < 0.15:
            return Based(self.number, 10).written(rng, tex=tex) if self.base != 10 else self.digits
        digits, base = self.digits, self.base
        forms = [f"{digits}_{{{base}}}", f"({digits})_{{{base}}}", rf"{digits}_{{\text{{{base}}}}}"]
        if not tex:
            forms += [f"{digits}_{base}", f"({digits})_{base}", f"{digits} in base {base}"]
            forms += [f"{digits} (base {base})", digits + str(base).translate(_SUBSCRIPTS)]
            if base in _NAMES:
                forms += [f"{digits} in {_NAMES[base]}", f"{digits} ({_NAMES[base]})"]
        if base in _PREFIXES:
            cased = digits.lower() if rng.random() < 0.4 else digits
            forms += [_PREFIXES[base] + cased] * len(forms)
        return rng.choice(forms)

    @override
    def reference(self, rng: Random) -> str:
        forms = [f"{self.digits}_{{{self.base}}}", f"{self.digits}_{self.base}"]
        if self.base in _PREFIXES:
            forms.append(_PREFIXES[self.base] + self.digits)
        return rng.choice(forms)

    @override
    def miss(self, rng: Random, others: Sequence[Answer]) -> Based | None:
        chance = rng.random()
        if chance < 0.35:  # the same digits in another base
            base = rng.choice((2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16))
            try:
                return Based(int(self.digits, base), base)
            except ValueError:
                return None
        if chance < 0.6:
            return Based(self.number + rng.choice((-1, 1, self.base, -self.base, 2)), self.base)
        if chance < 0.7:
            return Based(self.number + rng.choice((-1, 1, 10)), 10)
        digits = list(self.digits)
        digits[rng.randrange(len(digits))] = _DIGITS[rng.randrange(self.base)]
        return Based(int("".join(digits), self.base), self.base)
