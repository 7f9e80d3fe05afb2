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
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from itertools import islice

from reward_serve.rules.grade import ABSTAINED, RIGHT, WRONG, Grade
from reward_serve.rules.markers import braced, read_markers
from reward_serve.rules.mathematics import compare_formulas
from reward_serve.rules.numbers.parsing import Number, parse_number
from reward_serve.rules.numbers.presence import may_equal, may_hold
from reward_serve.rules.numbers.words import CENTS, MEASURES, UNIT_DOUBTS
from reward_serve.rules.vocabulary import OPENER_WORDS, REMARK_WORDS

MAX_RESPONSE = 200_000
MAX_OPENER = 300
_FIRST_LOOK = 100  # characters to check before the whole text
MAX_FIRST = 40  # characters of a repeated number
MAX_ANSWERS = 7  # different answers; more than that is guessing

# A model that does not stop may continue with another exercise, whose answer does not count.
_QUESTION = re.compile(
    r"^[ \t#*>]{0,9}(?:Q|Question|Problem|Exercise|Human|User)\b[ *\d]{0,9}:",
    re.IGNORECASE | re.MULTILINE,
)
_DELETED = re.compile(r"~~[^~\n]{1,80}~~|<(del|s|strike)>[^<]{1,80}</\1>")
_INSERTED = re.compile(r"</?ins>")
_STEP_ONE = re.compile(r"\bstep 1\b")
_GROUP = re.compile(r"\d{3}$")  # "413 413" may be one number
_FORMULA_SIGNS = re.compile(r"[\\^_{}=<>+*/|]")
_BLANK_LETTERS = frozenset("$+<=>^`|~\u115f\u1160\u2800\u3164\uffa0")
_BLANK_CATEGORIES = frozenset(["Cc", "Cf", "Cs", "Mn", "Me"])


def final_answer(reference: str) -> str:
    r"""Return the gold answer of a GSM8K solution.

    Args:
        reference: A solution ending in "#### 18", a "\boxed{18}", or the bare answer.

    Returns:
        The text after the last "####". If that is a single box, the text in it. Stripped.
    """
    text = reference.rpartition("####")[2].strip()
    bare = text.strip("$ ").removeprefix("\\[").removesuffix("\\]").strip()
    if bare.startswith("\\boxed"):
        inner = braced(bare, len("\\boxed"))
        if inner is not None and inner[1] == len(bare):
            return inner[0].strip()
    return text


def verify(response: str, reference: str) -> Grade:
    """Prove a response right or wrong against a reference, or abstain.

    Args:
        response: The policy's response; any text.
        reference: The gold solution or answer.

    Returns:
        The outcome, its rule and the answer that was found.

    Raises:
        ValueError: The reference contains no answer.
    """
    gold_text = final_answer(reference)
    if not gold_text:
        raise ValueError(f"reference: is empty or ends in a bare '####': {reference[-40:]!r}")
    if _is_blank(response[:_FIRST_LOOK]) and _is_blank(response):
        return Grade(WRONG, "empty_response")
    if len(response) > MAX_RESPONSE:
        return Grade(ABSTAINED, "response_too_long")
    gold = parse_number(gold_text)
    visible = _visible(response)
    if gold is None:
        return _judge_text(visible, gold_text)
    verification = _judge_numbers(visible, gold)
    if verification.outcome != "abstain":
        return verification
    if gold.value != 1 and _is_only_opener(response):
        return Grade(WRONG, "only_opener")
    if not _names_a_value(verification) and not may_hold(response, gold.value):
        return Grade(WRONG, "reference_absent", verification.answer)
    return verification


def verify_any(response: str, references: Sequence[str]) -> Grade:
    """Verify a response against several references, any of which makes it right.

    Args:
        response: The policy's response; any text.
        references: At least one gold solution or answer.

    Returns:
        Right if right by any reference, wrong if wrong by all, else the first abstention.

    Raises:
        ValueError: There is no reference, or one contains no answer.
    """
    if not references:
        raise ValueError("references: is empty, expected at least one reference")
    verifications = [verify(response, reference) for reference in dict.fromkeys(references)]
    order = ("right", "abstain", "wrong")
    return min(verifications, key=lambda verification: order.index(verification.outcome))


def _is_blank(text: str) -> bool:
    return all(map(_is_blank_character, set(text)))


def _is_blank_character(character: str) -> bool:
    category = unicodedata.category(character)
    return category[0] in "ZP" or category in _BLANK_CATEGORIES or character in _BLANK_LETTERS


def _is_only_opener(response: str) -> bool:
    if len(response) > MAX_OPENER:
        return False
    if not all(each.isalnum() or _is_blank_character(each) for each in response):
        return False  # a symbol may be a number: a keycap ten
    text = _STEP_ONE.sub("step", response.casefold())
    return all(word in OPENER_WORDS for word in re.split(r"[\W_]+", text) if word)


@lru_cache(maxsize=2)  # a response is read once, however many references it is compared with
def _visible(response: str) -> str:
    return _said_once(_without_deletions(_after_thinking(response)))


def _after_thinking(response: str) -> str:
    visible = response.rpartition("</think>")[2]
    return visible.partition("<think>")[0]


def _without_deletions(text: str) -> str:
    """The text without deletions: ``~~17~~ 18``, ``<del>17</del> <ins>18</ins>``."""
    deleted = ("~~" in text or "<" in text) and _DELETED.search(text)
    return _INSERTED.sub("", _DELETED.sub(" ", text)) if deleted else text


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


def _names_a_value(verification: Grade) -> bool:
    if verification.rule == "marker_not_understood" and verification.answer is not None:
        return not _is_remark(verification.answer)
    return verification.rule in {"value_in_doubt", "percent_on_one_side"}


def _is_remark(text: str) -> bool:
    words = re.split(r"[\W_]+", text.lower())
    return REMARK_WORDS.issuperset(word for word in words if word)


def _asks_again(response: str) -> bool:
    questions = list(islice(_QUESTION.finditer(response), 2))
    return bool(questions) and (
        len(questions) == 2 or bool(response[: questions[0].start()].strip())
    )


def _judge_numbers(response: str, gold: Number) -> Grade:
    markers = read_markers(response)
    if markers is None:
        return Grade(ABSTAINED, "too_many_markers")
    if _asks_again(response):
        return Grade(ABSTAINED, "another_question")
    claims = [
        (marker, parse_number(marker.text))
        for position, marker in enumerate(markers, start=1)
        if position == len(markers) or marker.claims_number()
    ]
    if not claims and not markers:
        return _judge_bare_number(response, gold)
    if not claims:
        return Grade(ABSTAINED, "no_rule_applies")
    last, number = claims[-1]
    answer = _printable(last.text)
    numbers = [other for _, other in claims if other is not None]
    values = {(other.value, other.percent) for other in numbers}
    if len(values) > MAX_ANSWERS:
        return Grade(WRONG, "answer_stuffing", answer)
    unclear = any(UNIT_DOUBTS.intersection(other.unit) for other in numbers)
    if number is None or unclear or len(numbers) < len(claims):
        return Grade(ABSTAINED, "marker_not_understood", answer)
    if len(values) > 1:
        return Grade(ABSTAINED, "markers_disagree", answer)
    if last.doubted:
        return Grade(ABSTAINED, "marker_in_doubt", answer)
    if last.is_taken_back(response):
        return Grade(ABSTAINED, "text_after_marker", answer)
    return _compare(number, gold, answer)


def _judge_bare_number(response: str, gold: Number) -> Grade:
    """Compare a response that is a number without a unit, and nothing else."""
    number = None if "=" in response else parse_number(response)
    if number is not None and not number.unit:
        compared = _compare(number, gold, _printable(response), by="number")
        if compared.outcome != "abstain":
            return compared
    return Grade(ABSTAINED, "no_rule_applies")


def _compare(number: Number, gold: Number, answer: str, by: str = "marker") -> Grade:
    cents = bool(CENTS.intersection(number.unit)) != bool(CENTS.intersection(gold.unit))
    if number.percent != gold.percent:
        return Grade(ABSTAINED, "percent_on_one_side", answer)
    if number.value == gold.value and not cents:
        return Grade(RIGHT, f"{by}_matches", answer)
    units = not MEASURES.isdisjoint(number.unit + gold.unit)
    near = may_equal(number.value, gold.value, units=units)
    opposite = number.value == -gold.value and not number.percent
    if cents or not number.plain or (near and not opposite):
        return Grade(ABSTAINED, "value_in_doubt", answer)
    return Grade(WRONG, f"{by}_differs", answer)


def _judge_text(response: str, gold: str) -> Grade:
    markers = read_markers(response)
    if not markers or _asks_again(response):
        return Grade(ABSTAINED, "reference_not_numeric")
    last = markers[-1]
    answer = _printable(last.text)
    unsure = Grade(ABSTAINED, "reference_not_numeric", answer)
    agreed = all(_same_text(marker.text, last.text) for marker in markers)
    if last.doubted or not agreed or last.is_taken_back(response):
        return unsure
    if _same_text(last.text, gold) and last.is_last_word(response):
        return Grade(RIGHT, "marker_matches", answer)
    comparison = compare_formulas(last.text, gold)
    if comparison == "equal":
        return Grade(RIGHT, "marker_matches", answer)
    return Grade(WRONG, "marker_differs", answer) if comparison == "unequal" else unsure


def _same_text(text: str, other: str) -> bool:
    text, other = (" ".join(one.split()).strip(" *_`\"'.$") for one in (text, other))
    formula = _FORMULA_SIGNS.search(text + other)  # where n is not N
    return text == other if formula else text.casefold() == other.casefold()


def _printable(text: str) -> str:
    return text.strip().encode("utf-8", "replace").decode()
