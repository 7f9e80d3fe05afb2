"""The type of an answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from random import Random
from typing import ClassVar, TypeVar, cast

_TRIES = 200


class Answer(ABC):
    """A value, whatever its notation: two answers are equal if a judge should accept either.

    Attributes:
        kind: the kind of answer, as in reports.
    """

    __slots__ = ()
    kind: ClassVar[str]

    @abstractmethod
    def written(self, rng: Random, *, tex: bool = False, lang: str = "en") -> str:
        """The answer in one of the notations that a response may use.

        Args:
            rng: random generator.
            tex: write it as LaTeX, for a formula.
            lang: language of words; unsupported languages get English or digits.
        """

    @abstractmethod
    def reference(self, rng: Random) -> str:
        """The answer as a reference."""

    def plain(self, rng: Random) -> str:
        """The answer in a short notation, for lists of candidates; by default as a reference."""
        return self.reference(rng)

    @abstractmethod
    def miss(self, rng: Random, others: Sequence[Answer]) -> Answer | None:
        """An answer of the same kind that is easily confused with this one; None to try again.

        Args:
            rng: random generator.
            others: nearby answers, such as intermediate results.
        """


A = TypeVar("A", bound=Answer)


def near_miss(
    answer: A, rng: Random, others: Sequence[Answer] = (), *, but: Sequence[Answer] = ()
) -> A:
    """A near miss that equals neither the answer nor any of ``but``.

    Raises:
        ValueError: none was found.
    """
    for _ in range(_TRIES):
        miss = answer.miss(rng, others)
        if miss is not None and miss != answer and miss not in but:
            return cast("A", miss)
    raise ValueError(f"no near miss of {answer}, other than {list(but)}")
