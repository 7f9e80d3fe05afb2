"""Extracts the answer with a configured pattern and compares it by value."""

from __future__ import annotations

import hashlib
import re
from collections import deque
from typing import Any

from reward_serve.off_loop import off_loop
from reward_serve.rules.base import Verifier, takes_long
from reward_serve.rules.child_process import ChildProcess
from reward_serve.rules.grade import ABSTAINED, WRONG, Grade, UndecidedError
from reward_serve.rules.numbers.parsing import parse_number
from reward_serve.rules.texts import gold_answer, normalised
from reward_serve.schema import ScoreRequest

LIMIT_S = 1.0


class PatternVerifier(Verifier):
    """Compares the pattern's last match: its first participating group, or else the whole match.

    Numbers are compared by value, other texts as ``exact`` does. The search runs in a child
    process; beyond ``LIMIT_S`` seconds of CPU time the verifier abstains.
    """

    def __init__(self, pattern: str, version: str) -> None:
        digest = hashlib.sha256(pattern.encode()).hexdigest()[:12]
        self.fingerprint = f"verifier=regex;version={version};pattern={digest}"
        self._pattern = pattern
        self._child = ChildProcess(f"{__name__}:last_match", LIMIT_S)

    async def verify(self, request: ScoreRequest, reference: str) -> Grade:
        """Grade a request's response by one reference.

        Raises:
            UnusableReferenceError: the reference contains no answer.
            VerifierError: the child process failed.
        """
        gold = gold_answer(reference)
        try:
            match: list[Any] | None = await self._child.call(self._pattern, request.response)
        except UndecidedError as error:
            return Grade(ABSTAINED, error.rule)
        if match is None:
            return Grade(WRONG, "no_match")
        found, start, end = match
        right = await off_loop(takes_long(request), _same, found, gold)
        rule = "match_equals" if right else "match_differs"
        return Grade(float(right), rule, found, (start, end))

    def close(self) -> None:
        """Kill the child process."""
        self._child.close()


def last_match(pattern: str, text: str) -> tuple[str, int, int] | None:
    """The answer of the last match, its start and its end; None without a match."""
    matches = deque(re.finditer(pattern, text), maxlen=1)
    if not matches:
        return None
    match = matches[0]
    taken = (group for group in match.groups() if group is not None)
    return next(taken, match[0]), match.start(), match.end()


def _same(found: str, gold: str) -> bool:
    number, expected = parse_number(found), parse_number(gold)
    if number is not None and expected is not None:
        return (number.value, number.percent) == (expected.value, expected.percent)
    return normalised(found) == normalised(gold)
