"""Requests built from labelled responses, each with a mark that makes it new to every cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from reward_serve_lab.evaluation.bulk import Row, read_rows

Body = dict[str, Any]

MEDIAN_CHARS = 32 * 1024
LONGEST_CHARS = 128 * 1024
_LONG_SIGMA = 0.8
_LONG_RESPONSES = 8
_ROLLOUT_SIGMA = 0.5

_TAIL = 160
"""Characters. The mark stands here, since a judge may see only a response's last 96 tokens."""
# No digits, which rules read, and no vowels, which make words ("jk" alone retracts an answer).
_LETTERS = "bcdfghjkmnpqrstvwxz"


@dataclass(frozen=True)
class Sample:
    """One request.

    Attributes:
        body: the request as sent.
        correct: the row's label, if it has one.
    """

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


@dataclass(frozen=True)
class Bursts:
    """GRPO rollouts: a batch of prompts every period, each with a group of samples.

    Attributes:
        prompts: prompts per batch.
        samples: samples per prompt.
        period_s: seconds between the starts of batches.
        rollout_s: duration of a batch's longest rollout.
    """

    prompts: int
    samples: int
    period_s: float
    rollout_s: float

    def __post_init__(self) -> None:
        if min(self.prompts, self.samples) < 1 or min(self.period_s, self.rollout_s) <= 0:
            raise ValueError("prompts, samples, period and rollout-seconds: must be positive")

    def starts(self, duration_s: float) -> list[float]:
        """Start times in seconds of the batches whose rollouts end within the run.

        Raises:
            ValueError: no batch ends within the run.
        """
        if duration_s < self.rollout_s:
            raise ValueError(
                f"duration: {duration_s:g} s is shorter than a batch's rollouts "
                f"(rollout-seconds {self.rollout_s:g})"
            )
        count = int((duration_s - self.rollout_s) / self.period_s) + 1
        return [number * self.period_s for number in range(count)]

    def ends(self, rng: Random) -> list[float]:
        """End times of a batch's rollouts in seconds from its start, unordered.

        Lengths are log-normal, scaled so that the longest is ``rollout_s``.
        """
        count = self.prompts * self.samples
        drawn = [rng.lognormvariate(0.0, _ROLLOUT_SIGMA) for _ in range(count)]
        return [self.rollout_s * draw / max(drawn) for draw in drawn]


class Rollouts:
    """Groups of samples drawn from rows.

    Args:
        rows: labelled rows; those with equal question and reference form a group.
        rng: draws prompts and responses.
        run: prefix of every id and mark; letters.
        timeout_s: each request's deadline.

    Raises:
        ValueError: there are no rows, or one is invalid.
    """

    def __init__(self, rows: Sequence[Row], rng: Random, run: str, timeout_s: float) -> None:
        self._prompts = list(_by_prompt(rows).values())
        if not self._prompts:
            raise ValueError("data: has no rows")
        self._rng, self._run, self._timeout_s = rng, run, timeout_s
        self._groups = self._samples = 0

    def group(self, size: int) -> list[Sample]:
        """Draw a prompt and ``size`` samples of it."""
        self._groups += 1
        responses = self._rng.choice(self._prompts)
        return [self._sample(self._rng.choice(responses)) for _ in range(size)]

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
            groups = (self.group(bursts.samples) for _ in range(bursts.prompts))
            samples = [sample for group in groups for sample in group]
            ended = sorted(zip(bursts.ends(self._rng), samples, strict=True), key=lambda e: e[0])
            for first in range(0, len(ended), size):
                together = ended[first : first + size]
                due_s = start + together[-1][0]
                calls.append(Call(due_s, [sample for _, sample in together]))
        return sorted(calls, key=lambda call: call.due_s)

    def _sample(self, row: Row) -> Sample:
        assert row.request is not None
        self._samples += 1
        fields = {
            "response": marked(row.request["response"], self._run + letters(self._samples)),
            "id": f"{self._run}-{self._samples}",
            "group": f"{self._run}-{self._groups}",
            "metadata": {"run": self._run, "sample": self._samples},
            "timeout_s": self._timeout_s,
        }
        return Sample({**row.request, **fields}, row.correct)


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
    """Insert a mark at a space within the response's tail, or in a line before a short one."""
    at = response.find(" ", max(0, len(response) - _TAIL))
    if len(response) <= _TAIL or at < 0:
        return f"({mark})\n{response}"
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


def long_rows(rng: Random, prompts: int = 32) -> list[Row]:
    """Rows of 8 long responses to each prompt, about half of them right; a rule decides each."""
    rows: list[Row] = []
    for _ in range(prompts):
        red, blue = rng.randrange(100, 1000), rng.randrange(100, 1000)
        asked = {
            "question": f"A box holds {red} red and {blue} blue marbles. How many does it hold?",
            "reference": f"{red} + {blue} = {red + blue}\n#### {red + blue}",
        }
        for _ in range(_LONG_RESPONSES):
            correct = rng.random() < 0.5
            answer = red + blue + (0 if correct else rng.randrange(1, 100))
            body = {**asked, "response": _rollout(rng, answer, _length(rng))}
            rows.append(Row(len(rows) + 1, body, correct))
    return rows


def _length(rng: Random) -> int:
    """Draw a long rollout's length in characters; log-normal up to a maximum."""
    return min(LONGEST_CHARS, round(MEDIAN_CHARS * rng.lognormvariate(0.0, _LONG_SIGMA)))


def _rollout(rng: Random, answer: int, characters: int) -> str:
    """Repeated additions and a marked answer, at most one step shorter than ``characters``."""
    ending = f"\n#### {answer}"
    left = characters - len(ending)
    steps: list[str] = []
    while True:
        first, other = rng.randrange(100, 1000), rng.randrange(100, 1000)
        step = (
            f"I count again: {first} in one heap and {other} beside it, {first + other} together.\n"
        )
        left -= len(step)
        if left < 0:
            return "".join(steps) + ending
        steps.append(step)
