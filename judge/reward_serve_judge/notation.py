r"""Rewrite the formulas of a text in one plain notation, so that a judge compares what they say.

    plain_formulas(r"\(\dfrac{x^{2}}{3} + \sqrt{6}\)")         # "sqrt(6)+x^2/3"
    plain_formulas("2 + 7*x**4") == plain_formulas("7x⁴+2")    # True: both are "7x^4+2"
    plain_formulas(r"18 \le x < 46 or \{3,-4\}")               # "[18, 46) or {-4, 3}"

Brackets are plain, lists have one space after a comma, and what has no order, the terms of a sum
and the elements of a set, is sorted. Only a judge reads the result; no rule relies on it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

Replacement = str | Callable[[re.Match[str]], str]


class Steps(NamedTuple):
    """Substitutions for the texts with one of these signs, or in which this pattern is found.

    There are some sixty patterns, and most texts contain the signs of only a few. `re` searches
    fastest for a pattern that begins with a character or a set of characters.
    """

    needed: tuple[str, ...] | re.Pattern[str]
    substitutions: tuple[tuple[re.Pattern[str], Replacement], ...]


def steps(
    needed: Iterable[str] | re.Pattern[str],
    *substitutions: tuple[str, Replacement],
    flags: int = re.NOFLAG,
) -> Steps:
    """Compile substitutions.

    Args:
        needed: characters or lower-case words, or a pattern that is fast to search for; no
            substitution matches a text without any. Empty for substitutions in every text.
        substitutions: patterns and their replacements, in order.
        flags: of the patterns.
    """
    compiled = ((re.compile(pattern, flags), new) for pattern, new in substitutions)
    signs = needed if isinstance(needed, re.Pattern) else tuple(needed) or ("",)
    return Steps(signs, tuple(compiled))


def applied(groups: Sequence[Steps], text: str) -> str:
    """The text after all steps, in order."""
    lower = text.lower()
    for needed, substitutions in groups:
        if _has(needed, text, lower):
            for pattern, replacement in substitutions:
                text = pattern.sub(replacement, text)
            lower = text.lower()
    return text


def _has(needed: tuple[str, ...] | re.Pattern[str], text: str, lower: str) -> bool:
    if isinstance(needed, re.Pattern):
        return needed.search(text) is not None
    return any(map(lower.__contains__, needed))


_DEPTH = 4  # nested braces
_SIGNS = re.compile(r"[\\^*=<>+,$\[(/-]|[^\x00-\x7f]")
_TRANSLATED = str.maketrans(
    {"\u2264": "<=", "\u2265": ">=", "\u2260": "!=", "\u221e": r"\infty ", "\u03c0": r"\pi ",
     "\u222a": r"\cup ", "\u2208": r"\in ", "\u22c5": r"\cdot ", "\u00b1": "+-", "\u2032": "'"}
)  # fmt: skip
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_STYLES = r"text(?:bf|it|rm|sf)?|math(?:bf|rm|it|sf|bb)|mbox|boldsymbol|bf|bm|operatorname"
_FUNCTION = r"(?:sqrt|cbrt|sin|cos|tan|log|ln)\("
_NAME = rf"(?:(?:[A-Za-z]|pi)(?![A-Za-z])|{_FUNCTION})"
_TIMES = r"\s?(?:(?<!\*)\*(?!\*)|\\cdot(?![a-z]))\s?"
_AFTER_NAME = r"(?:(?<![A-Za-z][A-Za-z])(?<=[A-Za-z])|(?<=\bpi)|(?<=\dpi)|(?<=[)\]])|(?<=[/^]\d))"
_PRECEDED, _FOLLOWED = re.compile(_AFTER_NAME), re.compile(rf"\d*{_NAME}|\(")
_NUMBER = r"-?\d+(?:\.\d+|/\d+)?"
_BOUND = rf"(?:{_NUMBER}|-?\w{{1,9}}(?:\([\w+-]{{1,9}}\))?(?:/\d+)?)"
_ITEM = r"(?:[^,;()\[\]{}\\\n]|\\(?![{}])|\([^()\n]{0,40}\)){1,60}"
_TERM = r"(?:[\w^/']|\.(?=\d)|\([^()\s]{1,40}\)){1,40}"
_SUM = re.compile(rf"(?<![\w.)\]^/*+'\\-])[+-]?{_TERM}(?:[+-]{_TERM}){{1,9}}(?![\w(^/*\]'])")
_SPLIT = re.compile(rf"([+-]?)({_TERM})")
_RATIO = re.compile(
    rf"(?<![\w)^/])(-?)\(([+-]?{_TERM}(?:[+-]{_TERM}){{1,9}})\)/(\d{{1,6}})(?![\w(^/]|\.\d)"
)
_PRODUCT = re.compile(r"(\d{0,9})((?:[A-Za-z(][\w^()]*)?)")
_ASSIGNMENT = re.compile(rf"\b([a-zA-Z])\s?=\s?({_BOUND})(?![\w^/(+-]|\*(?!\*))")
_GROUPED = re.compile(r"\(\s?\d{1,3}(?:,\d{3})+(?:\.\d+)?\s?\)")
_THOUSANDS = re.compile(r"-?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_ANSWERS = re.compile(r"(?:^|[:=#{]|\bis)\s*$")
_COMMA = re.compile(r"\s{0,3},\s{0,3}")
_SINGLE = r"\d+|[A-Za-z]"
_COMPOUND = re.compile(r"[^(][+-]|[ */]")


def plain_formulas(text: str) -> str:
    """The text with its formulas, tuples, sets and intervals in plain notation.

    Args:
        text: any text; numbers, words and units are left unchanged.
    """
    if not _SIGNS.search(text):
        return text
    text = applied(_BEFORE, text if text.isascii() else text.translate(_TRANSLATED))
    for _ in range(_DEPTH if "{" in text else 0):
        before, text = text, applied(_BRACED, text)
        if text == before:
            break
    return applied(_AFTER, text)


def _tight(match: re.Match[str]) -> str:
    """The sign without spaces, between two terms of which one is algebraic."""
    text, start, end = match.string, match.start(), match.end()
    after_name = _PRECEDED.match(text, start)
    before_name = _FOLLOWED.match(text, end)
    if before_name and (after_name or text[max(0, start - 1) : start].isdecimal()):
        return match[1]
    return match[1] if after_name and text[end : end + 1].isdecimal() else match[0]


def _power(match: re.Match[str]) -> str:
    inner = match[1].strip()
    return f"^{inner}" if re.fullmatch(r"\d+|[A-Za-z]", inner) else f"^({inner})"


def _frac(match: re.Match[str]) -> str:
    top, bottom, factor = match[1].strip(), match[2].strip(), match[3] or ""
    gap = " " if re.match(r"[\w)]", match.string[max(0, match.start() - 1) : match.start()]) else ""
    if re.fullmatch(r"-?\d+", top) and re.fullmatch(r"-?\d+", bottom) and "-" in top + bottom:
        return f"{gap}\\frac\x02{top}\x03\x02{bottom}\x03{factor}"
    top = f"({top})" if _COMPOUND.search(top) else top
    top = factor if factor and top == "1" else top + factor
    return f"{gap}{top}/{bottom if re.fullmatch(_SINGLE, bottom) else f'({bottom})'}"


def _listed(match: re.Match[str]) -> str:
    """A tuple, set or interval with one space after each comma; a set's elements are sorted."""
    opening, inner, closing = match[1], match[2].strip(), match[3]
    if _GROUPED.fullmatch(match[0]) and not _ANSWERS.search(match.string[: match.start()][-12:]):
        return match[0]
    items = [item.strip("\"'") for item in _COMMA.split(inner)]
    if opening[-1] == "{" and closing[-1] == "}":
        items.sort(key=_place)
    return f"{opening}{', '.join(items)}{closing}"


def _place(item: str) -> tuple[bool, float, str]:
    number = item.replace("\\frac{", "").replace("}{", "/").rstrip("}")
    try:
        return False, float(Fraction(number)), ""
    except (ValueError, ZeroDivisionError):
        return True, 0.0, item


def _assigned(match: re.Match[str]) -> str:
    """(18, 9) for "x = 18 and y = 9"; a set where one name has several values."""
    pairs = _ASSIGNMENT.findall(match[0])
    values = [value for _, value in pairs]
    if len({name for name, _ in pairs}) == len(pairs):
        return f"({', '.join(values)})"
    return f"{{{', '.join(sorted(values, key=_place))}}}"


def _interval(match: re.Match[str]) -> str:
    opening, closing = "[" if match[2] == "<=" else "(", "]" if match[3] == "<=" else ")"
    return f"{opening}{match[1]}, {match[4]}{closing}"


def _half_line(match: re.Match[str]) -> str:
    closed = match[1][1:] == "="
    if match[1][0] == ">":
        return f"{'[' if closed else '('}{match[2]}, inf)"
    return f"(-inf, {match[2]}{']' if closed else ')'}"


def _ratio(match: re.Match[str]) -> str:
    """(8t+7)/2 as 4t+7/2."""
    terms, bottom = _SPLIT.findall(match[2]), int(match[3])
    parts = [_PRODUCT.fullmatch(term) for _, term in terms]
    if not bottom or not all(parts):
        return match[0]
    out = ""
    for (sign, _), part in zip(terms, filter(None, parts), strict=True):
        value = Fraction(int(part[1] or 1), bottom)
        minus = (sign == "-") != (match[1] == "-")
        top = "" if part[2] and value.numerator == 1 else str(value.numerator)
        rest = f"/{value.denominator}" if value.denominator > 1 else ""
        out += f"{'-' if minus else '+'}{top}{part[2]}{rest}"
    return out.removeprefix("+")


def _sorted_sum(match: re.Match[str]) -> str:
    if not _is_algebraic(match[0]) or _is_word(match[0]):
        return match[0]
    terms = _SPLIT.findall(match[0])
    terms.sort(key=lambda term: (not _is_algebraic(term[1]), term[1]))
    return "".join(f"{sign or '+'}{term}" for sign, term in terms).removeprefix("+")


def _is_algebraic(term: str) -> bool:
    return any(map(str.isalpha, term))


def _is_word(text: str) -> bool:
    """Whether it has a word, as "well-known" and "4-year" do."""
    rest = re.sub(rf"{_FUNCTION}|pi", "(", text)
    return re.search(r"[^\W\d_]{2}", rest) is not None


_BEFORE = (
    steps("\\",
        (r"\\(?:left|right)(?![a-z])\s?", ""),
        (r"\\[,;:!](?!\d{3}(?!\d))|\\q?quad(?![a-z])", " ")),
    steps(("\\", "$$"), (r"\\[()]|(?<!\\)\\[\[\]]|\$\$", "")),
    steps("$",
        (r"(?<![\\\w$])\$(?=[^\s$])((?:(?![A-Za-z]{2,} [A-Za-z]{2})[^$\n]){1,100}?)"
         r"(?<=[^\s\\])\$(?![\w$])", r"\1")),
    steps("\\",
        (r"\\le(?:q|qslant)?(?![a-z])", "<="),
        (r"\\ge(?:q|qslant)?(?![a-z])", ">="),
        (r"\\ne(?:q)?(?![a-z])", "!="),
        (r"\\lt(?![a-z])", "<"),
        (r"\\gt(?![a-z])", ">"),
        (r"\+?\s?\\infty(?![a-z])", "inf"),
        (r"\s?\\cup(?![a-z])\s{0,3}", " U "),
        (r"\\pm(?![a-z])", "+-"),
        (r"\\pi(?![a-z])\s?(?![a-zA-Z])", "pi"),
        (r"\\(sin|cos|tan|log|ln)(?![a-z])\s?(?=\()", r"\1"),
        (r"\\(pi|sin|cos|tan|log|ln)(?![a-z])\s?", r"\1 "),
        (r"\\[dtc]?frac(?=\s?[{\d])", r"\\frac")),
    steps("\\\u221a",
        (r"(?:\\sqrt|\u221a)\s?(\d[\d,.]{0,20}\d|\d|[a-zA-Z](?![a-zA-Z]))", r"sqrt(\1)"),
        (r"\u221a\s?(?=[({])", r"\\sqrt"),
        (r"\\sqrt\s?(?=\()", "sqrt")),
    steps("⁰¹²³⁴⁵⁶⁷⁸⁹⁻",
        (r"([A-Za-z)\]])([⁰¹²³⁴-⁹⁻]{1,4})", lambda m: f"{m[1]}^{m[2].translate(_SUPERSCRIPTS)}")),
    steps(("**",), (r"(?:(?<![A-Za-z*])|(?<=\d\*))([A-Za-z]|\))\*\*(?=-?\d|\()", r"\1^")),
)  # fmt: skip
_BRACED = (
    steps("\\^",
        (r"\\sqrt\s?\{([^{}]{1,60})\}", r"sqrt(\1)"),
        (r"\\sqrt\s?\[3\]\s?\{([^{}]{1,60})\}", r"cbrt(\1)"),
        (r"\^\s?\{(?!\s?\\circ)([^{}]{1,40})\}", _power),
        (r"\\frac\s?\{([^{}]{1,80})\}\s?\{([^{}]{1,80})\}"
         r"(?:([a-zA-Z](?:\^\d+)?)(?![a-zA-Z^({]))?", _frac),
        (rf"\\(?:{_STYLES})\s?\{{((?:[^{{}}\\]|\\.)*)\}}", r"\1")),
)  # fmt: skip
_AFTER = (
    steps("\x02\x03", (r"\x02", "{"), (r"\x03", "}")),
    steps(re.compile(r"(?:\*|\\cdot)\s?[A-Za-z(]"),
        (rf"(?<=\d){_TIMES}(?={_NAME}|\()", ""),
        (rf"(?:(?<![A-Za-z][A-Za-z])(?<=[A-Za-z])|(?<=\))){_TIMES}(?={_NAME}|\()", "")),
    steps((" pi", " sqrt", " cbrt", " sin", " cos", " tan", " log", " ln"),
        (rf"(?<=\d) (?=pi\b|{_FUNCTION})", "")),
    steps("+-", (r"\s?([+-])\s?", _tight), (r"([+-](?<=[\d)].)\d+) ([+-]) (?=\d)", r"\1\2")),
    steps((")/",), (_RATIO.pattern, _ratio)),
    steps("+-", (_SUM.pattern, _sorted_sum)),
    steps(re.compile(r"=[^=]*[a-zA-Z]\s?="),
        (rf"(?<!,)(?<!, )(?<!and ){_ASSIGNMENT.pattern}"
         rf"(?:(?:,\s?(?:and |or )?| and | or |; ?){_ASSIGNMENT.pattern}){{1,3}}"
         r"(?![,;]? ?(?:and |or )?[a-zA-Z]\s?=)", _assigned)),
    steps(re.compile(r"<=?\s?[a-zA-Z]\s?<"),
        (rf"(?<![\w.)/-])({_BOUND})\s?(<=?)\s?[a-zA-Z]\s?(<=?)\s?({_BOUND})(?![\w(])", _interval)),
    steps(re.compile(r"[<>](?<=[a-zA-Z\s].)=?\s?[-\w]"),
        (rf"(?<![<>=] )(?<![\w.)/<>=])[a-zA-Z]\s?([<>]=?)\s?({_BOUND})(?![\w(<>=]| ?[<>=])",
         _half_line)),
    steps((" inf)", "(-inf"),
        (rf"(\(-inf,\s?{_BOUND}[)\]]),?\s+or\s+([(\[](?!-inf){_BOUND},\s?{_BOUND}[)\]])",
         r"\1 U \2"),
        (rf"([(\[]{_BOUND},\s?(?!inf){_BOUND}[)\]]),?\s+or\s+([(\[](?!-inf){_BOUND},\s?inf\))",
         r"\1 U \2"),
        (rf"([(\[]{_BOUND}),\s?inf\),? and \(-inf(,\s?{_BOUND}[)\]])", r"\1\2"),
        (r"\\?\{\s?[a-zA-Z]\s?[:|]\s?([(\[][^{}]{3,60}[)\]])\s?\\?\}", r"\1")),
    steps(("\\in",), (r"\b[a-zA-Z]\s?\\in(?![a-z])\s?(?=[(\[])", "")),
    steps((")=", ") ="), (r"\([a-zA-Z](?:,\s?[a-zA-Z]){1,4}\)\s?=\s?(?=\()", "")),
    steps(",",
        (rf"(\\\{{|[(\[]|(?<![\w}}\])])\{{)\s?({_ITEM}(?:,{_ITEM}){{1,30}})(\\\}}|[)\]}}])",
         _listed)),
    steps(re.compile(r",-?\d+[./,\d]"),
        (rf"(?<![\w.,]){_NUMBER}(?:,{_NUMBER}){{2,30}}(?![\w]|,\d)",
         lambda m: m[0] if _THOUSANDS.fullmatch(m[0]) else _COMMA.sub(", ", m[0]))),
    steps(",",
        (r",(?:(?<=\d,)(?=-\d|\\frac|\d+/\d|-?\d*sqrt\()|(?<=[)}],)(?=[-\d(])"
         r"|(?<=/\d,)(?=[-\d])|(?<=[A-Za-z],)(?=[A-Za-z-]))", ", ")),
    steps("\\", (r"\\([{}])", r"\1")),
)  # fmt: skip
