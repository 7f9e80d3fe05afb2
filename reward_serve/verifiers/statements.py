r"""Parse the closing statement of a response without an answer marker.

    read_statement("9 are left. So she makes 9 * 2 = $18.")  # Statement(number=18, ...)
    read_statement("She makes 17 or 18 dollars.")            # None
    read_statement("One gets 17. The other gets 18.")        # None: neither is the answer

A statement is a plain English clause that ends in its only number, after a verb or after an
equation that holds. The response must contain one such clause and nothing that competes with it.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from reward_serve.numbers.foreign import may_be_numbers
from reward_serve.numbers.parsing import Number, parse_number, plain_text
from reward_serve.numbers.words import (
    ANY_NUMBER_WORD,
    DOUBTS,
    HIDING_WORDS,
    MODIFIER_WORDS,
    RATES,
    UNIT_DOUBTS,
)
from reward_serve.verifiers.vocabulary import (
    CONCLUSIONS,
    LEAD_DOUBTS,
    NO_NAMES,
    RESULT_WORDS,
    STATEMENT_DOUBTS,
    STATING_WORDS,
    SUBJECTS,
)

MAX_RESPONSE = 6_000
MAX_SENTENCE = 400

_SENTENCE_END = re.compile(r"[.!?]+[*_]*(?=\s|$)|\n")
_EMPHASIS = re.compile(
    r"(?<!\d)(?:\*\*|__|`)|(?:\*\*|__|`)(?!\d)|^[ \t]*(?:#{1,3}|[-*]) +", re.MULTILINE
)
_SIGNS = str.maketrans({"\u00d7": "*", "\u00b7": "*", "\u00f7": "/"})
_LABEL = re.compile(
    r"^(?:the )?(?:final )?(?:result|total|sum|solution|conclusion)(?: is)?: *", re.IGNORECASE
)
_REASONS = re.compile(r"\b(?:because|reason|explanation|here'?s why|proof)\b", re.IGNORECASE)
# With a number, these announce an answer before its reasons: "300, by the following steps".
_ANNOUNCED = re.compile(
    r"\btl;?dr\b|\b(?:answer|following|follows|below|underneath|here's|how|why|reasoning|argument"
    r"|derivation|justification|walk ?through|break ?down|details|spoiler|up front|in short"
    r"|conclusion|version|show|computed)\b",
    re.IGNORECASE,
)
_CUT_OFF = re.compile(r"(?:\\[a-z]+\s?\{?|#+|[:={<(])\s*$")
_COURTESY = re.compile(
    r"(?:i )?(?:hope|trust) (?:this|that|it) helps|q\.?e\.?d|done|that'?s (?:it|all)"
    r"|thank(?:s| you)(?: for reading)?|good luck|have a (?:great|nice|good) day|you'?re welcome"
    r"|(?:please )?(?:let me know|feel free to ask)(?: if you have)?(?: any)?"
    r"(?: (?:more|other|further))?(?: questions?)?"
)
_OPENED = re.compile(r"[#\\{:=<]")
_LEFT = re.compile(
    r" (?:(?:are|is|were|was|will be) )?(?:left|left over|remaining|needed|required)$"
)
_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")
_START = re.compile(rf"[-+]?\$?\s?(?:\d[\d,.]*|\.\d+)|\b{ANY_NUMBER_WORD}\b", re.IGNORECASE)
_NUMERAL = re.compile(rf"\d+|\b{ANY_NUMBER_WORD}\b", re.IGNORECASE)
_CLAUSE = re.compile(r"[A-Za-z\d ,'$*().]*")
_GAP = re.compile(r"[,;] (?:and )?| (?:and )?(?=so )")
_ARITHMETIC = re.compile(r"(?:[\d +\-*/().,$%]|(?<=[\d ])x(?=[\d $]))+$")
_BEING = frozenset(["is", "are", "was", "were"])
_WHOLES = frozenset(["total", "final", "number", "amount", "overall", "combined", "whole", "sum"])
_OPERATORS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_DOUBTED = (
    (DOUBTS | HIDING_WORDS | LEAD_DOUBTS | MODIFIER_WORDS | STATEMENT_DOUBTS)
    - {"and", "among", "add", "added", "adding", "divided", "times", "sum", "difference"}
) | {"to", "that"}

_UNIT_DOUBTED = UNIT_DOUBTS | STATEMENT_DOUBTS | LEAD_DOUBTS | CONCLUSIONS


@dataclass(frozen=True, slots=True)
class Statement:
    """The closing statement of a response.

    Attributes:
        number: the stated number.
        text: the sentence.
        before: the response before it.
    """

    number: Number
    text: str
    before: str


def read_statement(response: str) -> Statement | None:
    """Parse the closing statement of a response, or return None if there is no clear one.

    Args:
        response: A response without answer markers.
    """
    if len(response) > MAX_RESPONSE:
        return None
    text = _EMPHASIS.sub("", plain_text(response).translate(_SIGNS))
    if not text.isascii():
        return None
    sentences = _sentences(text)
    while sentences and _COURTESY.fullmatch(sentences[-1][0].lower().rstrip(" !")):
        sentences.pop()
    if not sentences or len(sentences[-1][0]) > MAX_SENTENCE:
        return None
    sentence, end, closed = sentences.pop()
    if _OPENED.search(text[end:]) or _CUT_OFF.search(text):
        return None  # cut off before the answer
    for clause, earlier in _readings(sentence):
        number, equated = _stated(clause)
        whole = closed or (number and number.unit) or parse_number(text) is not None
        if number is None or not whole:
            continue  # the number may be truncated
        if all(map(_is_working, earlier)) and _stands_alone(
            clause, equated, [one for one, _, _ in sentences] + earlier
        ):
            return Statement(number, sentence, text[: max(0, end - len(clause))])
    return None


def _readings(sentence: str) -> Iterator[tuple[str, list[str]]]:
    """The whole sentence, then its last clause with the clauses before it."""
    yield sentence, []
    *_, end = (0, *(match.end() for match in _GAP.finditer(sentence)))
    if end:
        clauses = _GAP.sub("\n", sentence[:end]).split("\n")
        yield sentence[end:], [clause for clause in clauses if clause.strip()]


def _sentences(text: str) -> list[tuple[str, int, bool]]:
    """Each sentence, its end, and whether a full stop or line break terminates it."""
    found, start = [], 0
    for match in _SENTENCE_END.finditer(text):
        if any(map(str.isalnum, text[start : match.start()])):
            factorial = match[0][0] == "!" and text[match.start() - 1].isdigit()
            mark = "?" if "?" in match[0] else "!" if factorial else ""
            found.append((text[start : match.start()].strip() + mark, match.start(), True))
        start = match.end()
    if any(map(str.isalnum, text[start:])):
        found.append((text[start:].strip(), len(text), False))
    return found


def _stated(sentence: str) -> tuple[Number | None, bool]:
    """The number that a sentence states, and whether an equation that holds states it."""
    sentence = _LABEL.sub("", sentence)
    left, equals, right = sentence.rpartition("=")
    if equals and any(map(str.isdigit, left)):
        arithmetic = _ARITHMETIC.search(left)
        number = _undoubted(right)
        if number is None or arithmetic is None or number.percent:
            return None, False
        holds = _value_of(arithmetic[0]) == number.value and _is_clause(left[: arithmetic.start()])
        return (number, True) if holds else (None, False)
    if equals or (number := _undoubted(sentence)) is not None:
        return _undoubted(sentence), False
    starts = [match.start() for match in _START.finditer(sentence)]
    if not starts:
        return None, False
    if left_over := _LEFT.search(sentence):
        lead = sentence[: starts[0]].lower().strip(" ,")
        if not lead or lead in CONCLUSIONS:
            return _undoubted(sentence[starts[0] : left_over.start()]), False
        sentence = sentence[: left_over.start()]
    for start, verbs in ((starts[0], STATING_WORDS), (starts[-1], RESULT_WORDS)):
        before = sentence[:start]
        if verbs.intersection(_WORD.findall(before.lower())[-1:]) and _is_clause(before):
            return _undoubted(sentence[start:]), False
    return None, False


def _undoubted(text: str) -> Number | None:
    number = parse_number(text)
    doubted = number and _UNIT_DOUBTED.intersection(number.unit)
    return None if doubted else number


def _is_clause(text: str) -> bool:
    """Whether the text is a subject with words that neither deny nor change what follows."""
    plain = _without_conclusion(text)
    words = _WORD.findall(plain.lower())
    if not words:
        return True
    name = plain[0].isupper() and words[0] not in NO_NAMES
    acts = STATING_WORDS.union(["and", "will", "now", "also", "only"]).intersection(words[1:2])
    if not (words[0] in SUBJECTS or plain[0].isdigit() or (name and acts)):
        return False  # "Prove it is 18"
    if words[0] == "the" and words[-1] in _BEING and words[1] not in _WHOLES:
        return False  # "The original price is 18"
    if words[-1] == "of" and words[-2:-1] not in (["total"], ["sum"], ["profit"], ["cost"]):
        return False
    named = 0 if plain[0].isdigit() else 1
    adverbs = any(word.endswith("ly") and word not in RATES for word in words)
    return bool(_CLAUSE.fullmatch(text)) and not adverbs and _is_undoubted(words[named:])


def _without_conclusion(text: str) -> str:
    words = [*_WORD.findall(text.lower()), "", ""]
    for length in (2, 1):
        if (conclusion := " ".join(words[:length])) in CONCLUSIONS:
            if words[length] in STATING_WORDS or not words[length]:
                return ""  # "that leaves"
            return text.strip()[len(conclusion) :].lstrip(" ,")
    return text.strip()


def _is_undoubted(words: list[str]) -> bool:
    negated = any("n't" in word for word in words)
    return not negated and _DOUBTED.isdisjoint(words) and not may_be_numbers(words)


def _is_working(clause: str) -> bool:
    """Whether an earlier clause of the same sentence is a calculation step without doubts."""
    return bool(_NUMERAL.search(clause)) and _is_undoubted(_WORD.findall(clause.lower()))


def _stands_alone(sentence: str, equated: bool, earlier: list[str]) -> bool:
    """Whether no earlier sentence contradicts this one or competes with it."""
    numbered = [one for one in earlier if _NUMERAL.search(one)]
    if any(_undoubted(one) is not None and "=" not in one for one in numbered):
        return False  # candidates, one a line
    announced = any(_ANNOUNCED.search(one) for one in numbered if "=" not in one)
    if announced or any(_REASONS.search(one) for one in earlier):
        return False  # the answer came first
    for one in earlier:
        words = _WORD.findall(one.lower())
        if one.endswith((":", "?")) or (one not in numbered and not _is_undoubted(words)):
            return False
    if earlier and not (DOUBTS | LEAD_DOUBTS).isdisjoint(_WORD.findall(earlier[-1].lower())):
        return False
    results = {
        one.rpartition("=")[2].strip(" $").partition(" ")[0] for one in earlier if "=" in one
    }
    goes_on = not results or not results.isdisjoint(re.findall(r"[\d.,]*\d", sentence))
    if not numbered or (equated and goes_on) or _LEFT.search(sentence):
        return True
    words = [*_WORD.findall(sentence.lower()), "", ""]
    return words[0] in CONCLUSIONS or " ".join(words[:2]) in CONCLUSIONS


def _value_of(arithmetic: str) -> Fraction | None:
    """The exact value of arithmetic in digits, or None."""
    text = re.sub(r"(?<=\d),(?=\d{3})", "", arithmetic).replace("$", "").replace("x", "*")
    try:
        return _evaluated(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return None


def _evaluated(node: ast.expr) -> Fraction:
    if isinstance(node, ast.BinOp) and (apply := _OPERATORS.get(type(node.op))):
        return apply(_evaluated(node.left), _evaluated(node.right))
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return Fraction(str(node.value))
    raise ValueError(f"arithmetic: unsupported {ast.dump(node)[:80]}")
