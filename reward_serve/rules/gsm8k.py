r"""Decide answers to grade-school math problems by rule: right, wrong, or abstain.

Policies train against these rules, so they abstain unless they can prove the outcome, and a judge
decides the rest. An answer is proven right by an explicit final-answer marker that has the
reference's value and is not retracted, or by a response that is this number and nothing else:

    verify("She makes 9 * 2 = 18 dollars.\n#### 18", "#### 18").outcome  # "right"
    verify("The answer is 17.", "#### 18").outcome                       # "wrong"
    verify("$18", "#### 18").outcome                                     # "right"
    verify("So she makes $18.", "#### 18").outcome                       # "abstain": no marker
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from reward_serve.rules.amounts import same_amount
from reward_serve.rules.clock import is_another_time, is_same_time, is_time
from reward_serve.rules.committed import MAX_RESPONSE, asks_again, committed, without_thinking
from reward_serve.rules.formulas import compare_formulas
from reward_serve.rules.grade import ABSTAINED, RIGHT, WRONG, Grade
from reward_serve.rules.hidden import without_deletions
from reward_serve.rules.markers import Marker, is_remark, read_markers
from reward_serve.rules.numbers.parsing import Number, parse_number
from reward_serve.rules.numbers.presence import may_convert, may_equal, may_hold, may_round
from reward_serve.rules.numbers.words import CENTS, MEASURES, SCALES, UNIT_DOUBTS
from reward_serve.rules.restated import lists_answers, may_break_down, statement, statements
from reward_serve.rules.tails import is_bare, leaves_standing
from reward_serve.rules.texts import (
    gold_answer,
    is_blank,
    is_blank_character,
    normalised,
    same_text,
)
from reward_serve.rules.units import UNIT_WORDS, may_be_list, unit_around, units_conflict
from reward_serve.rules.vocabulary import OPENER_WORDS

MAX_OPENER = 300
MAX_FIRST = 40  # characters of a repeated number
MAX_LEAD = 80
MAX_ANSWERS = 7  # different answers; more than that is guessing

_SIGNS = frozenset("<=>+-*/")  # "minus"
_NO_PRICES = MEASURES | {"pesos", "yuan", "yen", "won", "francs", "rubles", "lira"}
_MATH_SIGNS = " \n$\\[]"
_LETTER = re.compile(r"(?:^|\bis)\W*[a-z]\W*$")  # a choice
_STEP_ONE = re.compile(r"\bstep 1\b")
_MARK = re.compile(r"^[^\x22\x27\u2018-\u201f]*\d[\x22\x27\u2018-\u201f]")  # 5' are 60 inches
_GROUP = re.compile(r"\d{3}$|^\d$")  # "413 413" may be one number, and so may "1 1"
_SENTENCE = re.compile(r"[.!?]\s|\n")
_NEGATIVE = re.compile(  # "a decrease of 5" is -5
    r"\b(?:los[est]\w*|drop\w*|decreas\w*|declin\w*|reduc\w*|f[ae]ll\w*|down\w*|below|debt|ow(?:e[sd]?|ing)"
    r"|deficit|negative|minus|west|south|left|backwards?)\b",
    re.IGNORECASE,
)
_SCORE = re.compile(r"^[^\w\\]*(\d{1,9}) ?/ ?\d{1,9}\b")  # 17/20 may be 17 points
_CHOICE = re.compile(  # each alternative begins with a letter or sign, which is faster
    r"[A-J](?<![^\W\d_].)(?:[\W_]*$| (?:is|must|has)\b)|\((?:[A-J]|(?<!\w.)[a-j])\)"
    r"|[oO](?<!\w.)(?:ptions?|PTIONS?)\b|[cC](?<!\w.)(?:hoices?|HOICES?)\b"
    r"|[lL](?:etter|ETTER)[\W_]{1,9}[A-J]\b|[sS]tatement [IVX]+\b"
    r"|\*\*\(?[A-Ja-j]\)?[.):]?\*\*|(?:is|choose|pick|select|mark)\W{1,4}[A-J]\b"
)


def verify(response: str, reference: str) -> Grade:
    """Prove a response right or wrong against a reference, or abstain.

    Args:
        response: The policy's response; any text.
        reference: The gold solution or answer.

    Returns:
        The outcome, its rule and the answer that was found.

    Raises:
        UnusableReferenceError: The reference contains no answer.
    """
    gold_text = gold_answer(reference)
    if len(response) > MAX_RESPONSE:
        if is_blank(response):
            return Grade(WRONG, "empty_response")
        return Grade(ABSTAINED, "response_too_long")
    grade = _decide(response, gold_text)
    same = grade.outcome != "right" and _is_text(response, (gold_text, reference))
    return Grade(RIGHT, "text_matches", _printable(response)) if same else grade


def _decide(response: str, gold_text: str) -> Grade:
    gold = parse_number(gold_text) if not is_time(gold_text) else None
    visible = _visible(response)
    if (
        gold is None
        and is_blank(visible)
        and visible.strip()
        and (_is_symbol(gold_text) or not _SIGNS.isdisjoint(visible))
    ):
        return Grade(ABSTAINED, "symbols_only")
    if is_blank(response):
        return Grade(WRONG, "empty_response")
    if is_blank(visible):
        thought = is_blank(without_thinking(response))
        return Grade(WRONG, "only_thinking") if thought else Grade(ABSTAINED, "only_hidden")
    if asks_again(visible):
        return Grade(ABSTAINED, "another_question")
    if gold is None:
        grade = _judge_text(visible, gold_text)
        absent = grade.outcome == "abstain" and is_another_time(visible, gold_text)
        return Grade(WRONG, "reference_absent", grade.answer) if absent else grade
    grade = _judge_numbers(visible, gold, gold_text)
    if grade.outcome != "abstain":
        return grade
    if _CHOICE.search(visible):
        return Grade(ABSTAINED, "may_be_a_choice", grade.answer)
    if gold.value != 1 and _is_only_opener(response):
        return Grade(WRONG, "only_opener")
    converts = not SCALES.isdisjoint(gold.unit)
    if not _names_a_value(grade) and not converts and not may_hold(response, gold.value):
        return Grade(WRONG, "reference_absent", grade.answer)
    return grade


def _is_text(response: str, references: Sequence[str]) -> bool:
    """Whether what the response committed to is one of the references, as text."""
    return any(
        _has_words(text, len(reference.split())) and normalised(text) == normalised(reference)
        for text in (response, _visible(response))
        for reference in references
    )


def _has_words(text: str, count: int) -> bool:
    return len(text.split(None, count)) == count


def verify_any(response: str, references: Sequence[str]) -> Grade:
    """Verify a response against several references, any of which makes it right.

    Args:
        response: The policy's response; any text.
        references: At least one gold solution or answer.

    Returns:
        Right if right by any reference, wrong if wrong by all, else the first abstention.

    Raises:
        UnusableReferenceError: A reference contains no answer.
        ValueError: There is no reference.
    """
    if not references:
        raise ValueError("references: is empty, expected at least one reference")
    grades = [verify(response, reference) for reference in dict.fromkeys(references)]
    order = ("right", "abstain", "wrong")
    return min(grades, key=lambda grade: order.index(grade.outcome))


def _is_symbol(text: str) -> bool:
    """Whether a gold answer is a symbol, such as "<" or the empty set."""
    return text.startswith("\\") or not any(map(str.isalnum, text))


def _is_only_opener(response: str) -> bool:
    if len(response) > MAX_OPENER:
        return False
    if not all(each.isalnum() or is_blank_character(each) for each in response):
        return False  # a symbol may be a number: a keycap ten
    text = _STEP_ONE.sub("step", response.casefold())
    if _LETTER.search(text):
        return False
    return all(word in OPENER_WORDS for word in re.split(r"[\W_]+", text) if word)


@lru_cache(maxsize=2)  # a response is read once, however many references it is compared with
def _visible(response: str) -> str:
    return _said_once(without_deletions(committed(response).text))


def _said_once(text: str) -> str:
    """The text, or the number if the text only repeats one: "18 18 18", or one per line."""
    first = "".join(text[: 2 * MAX_FIRST].split(None, 1)[:1]).rstrip(",;.")
    if len(first) > MAX_FIRST or (number := parse_number(first)) is None or not number.plain:
        return text
    words = [word.rstrip(",;.") for word in text.split()]
    if len(words) == 1 or set(words) != {first}:
        return text
    lines = len(text.strip().split("\n")) >= len(words)
    return first if lines or not _GROUP.search(first) else text


def _names_a_value(grade: Grade) -> bool:
    if grade.rule == "marker_not_understood" and grade.answer is not None:
        return not is_remark(grade.answer)
    return grade.rule in {"value_in_doubt", "percent_on_one_side", "units_differ"}


def _judge_numbers(response: str, gold: Number, gold_text: str) -> Grade:
    markers = read_markers(response)
    if markers is None:
        return Grade(ABSTAINED, "too_many_markers")
    claims = [
        (marker, parse_number(marker.text))
        for position, marker in enumerate(markers, start=1)
        if position == len(markers) or marker.claims_number()
    ]
    if not claims:
        return _judge_bare_number(response, gold, gold_text)
    last, number = claims[-1]
    answer = _printable(last.text)
    numbers = [other for _, other in claims if other is not None]
    values = {(other.value, other.percent) for other in numbers}
    if len(values) > MAX_ANSWERS and lists_answers(response, [marker for marker, _ in claims]):
        return Grade(WRONG, "answer_stuffing", answer)
    stated = _judge_statements(response, [marker for marker, _ in claims], gold, gold_text)
    if stated is not None:
        return stated
    unclear = any(UNIT_DOUBTS.intersection(other.unit) for other in numbers)
    if number is None or unclear or len(numbers) < len(claims):
        return Grade(ABSTAINED, "marker_not_understood", answer)
    if len(values) > 1:
        return Grade(ABSTAINED, "markers_disagree", answer)
    if last.doubted:
        return Grade(ABSTAINED, "marker_in_doubt", answer)
    if not leaves_standing(response[last.end :], number.value, response[: last.start]):
        return Grade(ABSTAINED, "text_after_marker", answer)
    begin = last.end - len(last.text)
    quote = response[begin - 1 : begin]
    text = last.text.partition(quote)[0] if quote in {'"', "'"} else last.text
    text = text if number.unit else text + unit_around(response, last.start, last.end)
    number = parse_number(text)
    if number is None:
        return Grade(ABSTAINED, "units_differ", answer)
    if number.value == -gold.value:
        lead = _SENTENCE.split(response[max(0, last.start - MAX_LEAD) : last.start])[-1]
        if _NEGATIVE.search(lead):
            return Grade(ABSTAINED, "value_in_doubt", answer)
    return _compare(number, gold, (text, gold_text))


def _judge_statements(
    response: str, markers: Sequence[Marker], gold: Number, gold_text: str
) -> Grade | None:
    """Judge an answer that is stated more than once; None if it is not."""
    text, end = statement(response, markers)
    amounts = same_amount(text)
    numbers = amounts or statements(text)
    if not numbers or any(UNIT_DOUBTS.intersection(number.unit) for number in numbers):
        return None
    answer, last = _printable(text), markers[-1]
    values = {number.value for number in numbers}
    differ = any(
        not may_equal(number.value, numbers[0].value, units=bool(number.unit or numbers[0].unit))
        for number in numbers
    )
    if differ and not amounts and gold.value in values and not may_break_down(numbers, text):
        return Grade(WRONG, "two_values", answer)
    alike = len(values) == 1 and len({(number.percent, number.unit) for number in numbers}) == 1
    earlier = [parse_number(marker.text) for marker in markers]
    agree = bool(amounts or alike) and all(e is None or e.value in values for e in earlier)
    if not agree or last.doubted or not leaves_standing(response[end:], gold.value, response):
        return Grade(ABSTAINED, "stated_twice", answer)
    return _compare(_closest(numbers, gold), gold, (text, gold_text))


def _judge_bare_number(response: str, gold: Number, gold_text: str) -> Grade:
    """Compare a response that is a number without a unit, or an amount in two, and nothing else."""
    amounts = same_amount(response)
    number = _closest(amounts, gold) if amounts else parse_number(response)
    if number is not None and (amounts or not (number.unit or "=" in response)):
        compared = _compare(number, gold, (response, gold_text), by="number")
        if compared.outcome != "abstain":
            return compared
    return Grade(ABSTAINED, "no_rule_applies")


def _closest(numbers: Sequence[Number], gold: Number) -> Number:
    return next((number for number in numbers if number.value == gold.value), numbers[0])


def _compare(number: Number, gold: Number, texts: tuple[str, str], by: str = "marker") -> Grade:
    answer = _printable(texts[0])
    cents = bool(CENTS.intersection(number.unit)) != bool(CENTS.intersection(gold.unit))
    if number.percent != gold.percent:
        return Grade(ABSTAINED, "percent_on_one_side", answer)
    marked = _MARK.search(texts[0]) is not None
    priced = texts[1].count("$") == 1 and not _NO_PRICES.isdisjoint(number.unit[:1])
    conflict = units_conflict(number, gold, texts) or may_be_list(*texts)
    if conflict or priced or (marked and gold.unit):
        return Grade(ABSTAINED, "units_differ", answer)
    if number.value == gold.value and not cents:
        if not (number.reduced and gold.reduced) and texts[0].strip() != texts[1].strip():
            return Grade(ABSTAINED, "fraction_not_reduced", answer)
        return Grade(RIGHT, f"{by}_matches", answer)
    units = (
        marked or number.unit[-1:] == ("in",) or not MEASURES.isdisjoint(number.unit + gold.unit)
    )
    near = may_equal(number.value, gold.value, units=units) or may_round(number.value, gold.value)
    near = near or not SCALES.isdisjoint(number.unit + gold.unit)
    near = near or (units and may_convert(number.value, gold.value))
    score = _SCORE.search(texts[0])
    near = near or (score is not None and int(score[1]) == gold.value)
    degrees = "degrees" in number.unit + gold.unit
    if degrees and number.value * gold.value < 0 and (number.value - gold.value) % 360 == 0:
        return Grade(ABSTAINED, "value_in_doubt", answer)  # -30 and 330 degrees are one angle
    # "5 degrees colder" may be -5
    named = not UNIT_WORDS.issuperset(number.unit + gold.unit)
    opposite = number.value == -gold.value and not number.percent and not named
    if cents or not number.plain or (near and not opposite):
        return Grade(ABSTAINED, "value_in_doubt", answer)
    return Grade(WRONG, f"{by}_differs", answer)


def _judge_text(response: str, gold: str) -> Grade:
    markers = read_markers(response)
    if not markers:
        return _judge_bare_formula(response, gold)
    last = markers[-1]
    answer = _printable(last.text)
    unsure = Grade(ABSTAINED, "reference_not_numeric", answer)
    agreed = all(same_text(marker.text, last.text) for marker in markers)
    tail = response[last.end :]
    if last.doubted or not agreed or not leaves_standing(tail, None, response[: last.start]):
        return unsure
    if (same_text(last.text, gold) or is_same_time(last.text, gold)) and is_bare(tail):
        return Grade(RIGHT, "marker_matches", answer)
    unit = unit_around(response, last.start, last.end)
    text = f"{last.text}\\text{{{unit}}}" if unit else last.text
    comparison = compare_formulas(text, gold)
    if comparison == "equal":
        return Grade(RIGHT, "marker_matches", answer)
    return Grade(WRONG, "marker_differs", answer) if comparison == "unequal" else unsure


def _judge_bare_formula(response: str, gold: str) -> Grade:
    """Compare a response that is a formula and nothing else."""
    several = "\n" in response.strip(_MATH_SIGNS)  # lines would be read as one product
    comparison = "unknown" if several else compare_formulas(response, gold)
    if comparison == "unknown":
        return Grade(ABSTAINED, "reference_not_numeric")
    answer = _printable(response)
    if comparison == "equal":
        return Grade(RIGHT, "formula_matches", answer)
    return Grade(WRONG, "formula_differs", answer)


def _printable(text: str) -> str:
    return text.strip().encode("utf-8", "replace").decode()
