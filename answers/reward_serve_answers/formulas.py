r"""Compares formulas with math-verify, which takes a second to import.

math-verify reads LaTeX and knows algebra, but it also drops what it does not understand (words,
relations, bases), rounds to six decimals, and takes a tuple for a set. So an answer reaches it only
where each sign of it is one of a few that it reads as written, one part at a time, and its verdicts
on values are confirmed in relative precision.
"""

from __future__ import annotations

import re
from typing import Any

import sympy
from math_verify import LatexExtractionConfig, parse, verify

from reward_serve_answers.gsm8k import FORMULA, final_formula
from reward_serve_answers.values import (
    ABSTAINED,
    Grade,
    UnusableReferenceError,
    bare,
    gold_answer,
    not_latex,
    parse_number,
)

# Relative: of exact values, of decimals, of six digits, and of what may be one value, rounded.
_EXACT, _FLOAT, _ROUNDED, _ROUGH = map(sympy.Float, ("1e-30", "1e-14", "1.5e-6", "0.02"))
_POINTS = tuple(map(sympy.Rational, ("7/3", "-11/5", "13/17", "-3/19", "23/7", "29/31")))

_NAMES = (
    "alpha beta gamma delta theta lambda mu phi omega pi infty sqrt cdot times sin cos tan cot sec "
    "csc arcsin arccos arctan log ln exp binom dbinom tbinom"
)
_READ = re.compile(  # signs that math-verify reads as written
    r"(?:\d+(?:\.\d+)?|\.\d+|(?<![a-zA-Z])[a-zA-Z]{1,3}(?![a-zA-Z])(?:_(?:\w|\{\w{1,3}\}))?"
    r"|\\[dtc]?frac ?(?:\{|\d\d(?!\d))"
    rf"|\\(?:{'|'.join(_NAMES.split())})(?![a-zA-Z])|(?<=log)_(?:\d(?!\d)|\{{)|\s|[-+*/^!(){{}}\[\]])+"
)
_AMBIGUOUS = re.compile(  # AB, 3 4, 2^10, 1\frac{1}{2}, 1/2x, 3e8, \sqrt10; or may be huge
    r"^[a-zA-Z]{2,}$|\d\s+\.?\d|\^ ?-?\d\d|\d\s*\\[dtc]?frac|/\s*\d+\s*[a-zA-Z\\(]|\d[eE]"
    r"|\\sqrt ?\d\d|\^ ?(?:\{[^{}]*|\d+ ?)\^|\^ ?\{? ?-?\d{5}|[)}!\]] ?!|\d{5} ?!|binom[^\\]*\d{5}"
)
_TASK = re.compile(r"[+*/!]|[\w)}] ?-|\\(?!frac)[a-z]")  # for a number: 9 * 2 is no answer yet
_TIDY = [
    (re.compile(r"(?<!\\)\\(?:left|right|[bB]igg?[lr]?)(?![a-zA-Z])\.?"), ""),
    (re.compile(r"(?<!\\)\\(?:q?quad(?![a-zA-Z])|[ ,;:!])|\s+"), " "),
    (re.compile(r"\\[dtc]frac"), r"\\frac"),
    (re.compile(r"^\\?\$\s*|\s*\.?\s*$"), ""),
    (re.compile(r"^(-?\d{1,3})(?:,|\{,\}| )(\d{3})(?=\.\d|$)"), r"\1\2"),
]
_ENDING = re.compile(
    r"(?:\s*(?:\\?%|\^ ?\{? ?\\circ ?\}?|\\(?:text|mathrm|mbox) ?\{[^{}]*\}(?:\^\d)?))+$"
)
_SUBJECT = re.compile(r"^([a-zA-Z](?:_\w|_\{\w+\})?(?:\([a-z]\))?) ?(?:=|\\in(?![a-zA-Z])) ?(?=\S)")
_MATRIX = re.compile(r"\\begin\{([pb]?matrix)\}(.*)\\end\{\1\}", re.DOTALL)


def grade_math(response: str, reference: str) -> Grade:
    r"""Right if the final answer equals the reference's formula, and both were read whole.

    The reference is LaTeX (``\frac{1}{2}``, with or without ``$`` or ``\boxed``). Numbers are
    decided as ``gsm8k`` does. Lists and sets are compared without order, tuples, intervals and
    matrices part by part. Abstains on relations, words and units that differ, on what is
    ambiguous, and where a number may have tens of thousands of digits.

    Raises:
        UnusableReferenceError: math-verify cannot parse the reference.
    """
    grade = final_formula(response, reference)
    if grade.rule != FORMULA or grade.answer is None:
        return grade
    score, rule = compare(grade.answer, gold_answer(reference))
    if rule == "reference_not_read":
        raise UnusableReferenceError(not_latex(reference))
    return Grade(score, rule, grade.answer)


def compare(answer: str, gold: str) -> tuple[float | None, str]:
    """Score and rule of a final answer, without a limit of time."""
    alike = _alike(bare(answer), bare(gold))
    if alike is not None:
        return float(alike), "math_equal" if alike else "math_differs"
    return ABSTAINED, "answer_not_read" if _parsed(bare(gold)) else "reference_not_read"


def _alike(answer: str, gold: str) -> bool | None:
    """Whether two answers are equal; None if a sign of one is not understood."""
    texts = [_tidy(answer), _tidy(gold)]
    if texts[0].replace(" ", "") == texts[1].replace(" ", ""):
        return True
    endings = {"".join(_ENDING.findall(text)).replace(" ", "") for text in texts}
    subjects = {match[1] for match in map(_SUBJECT.match, texts) if match}
    if len(endings) > 1 or len(subjects) > 1:
        return None
    (kind, ones), (other, others) = (_parts(_SUBJECT.sub("", _ENDING.sub("", t))) for t in texts)
    if kind != other:
        return None
    if not kind:
        return _same_value(ones[0], others[0])
    if len(ones) != len(others):
        return False
    if kind != "set":
        equal = {_alike(*pair) for pair in zip(ones, others, strict=True)}
        return False if False in equal else None if None in equal else True
    table = [[_alike(part, other) for other in others] for part in ones]
    if any(None in row for row in table):
        return None
    return all(map(any, table)) and all(map(any, zip(*table, strict=True)))


def _tidy(text: str) -> str:
    for pattern, plain in _TIDY:
        text = pattern.sub(plain, text)
    return text.strip()


def _parts(text: str) -> tuple[str, list[str]]:
    r"""What a text is, and its parts: "" a value, "set" or list, "()", "\cup", a matrix's shape."""
    if matrix := _MATRIX.fullmatch(text):
        rows = [row.split("&") for row in matrix[2].strip().removesuffix(r"\\").split(r"\\")]
        return f"matrix {[*map(len, rows)]}", [cell.strip() for row in rows for cell in row]
    if len(pieces := _split(text, r"\cup")) > 1:
        return r"\cup", pieces
    if len(pieces := _split(text, ",")) > 1:
        return "set", pieces
    if text.startswith(r"\{") and text.endswith(r"\}"):
        return "set", _split(text[2:-2], ",")
    if text[:1] in ("(", "[") and text[-1:] in (")", "]"):
        inside = _split(text[1:-1], ",")
        return (text[0] + text[-1], inside) if len(inside) > 1 else ("", [text])
    return "", [text]


def _split(text: str, at: str) -> list[str]:
    pieces, depth, start = [], 0, 0
    for sign in re.finditer(rf"[(\[{{]|[)\]}}]|{re.escape(at)}", text):
        if sign[0] != at:
            depth += 1 if sign[0] in "([{" else -1
        elif depth == 0:
            pieces.append(text[start : sign.start()].strip())
            start = sign.end()
    return [*pieces, text[start:].strip()]


def _same_value(answer: str, gold: str) -> bool | None:
    if any(_AMBIGUOUS.search(text) or not _READ.fullmatch(text) for text in (answer, gold)):
        return None
    parsed, other = _parsed(answer), _parsed(gold)
    if not parsed or not other or parsed[0].free_symbols != other[0].free_symbols:
        return None
    symbols = sorted(parsed[0].free_symbols, key=str)
    rounded = [text for text in (answer, gold) if "." in text]
    places = len(rounded[0].partition(".")[2]) if len(rounded) == 1 else 50
    equal = set()
    for shift in range(3 if symbols else 1):
        values = dict(zip(symbols, (_POINTS * 9)[shift:], strict=False))
        equal.add(_near(parsed[0], other[0], values, places if rounded else None))
    if equal != {True}:
        return False if equal == {False} else None
    number = parse_number(gold)
    whole = number is not None and number.value.denominator == 1 and "frac" in answer
    if number and not parse_number(answer) and (whole or _TASK.search(answer)):
        return None
    return verify(other, parsed, timeout_seconds=None) or None


def _near(answer: Any, other: Any, values: dict[Any, Any], places: int | None) -> bool | None:
    """Whether two values are equal, or one is the other rounded to decimals; None if only close."""
    left, right = (side.doit().subs(values).evalf(50) for side in (answer, other))
    if not (left.is_finite and right.is_finite):
        return None
    size, difference = max(abs(left), abs(right)), abs(left - right)
    if difference <= size * (_EXACT if places is None else _FLOAT):
        return True
    if places is None or difference > size * _ROUGH:
        return False
    return True if difference <= min(size * _ROUNDED, sympy.Rational(1, 2 * 10**places)) else None


def _parsed(text: str) -> list[Any]:
    config = LatexExtractionConfig()
    parsed: list[Any] = parse(
        f"\\boxed{{{text}}}", [config], fallback_mode="no_fallback", parsing_timeout=None
    )
    return parsed


# The first comparison of a kind imports and compiles much; processes are forked after it.
for _kind in ("0.5", "2^{99}", r"\sin(3)", "x^3", r"\sqrt{3}", "(1, 2)"):
    compare(_kind, r"\frac{1}{2}")
