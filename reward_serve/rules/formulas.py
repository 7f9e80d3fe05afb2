r"""Compare an answer with a reference that is not a plain number, by math-verify.

math-verify ignores what it cannot parse and takes some different answers for equal: a tuple and a
set or an interval, lists in another order, a rounded decimal, a dropped unit. So both texts must
have the same structure first: brackets, items, names, signs and units. It runs in a child process
that is killed when a comparison takes too long.

    compare_formulas(r"\dfrac{x}{2}", "0.5x")     # "equal"
    compare_formulas(r"\{1,2\}", "(1,2)")         # "unknown"
    compare_formulas(r"\sqrt{5}", r"2\sqrt{3}")   # "unequal"
"""

from __future__ import annotations

import functools
import math
import os
import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from reward_serve.rules.numbers.parsing import parse_number
from reward_serve.rules.numbers.words import CENTS, MODIFIER_WORDS, NUMBER_WORDS, UNIT_DOUBTS
from reward_serve.rules.texts import WRAPPINGS

if TYPE_CHECKING:
    from reward_serve.rules.child_process import ChildProcess

MAX_TEXT = 150
LIMIT_S = 1.0

_CHARACTERS = str.maketrans(
    {"\u2212": "-", "\u00d7": "*", "\u00b7": "*", "\u22c5": "*", "\u00f7": "/",
     "\u221e": r"\infty ", "\u03c0": r"\pi ", "\u2264": r"\le ", "\u2265": r"\ge ",
     "\u222a": r"\cup ", "\u00b2": "^{2}",
     "\u00b3": "^{3}", "\u00a0": " ", "\n": " ", "\t": " "}
)  # fmt: skip
_NOTATION = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\\(?:left|right)(?![a-zA-Z])|\\(?:[,;:! ]|q?quad(?![a-zA-Z]))", " "),
        (r"\\[dtc]frac(?![a-z])", r"\\frac"),
        (r"(?<![a-zA-Z\\])(pi|sqrt|infty|sin|cos|tan|log|ln)(?![a-zA-Z])", r"\\\1"),
        (r"(?<![a-zA-Z\\])sqrt(?=\()|\u221a", r"\\sqrt"),
        (r"\\sqrt ?\(([^()]{1,40})\)", r"\\sqrt{\1}"),
        (r"\\sqrt ?(\d+|[a-z])", r"\\sqrt{\1}"),
        (r"\\leq(?:slant)?(?![a-z])|<=", r"\\le "),
        (r"\\geq(?:slant)?(?![a-z])|>=", r"\\ge "),
        (r"\\lt(?![a-z])", "<"),
        (r"\\gt(?![a-z])", ">"),
        (r"\\(?:cdot|times|ast)(?![a-z])", "*"),
        (r"(?<![a-zA-Z])(?<!\*\*)([a-zA-Z]|\))\*\*(?=\d)", r"\1^"),
    )
)
_UNIT = re.compile(
    r"(?:\\[,;: ]|\s)*\\(?:text|textrm|mathrm|mbox)\s?\{([a-z .]{1,40})\}(?:\^\{?([23])\}?)?$"
)
_NO_UNITS = UNIT_DOUBTS | MODIFIER_WORDS | NUMBER_WORDS | CENTS
_COMMANDS = re.compile(
    r"\\(?:frac|sqrt|pi|infty|cup|le|ge|sin|cos|tan|log|ln|alpha|beta|gamma|theta|lambda|mu|sigma"
    r"|phi|omega|div|[{}])(?![a-zA-Z])"
)
_PLAIN = re.compile(r"[\w\s+*/^=<>()\[\]{},.\\-]*", re.ASCII)
_WORD = re.compile(r"[a-zA-Z]{3,}|\b(?:or|and|no|is|to|in|of|at|if)\b")
_DEFINES = re.compile(r"[a-zA-Z](?:\([a-z]\))? ?= ?(?=[^=<>]+$)")
_MONOMIAL = re.compile(r"\d+[a-z]?")
_SUM = re.compile(r"[\w)}] ?[-+]")
_RELATION = re.compile(r"[=<>]|\\[lg]e(?![a-z])")
_IRRATIONAL = re.compile(r"\\(?:sqrt|pi|sin|cos|tan|log|ln)|\be\b")
_DECIMAL = re.compile(r"\d*\.\d+")
# 1/2x, x^23, x2, 1.5e5 and 2\frac{1}{2} can be read in two ways; the last line may take too long.
_AMBIGUOUS = re.compile(
    r"\d\s*\\frac|\d,\d{3}(?!\d)|\d\s+\d|/ ?\d+ ?(?:[a-zA-Z(]|\\[a-z])|\^ ?\d\d|\*\*|\.\.|_|!"
    r"|\d[eE][+-]?\d|(?<![a-zA-Z\\])[a-zA-Z]\d"
    r"|\^ ?\{[^{}]*[\^\\]|\^ ?\{ ?-?\d{3}|\d{13}|(?:\^.*){5}"
    # versions, dates, permutations, leading zeros
    r"|\d\.\d+\.|\d ?/ ?\d+ ?/ ?\d|\(\d+\) ?\(\d|^\(\d{2,}\)$|(?<![\d.])0\d"
)
_ARITHMETIC = frozenset(["\\frac", "\\sqrt", "\\{", "\\}", "\\div", "\\le", "\\ge", "\\pi"])
_UNEVALUATED = re.compile(
    r"\d ?[*/] ?\d|\^ ?\{\d+\} ?\* ?\d"
    r"|(?<![\w}])(?<![a-zA-Z)]\^) ?\d+(?:\.\d+)? ?[+-] ?\d+(?:\.\d+)?(?![\w.\\(^{])"
)
_VALUE_OF = re.compile(r"=.*[a-zA-Z] ?\(-?[\d.]+\)$|[a-zA-Z] ?\([^()]*\) ?=")  # f(2) = 3
_ROOT = re.compile(r"\\sqrt ?\{(\d{1,6})\}")
_FRACTION = re.compile(
    r"\\frac ?\{ ?(\d{1,9})[a-z]{0,3} ?\} ?\{ ?(\d{1,9})[a-z]{0,3} ?\}"
    r"|(?<![\d.])(\d{1,9}) ?/ ?(\d{1,9})"
)


@functools.lru_cache(maxsize=128)  # as many references as a request may have, twice
def is_formula(text: str) -> bool:
    """Whether ``compare_formulas`` may need its child process: a formula that is no number."""
    return parse_number(text) is None and _read(text) is not None


def compare_formulas(answer: str, reference: str) -> Literal["equal", "unequal", "unknown"]:
    """Compare two texts as formulas.

    Args:
        answer: the text after a final-answer marker.
        reference: the gold answer.

    Returns:
        "equal" if they have the same structure and math-verify finds them equal; "unequal" if both
        are amounts that clearly differ; otherwise "unknown".
    """
    found, gold = _read(answer), _read(reference)
    if found is None or gold is None:
        return "unknown"
    if found[1] and gold[1] and found[1] != gold[1]:
        return "unknown"
    one, other = _without_name(found[0], gold[0]), _without_name(gold[0], found[0])
    if _compact(one) == _compact(other):
        return "equal"
    brackets, items = _items(one)
    brackets_too, others = _items(other)
    alike = brackets == brackets_too and len(items) == len(others)
    pairs = list(zip(items, others, strict=False))
    if not alike or not all(_alike(*pair) and _is_evaluated(*pair) for pair in pairs):
        return "unknown"
    verdict = _compared(items, others, "" if brackets == "\\{\\}" else "ordered")
    if verdict == "unequal" and _may_be_listed_otherwise(brackets, items, others):
        return "unknown"
    if verdict == "equal" and any(_form(one) != _form(other) for one, other in pairs):
        return "unknown"
    return "equal" if verdict == "equal" else "unequal" if verdict == "unequal" else "unknown"


def _may_be_listed_otherwise(brackets: str, items: list[str], others: list[str]) -> bool:
    """Whether items may differ only in their order or in the kind of coordinates."""
    if len(items) == 1:
        return False
    ordered = brackets == "()" and len(items) == 2
    lettered = any(map(re.compile("[a-z]").search, [*items, *others]))
    return not brackets or lettered or (not ordered and _compared(items, others, "") == "equal")


def _compared(items: list[str], others: list[str], order: str) -> str:
    try:
        compared = _child(os.getpid()).result("\n".join(items), "\n".join(others), order)
    except RuntimeError:  # undecided, failed, or the interpreter is shutting down
        return "unknown"
    return str(compared)


@functools.lru_cache(maxsize=1)
def _child(pid: int) -> ChildProcess:
    """The child process of this process; one that was forked starts its own."""
    from reward_serve.rules.child_process import ChildProcess  # no threads when it shuts down

    return ChildProcess("reward_serve.rules.math_comparison:compare_formulas", LIMIT_S)


def _read(text: str) -> tuple[str, str] | None:
    """The formula in plain LaTeX and its unit; None if the text is not wholly a formula."""
    if len(text) > MAX_TEXT:
        return None
    text = text.translate(_CHARACTERS).strip().rstrip(". ")
    for opening, closing in WRAPPINGS:
        if text.startswith(opening) and text.endswith(closing) and len(text) > 2 * len(opening):
            text = text[len(opening) : -len(closing)].strip(" .")
    text = text.removeprefix("**").removesuffix("**").strip("$ ").rstrip(". ")
    unit = _UNIT.search(text)
    words = [*unit[1].replace(".", " ").split(), unit[2] or "1"] if unit else []
    if not _NO_UNITS.isdisjoint(words) or any(len(word) == 1 for word in words[:-1]):
        return None
    text = text[: unit.start()].rstrip(" $") if unit else text
    for pattern, replacement in _NOTATION:
        text = pattern.sub(replacement, text)
    text = " ".join(text.split())
    rest = _COMMANDS.sub(" ", text)
    if not _PLAIN.fullmatch(text) or "\\" in rest or _WORD.search(rest) or _AMBIGUOUS.search(text):
        return None
    if not any(map(str.isalnum, text)) or (text.isalnum() and not _MONOMIAL.fullmatch(text)):
        return None  # E9 is not 9E
    return text, " ".join(words)


def _without_name(text: str, other: str) -> str:
    """The right side of "y = 2x" if the other is not an equation."""
    found = _DEFINES.match(text)
    if found is None or "=" in other or found[0][0] in text[found.end() :]:
        return text
    return text[found.end() :].strip()


def _compact(text: str) -> str:
    return re.sub(r"(?<![a-z]) | (?![a-z])", "", text)


def _items(text: str) -> tuple[str, list[str]]:
    """The brackets around a tuple, an interval or a set, if any, and what is between commas."""
    signs = text.replace("\\{", "\x01").replace("\\}", "\x02")
    depth, cuts, closed = 0, [-1], []
    for place, sign in enumerate(signs):
        depth += (sign in "([{\x01") - (sign in ")]}\x02")
        if depth == 0:
            closed.append(place)
    wrapped = signs[:1] in set("([\x01") and closed[:1] == [len(signs) - 1]
    inner = signs[1:-1] if wrapped else signs
    depth = 0
    for place, sign in enumerate(inner):
        depth += (sign in "([{\x01") - (sign in ")]}\x02")
        cuts += [place] if sign == "," and depth == 0 else []
    parts = [inner[i + 1 : j].strip() for i, j in zip(cuts, [*cuts[1:], len(inner)], strict=True)]
    items = [part.replace("\x01", "\\{").replace("\x02", "\\}") for part in parts]
    if wrapped and len(items) == 1 and signs[0] != "\x01":
        return ("", items) if signs[0] + signs[-1] == "()" else ("?", [text])
    brackets = signs[0] + signs[-1] if wrapped else ""
    return brackets.replace("\x01", "\\{").replace("\x02", "\\}"), items


def _alike(text: str, other: str) -> bool:
    """Whether two formulas are alike in what math-verify does not look at."""
    return _features(text) == _features(other)


def _features(text: str) -> tuple[object, ...]:
    names = set(_names(text))
    relations = Counter("<" if sign == ">" else sign for sign in re.findall(r"[=<>]", text))
    at_most = len(re.findall(r"\\[lg]e", text))
    interval = sorted(sign for sign in text if sign in "[]") + ["("] * text.count("\\cup")
    return names, relations, at_most, interval, text.count(",")


def _form(text: str) -> tuple[object, ...]:
    """The features in which a repeated task, such as 2x + 3x, differs from its solution."""
    names = _names(text)
    brackets = text.count("(") if names and "\\cup" not in names else 0
    return names, _sides(text), brackets, len(_SUM.findall(text))


def _names(text: str) -> Counter[str]:
    letters = re.findall(r"[a-zA-Z]", _COMMANDS.sub(" ", text))
    names = Counter(letters if "".join(letters).islower() else ["".join(letters)])
    return names + Counter(set(_COMMANDS.findall(text)) - _ARITHMETIC)  # N^n is not n^N


def _sides(text: str) -> Sequence[Counter[str]]:
    """The names on each side of relations, a lone name first."""
    sides = [side.strip() for side in _RELATION.split(text)]
    if len(sides) == 2 and len(sides[1]) == 1 and sides[1].isalpha() > sides[0].isalpha():
        sides.reverse()
    return [_names(side) for side in sides]


def _is_evaluated(answer: str, reference: str) -> bool:
    """Whether an answer is worked out: a repeated task must not earn the reward."""
    decimals = [_DECIMAL.findall(text) for text in (answer, reference)]
    if any(len(each.partition(".")[2]) > 5 for found in decimals for each in found):
        return False  # math-verify rounds
    if _VALUE_OF.search(answer) or _VALUE_OF.search(reference):
        return False  # math-verify takes every f(2) = n for equal
    if answer.count("\\sqrt") > reference.count("\\sqrt"):
        return False
    roots = [_IRRATIONAL.search(text) is not None for text in (answer, reference)]
    if any(
        found and irrational for found, irrational in zip(decimals, reversed(roots), strict=True)
    ):
        return False
    fractions = [[int(part) for part in found if part] for found in _FRACTION.findall(answer)]
    if any(bottom == 0 or math.gcd(top, bottom) > 1 for top, bottom in fractions):
        return False
    squares = (int(root) for root in _ROOT.findall(answer))
    if any(root % (n * n) == 0 for root in squares for n in range(2, math.isqrt(root) + 1)):
        return False
    return _UNEVALUATED.search(_FRACTION.sub(" ", answer)) is None
