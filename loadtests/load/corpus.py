"""Requests built from labelled responses, each with a mark that makes it new to every cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from loadtests.load.shapes import Bursts
from reward_serve_lab.evaluation.bulk import Row, read_rows

Body = dict[str, Any]

_TAIL = 160
"""Characters. The mark stands here, since a judge may see only a response's last 96 tokens."""
# No digits, which rules read, and no vowels, which make words ("jk" alone retracts an answer).
_LETTERS = "bcdfghjkmnpqrstvwxz"


@dataclass(frozen=True)
class Sample:
    """One request.

    Attributes:
        input: a number that equal inputs share.
        body: the request as sent.
        correct: the row's label, if it has one.
    """

    input: int
    body: Body
    correct: bool | None


@dataclass(frozen=True)
class Call:
    """Samples sent in one call.

    Attributes:
        due_s: seconds from the start of the run.
        samples: the requests.
    """

    due_s: float
    samples: list[Sample]


class Rollouts:
    """Groups of samples drawn from rows.

    Args:
        rows: labelled rows; those with equal question and reference form a group.
        rng: draws prompts and responses.
        run: prefix of every id and mark; letters.
        timeout_s: each request's deadline.
        repeats: share of samples that repeat an earlier one of their group.

    Raises:
        ValueError: there are no rows, or one is invalid.
    """

    def __init__(
        self, rows: Sequence[Row], rng: Random, run: str, timeout_s: float, repeats: float = 0.0
    ) -> None:
        self._prompts = list(_by_prompt(rows).values())
        if not self._prompts:
            raise ValueError("data: has no rows")
        if not 0 <= repeats < 1:
            raise ValueError(f"repeats: {repeats:g}; must be at least 0 and below 1")
        self._rng, self._run = rng, run
        self._timeout_s, self._repeats = timeout_s, repeats
        self._groups = self._inputs = self._samples = 0

    def group(self, size: int) -> list[Sample]:
        """Draw a prompt and ``size`` samples of it."""
        self._groups += 1
        key = f"{self._run}-{self._groups}"
        responses = self._rng.choice(self._prompts)
        made: list[Sample] = []
        for _ in range(size):
            if made and self._rng.random() < self._repeats:
                made.append(self._asked(key, self._rng.choice(made)))
            else:
                made.append(self._asked(key, self._new(self._rng.choice(responses))))
        return made

    def bursts(self, bursts: Bursts, duration_s: float, size: int) -> list[Call]:
        """Every call of a run in order, each due when its last rollout has ended.

        Args:
            bursts: sizes and times of the batches.
            duration_s: duration of the run.
            size: maximum samples per call.

        Raises:
            ValueError: no batch fits into the run.
        """
        calls = []
        for start in bursts.starts(duration_s):
            samples = [
                sample for _ in range(bursts.prompts) for sample in self.group(bursts.samples)
            ]
            ended = sorted(zip(bursts.ends(self._rng), samples, strict=True), key=lambda e: e[0])
            for first in range(0, len(ended), size):
                together = ended[first : first + size]
                due_s = start + together[-1][0]
                calls.append(Call(due_s, [sample for _, sample in together]))
        return sorted(calls, key=lambda call: call.due_s)

    def _new(self, row: Row) -> Sample:
        assert row.request is not None
        self._inputs += 1
        response = marked(row.request["response"], self._run + letters(self._inputs))
        return Sample(self._inputs, {**row.request, "response": response}, row.correct)

    def _asked(self, group: str, sample: Sample) -> Sample:
        self._samples += 1
        own = {
            "id": f"{self._run}-{self._samples}",
            "group": group,
            "metadata": {"run": self._run, "sample": self._samples},
            "timeout_s": self._timeout_s,
        }
        return Sample(sample.input, {**sample.body, **own}, sample.correct)


def rows_of(path: Path) -> list[Row]:
    """Read a file's rows.

    Raises:
        ValueError: the file cannot be read.
    """
    try:
        return read_rows(path)
    except OSError as error:
        raise ValueError(f"data: {error}") from error


def marked(response: str, mark: str) -> str:
    """Insert a mark at a space within the response's tail, or before a short response."""
    at = response.find(" ", max(0, len(response) - _TAIL))
    if len(response) <= _TAIL or at < 0:
        return f"({mark}) {response}"
    return f"{response[:at]} ({mark}){response[at:]}"


def letters(number: int) -> str:
    """A number written in consonants."""
    made = ""
    while number:
        number, digit = divmod(number, len(_LETTERS))
        made = _LETTERS[digit] + made
    return made or _LETTERS[0]


def _by_prompt(rows: Sequence[Row]) -> dict[str, list[Row]]:
    prompts: dict[str, list[Row]] = {}
    for row in rows:
        if row.request is None:
            raise ValueError(f"data: line {row.line}: {row.fault}")
        if not isinstance(row.request["response"], str):
            raise ValueError(f"data: line {row.line}: response: must be text")
        key = repr((row.request.get("question"), row.request.get("reference")))
        prompts.setdefault(key, []).append(row)
    return prompts
