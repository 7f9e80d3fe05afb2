r"""Read the statement that a response without an answer marker ends in.

    read_statement("9 are left. So she makes 9 * 2 = $18.")  # Statement(number=18, ...)
    read_statement("She makes 17 or 18 dollars.")            # None
    read_statement("One gets 17. The other gets 18.")        # None: neither is the answer

A statement is a plain English clause whose only number, in its last words, follows a verb or a
checked equation. A response may hold one such clause, with nothing that competes with it.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from reward_serve.verifiers.foreign import may_be_numbers
from reward_serve.verifiers.markers import Marker
from reward_serve.verifiers.numbers import Number, parse_number, plain_text
from reward_serve.verifiers.vocabulary import (
    CONCLUSIONS,
    DOUBTS,
    HIDING_WORDS,
    LEAD_DOUBTS,
    MODIFIER_WORDS,
    NUMBER_WORDS,
    STATEMENT_DOUBTS,
    STATING_WORDS,
    UNIT_DOUBTS,
)

MAX_RESPONSE = 6_000
MAX_SENTENCE = 400

_SENTENCE_END = re.compile(r"[.!?]+[*_]*(?=\s|$)|\n")
_EMPHASIS = re.compile(
    r"(?<!\d)(?:\*\*|__|`)|(?:\*\*|__|`)(?!\d)|^[ \t]*(?:#{1,6}|[-*]) +", re.MULTILINE
)
_SIGNS = str.maketrans({"\u00d7": "*", "\u00b7": "*", "\u00f7": "/"})
_LABEL = re.compile(
    r"^(?:the )?(?:final )?(?:result|total|sum|solution|conclusion)(?: is)?: *", re.IGNORECASE
)
_OPENED = re.compile(r"[#\\{:=<]")
_LEFT = re.compile(
    r" (?:(?:are|is|were|was|will be) )?(?:left|left over|remaining|needed|required)$"
)
_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")
_NUMBER_WORD = rf"(?:{'|'.join(sorted(NUMBER_WORDS, key=len, reverse=True))})"
_START = re.compile(rf"[-+]?\$?\s?(?:\d|\.\d)|\b{_NUMBER_WORD}\b", re.IGNORECASE)
_NUMERAL = re.compile(rf"\d+|\b{_NUMBER_WORD}\b", re.IGNORECASE)
_CLAUSE = re.compile(r"[A-Za-z ,'$*()]*")
_ARITHMETIC = re.compile(r"(?:[\d +\-*/().,$%]|(?<=[\d ])x(?=[\d $]))+$")
_OPERATORS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_DOUBTED = (
    (DOUBTS | HIDING_WORDS | LEAD_DOUBTS | MODIFIER_WORDS | STATEMENT_DOUBTS)
    - {"and", "to", "among", "add", "added", "adding", "divided", "times", "sum", "difference"}
) | frozenset(["n't"])  # fmt: skip


@dataclass(frozen=True, slots=True)
class Statement:
    """The statement that a response ends in.

    Attributes:
        number: what it states.
        text: the sentence.
    """

    number: Number
    text: str


def read_statement(response: str) -> Statement | None:
    """Read the statement that a response ends in, or None where there is none beyond doubt.

    Args:
        response: What the policy wrote, without answer markers.
    """
    if len(response) > MAX_RESPONSE:
        return None
    text = _EMPHASIS.sub("", plain_text(response).translate(_SIGNS))
    if not text.isascii():
        return None
    sentences = _sentences(text)
    while sentences and not _NUMERAL.search(sentences[-1][0]):
        sentences.pop()
    if not sentences:
        return None
    sentence, end, closed = sentences.pop()
    if len(sentence) > MAX_SENTENCE or Marker("", end, False, False).is_taken_back(text):
        return None
    if any(map(str.isalnum, text[end:])) and not text.rstrip().endswith((".", "!")):
        return None  # cut off
    if _OPENED.search(text[end:]):
        return None  # cut off before the answer
    number, equated = _stated(sentence)
    whole = closed or (number and number.unit) or parse_number(text) is not None
    if number is None or not whole:
        return None  # digits may have been cut off
    earlier = [one for one, _, _ in sentences]
    if not _stands_alone(sentence, equated, earlier):
        return None
    return Statement(number, sentence)


def _sentences(text: str) -> list[tuple[str, int, bool]]:
    """Each sentence, where it ends, and whether a full stop or a line end closes it."""
    found, start = [], 0
    for match in _SENTENCE_END.finditer(text):
        if any(map(str.isalnum, text[start : match.start()])):
            mark = "?" if "?" in match[0] else ""
            found.append((text[start : match.start()].strip() + mark, match.start(), True))
        start = match.end()
    if any(map(str.isalnum, text[start:])):
        found.append((text[start:].strip(), len(text), False))
    return found


def _stated(sentence: str) -> tuple[Number | None, bool]:
    """The number that a sentence states, and whether by an equation that holds."""
    sentence = _LABEL.sub("", sentence)
    left, equals, right = sentence.rpartition("=")
    arithmetic = _ARITHMETIC.search(left) if any(map(str.isdigit, left)) else None
    if equals and arithmetic:
        number = _undoubted(right)
        if number is None or number.percent or _value_of(arithmetic[0]) != number.value:
            return None, False
        return (number, True) if _is_clause(left[: arithmetic.start()]) else (None, False)
    if (number := _undoubted(sentence)) is not None:
        return number, False
    first = _START.search(sentence)
    if first is None or equals:
        return None, False
    before, after = sentence[: first.start()], sentence[first.start() :]
    words = _WORD.findall(before.lower())
    left_over = _LEFT.search(after)
    if left_over and (not words or f"{before.lower().rstrip()} " in CONCLUSIONS):
        return _undoubted(after[: left_over.start()]), False
    if not STATING_WORDS.intersection(words[-1:]) or not _is_clause(before):
        return None, False
    return _undoubted(_LEFT.sub("", after)), False


def _undoubted(text: str) -> Number | None:
    number = parse_number(text)
    doubted = number and (UNIT_DOUBTS | STATEMENT_DOUBTS | LEAD_DOUBTS).intersection(number.unit)
    return None if doubted else number


def _is_clause(text: str) -> bool:
    """Tell whether the text is words that neither deny nor change what follows them."""
    words = _WORD.findall(text.lower())
    plain = _DOUBTED.isdisjoint(words) and not any("n't" in word for word in words)
    return bool(_CLAUSE.fullmatch(text)) and plain and not may_be_numbers(words)


def _stands_alone(sentence: str, equated: bool, earlier: list[str]) -> bool:
    """Tell whether no earlier sentence competes with this one for being the answer."""
    numbered = [one for one in earlier if _NUMERAL.search(one)]
    if any(_undoubted(one) is not None and "=" not in one for one in numbered):
        return False  # candidates, one a line
    if earlier and (earlier[-1].endswith(":") or not _is_undoubting(earlier[-1])):
        return False
    if not numbered or equated:
        return True
    return sentence.lower().lstrip(" *").startswith(CONCLUSIONS)


def _is_undoubting(sentence: str) -> bool:
    words = _WORD.findall(sentence.lower())
    return (DOUBTS | LEAD_DOUBTS).isdisjoint(words) and not any("n't" in word for word in words)


def _value_of(arithmetic: str) -> Fraction | None:
    """The exact value of sums and products in figures, or None."""
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
