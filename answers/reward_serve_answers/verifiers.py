"""The verifiers that compare texts: exact, regex, the last number, and the trainers' own rules."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from fractions import Fraction

from reward_serve_answers.committed import MAX_RESPONSE, without_hidden
from reward_serve_answers.gsm8k import verify_any
from reward_serve_answers.thinking import read_thinking
from reward_serve_answers.values import (
    ABSTAINED,
    RIGHT,
    WRONG,
    Grade,
    UnusableReferenceError,
    ends_without_answer,
    gold_answer,
    normalised,
    parse_number,
)

CLIP_CHARACTERS = 300

_RUN = re.compile(r"-?[0-9.,]+")
_VALUE = re.compile(r"-?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?")
_MARKED = re.compile(r"#### (-?[0-9.,]+)")
_CLOSING_LINE = re.compile(r"####[ \t]*[-+$]{0,2}[\d.,]*\d\.?\s*\Z")


def grade_exact(response: str, reference: str) -> Grade:
    """Right if the response after its thinking equals the reference, both normalised.

    Abstains if it differs and a tag of thinking follows other text, where it may be either.
    """
    visible = read_thinking(response)
    answer, gold = visible.rest, normalised(reference)
    if gold in (normalised(answer), normalised(response)):
        start = len(response) - len(answer) if response.endswith(answer) else 0
        return Grade(RIGHT, "text_matches", span=(start, len(response)))
    if visible.text != answer:
        return Grade(ABSTAINED, "thinking_in_doubt")
    return visible.settled(Grade(WRONG, "text_differs", span=(0, len(response))))


def grade_numeric(response: str, reference: str) -> Grade:
    """Right if the last number has the reference's value, whatever surrounds it.

    The number is found as in verl's ``flexible`` method: the last run of digits, commas and points
    in the final 300 characters. verl compares it as text, so "The answer is 18." and "1,800" are
    wrong there; here 18, 18.0 and "18." are equal, as are 1,800 and 1800. Abstains where the last
    marker has no answer.

    Raises:
        UnusableReferenceError: the reference is not a number.
    """
    gold = parse_number(gold_answer(reference))
    if gold is None:
        raise UnusableReferenceError(
            f"{reference[-64:]!a} is not a number; send one, or set rule.verifier: math or exact"
        )
    visible = read_thinking(response)
    if ends_without_answer(visible.text):
        return Grade(ABSTAINED, "cut_off")
    runs = _RUN.findall(without_hidden(visible.text[-MAX_RESPONSE:])[-CLIP_CHARACTERS:])
    last = next((run for run in reversed(runs) if run not in (".", ",")), None)
    if last is None:
        return visible.settled(Grade(WRONG, "no_number"))
    clean = last.rstrip(".,")
    is_number = clean not in ("", "-") and _VALUE.fullmatch(clean)
    right = bool(is_number) and Fraction(clean.replace(",", "")) == gold.value
    rule = "number_matches" if right else "number_differs"
    return visible.settled(Grade(float(right), rule, last))


def grade_strict_first(response: str, reference: str) -> Grade:
    """SkyRL's GSM8K reward (``skyrl_gym.envs.gsm8k.utils``): the first ``#### <number>`` counts.

    Right if the number, as text without commas, is the gold answer. Unlike in SkyRL and verl, the
    reference may be a whole solution, or contain commas or ``$``.

    Raises:
        UnusableReferenceError: the reference holds no answer.
    """
    return _marked(_MARKED.search(response), 0, reference)


def grade_strict_last(response: str, reference: str) -> Grade:
    """The GSM8K reward of verl (``verl.utils.reward_score.gsm8k``): the last one counts.

    Of the final 300 characters, with the same score as there for the same text, thinking too.

    Raises:
        UnusableReferenceError: the reference holds no answer.
    """
    *_, match = (None, *_MARKED.finditer(response[-CLIP_CHARACTERS:]))
    return _marked(match, max(0, len(response) - CLIP_CHARACTERS), reference)


def _marked(match: re.Match[str] | None, clipped: int, reference: str) -> Grade:
    gold = gold_answer(reference).replace(",", "").replace("$", "").strip()
    if match is None:
        return Grade(WRONG, "no_marker")
    right = match[1].replace(",", "") == gold
    span = (clipped + match.start(), clipped + match.end())
    return Grade(float(right), "marker_matches" if right else "marker_differs", match[1], span)


def verify_strict_any(response: str, references: Sequence[str]) -> Grade:
    """Like ``verify_any``, but a response that does not end in ``#### <number>`` is wrong.

    Raises:
        UnusableReferenceError: a reference contains no answer.
        ValueError: there is no reference.
    """
    grade = verify_any(response, references)
    visible = read_thinking(response)
    answer = visible.text
    marked = grade.rule != "text_matches" and _CLOSING_LINE.search(answer[-200:])
    if grade.outcome == "wrong" or marked:
        return grade
    if "####" in answer:
        return Grade(ABSTAINED, "strict_marker_in_doubt", grade.answer)
    return visible.settled(Grade(WRONG, "no_strict_marker", grade.answer))


def grade_match(answer: str, reference: str) -> Grade:
    """Compare what a pattern found with the reference: numbers by value, other texts exactly.

    Raises:
        UnusableReferenceError: the reference contains no answer.
    """
    gold = gold_answer(reference)
    number, expected = parse_number(answer), parse_number(gold)
    if number is not None and expected is not None:
        right = (number.value, number.percent) == (expected.value, expected.percent)
    else:
        right = normalised(answer) == normalised(gold)
    return Grade(float(right), "match_equals" if right else "match_differs", answer)


def last_match(pattern: str, text: str) -> tuple[str, int, int] | None:
    """The last match's first participating group, or the whole match; its start and its end."""
    matches = deque(re.finditer(pattern, text), maxlen=1)
    if not matches:
        return None
    match = matches[0]
    taken = (group for group in match.groups() if group is not None)
    return next(taken, match[0]), match.start(), match.end()
