r"""Read answers that are stated more than once: "18 (that is, eighteen)", "\boxed{17} or 18".

statements("18 (i.e. 19)")  # (Number(18), Number(19))
statements("18 pears")      # (): a single statement
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, pairwise

from reward_serve.rules.markers import Marker
from reward_serve.rules.numbers.parsing import Number, parse_number
from reward_serve.rules.numbers.presence import may_round
from reward_serve.rules.numbers.words import DOUBTS
from reward_serve.rules.units import UNIT_WORDS

MAX_STATEMENT = 200
MAX_PARTS = 8
MAX_BETWEEN = 2  # words between answers that are listed

_BETWEEN = re.compile(
    r"[\s,;:(\[–—-]*(?:\b(?:or )?(?:that is(?: to say)?|that's|in other words|also known as|namely"
    r"|to be (?:more )?(?:exact|precise|clear|specific)|(?:more )?(?:exactly|precisely)"
    r"|equivalently|which (?:is|equals|means)(?: the same as| equal to)?|meaning|or rather|rather"
    r"|or|(?<!hundred )(?<!thousand )(?<!million )and"
    r"|aka|make that|better|put differently|viz|ie)\b|\bi\. ?e\.|\ba\.k\.a\.)[\s,:]*"
    r"|(?<!hundred)(?<!thousand)(?<!million)[\s$]*[,;(\[][\s$]+|[\s$]*(?:=|\\equiv)[\s$]*",
    re.IGNORECASE,
)
_RESTATES = re.compile(
    r"\b(?:that is|that's|in other words|also known|namely|to be|exactly|precisely|equivalently"
    r"|which|meaning|rather|or|aka|make|better|put|viz|ie)\b|i\. ?e\.|a\.k\.a",
    re.IGNORECASE,
)
_END = re.compile(r"(?<!i\.e)(?<!k\.a)(?<!i\. e)[.!?](?=\s|$)|\n")
_GAP = re.compile(r"[\s$*,;:.()\\–—-]*")
_OF_A_PART = frozenset(["at", "by", "each", "for", "from", "in", "of", "on", "per", "to", "with"])
_NUMBERED = re.compile(r"[a-z] ?\d+\W*$")  # "Day 2: \\boxed{6}"
_WORD = re.compile(r"[^\W\d_]+")
_SHELL = " \t$*_`()[]{}\"'.,;:"


def statements(text: str) -> Sequence[Number]:
    """The numbers that a text states one after another; none if it is not such a text.

    Args:
        text: what a marker is followed by, up to the end of its sentence.
    """
    if len(text) > MAX_STATEMENT or "=" in text or parse_number(text) is not None:
        return ()
    numbers = [parse_number(_bare(part)) for part in _BETWEEN.split(text) if part.strip(_SHELL)]
    read = [number for number in numbers if number is not None]
    return read if 1 < len(read) == len(numbers) else ()


def may_break_down(numbers: Sequence[Number], text: str) -> bool:
    """Whether numbers may be an amount and its parts, its other units or its rounding.

    Parts: "75 dollars, 40 for food and 35 for gas", "17 girls and 13 boys"; units: "5 miles, or
    8.05 km"; roundings: "17, or more precisely 16.67".

    Args:
        numbers: at least two numbers that a text states one after another.
        text: that text.
    """
    values = [number.value for number in numbers]
    if len(values) > MAX_PARTS:
        return True
    if any(number.percent or not _OF_A_PART.isdisjoint(number.unit[:1]) for number in numbers):
        return True
    explicit = _RESTATES.search(text)
    named = {number.unit for number in numbers if number.unit}
    units = {unit for unit in named if not (explicit and UNIT_WORDS.isdisjoint(unit))}
    bare = any(not number.unit for number in numbers)
    if (
        len(named) > 1  # "247 pages, which is 13 chapters"
        or (units and bare and not explicit)
        or any(_is_rounded(*pair) for pair in combinations(values, 2))
    ):
        return True
    return len(values) > 2 and any(2 * value == sum(values) for value in values)


def _is_rounded(value: Fraction, other: Fraction) -> bool:
    return may_round(value, other) or round(value) == other or round(other) == value


def lists_answers(response: str, markers: Sequence[Marker]) -> bool:
    """Whether answers follow each other without the text that a solution in steps has between."""
    texts = [response[one.end : two.start].lower() for one, two in pairwise(markers)]
    between = map(_WORD.findall, texts)
    return not any(map(_NUMBERED.search, texts)) and all(
        len(words) <= MAX_BETWEEN and DOUBTS.isdisjoint(words) for words in between
    )


def statement(response: str, markers: Sequence[Marker]) -> tuple[str, int]:
    """What the last markers of one sentence state, without the markers, and where it ends.

    Args:
        response: the text with the markers.
        markers: those that claim a number; at least one.
    """
    first = len(markers) - 1
    while first and _joins(response[markers[first - 1].end : markers[first].start]):
        first -= 1
    text, end = "", markers[first].end
    for marker in markers[first:]:
        text += response[end : marker.start] + " " + marker.text
        end = marker.end
    whole = text + response[end : end + MAX_STATEMENT]
    stop = _END.search(whole, len(text))
    statement = whole[: stop.start()] if stop else whole
    return statement, end + len(statement) - len(text)


def _joins(gap: str) -> bool:
    between = _BETWEEN.search(gap)
    outer = gap if between is None else gap[: between.start()] + gap[between.end() :]
    return "\n" not in gap and _GAP.fullmatch(outer) is not None


def _bare(text: str) -> str:
    return text.strip().strip(_SHELL).removeprefix("\\")
