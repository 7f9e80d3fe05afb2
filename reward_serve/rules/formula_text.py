r"""Parse a short text as a formula, in LaTeX or plain notation, or return None.

    read_formula(r"\dfrac{x}{2}") == read_formula("0.5x")  # True
    read_formula("1/2x")                                   # None: half of x, or one over 2x

`2\frac{1}{2}`, `x^23` and `1,234` are ambiguous too.
"""

from __future__ import annotations

import re
from fractions import Fraction

from reward_serve.rules.formulas import (
    Call,
    Constant,
    Formula,
    Group,
    Name,
    Power,
    Relation,
    Root,
    Sum,
    UnreadError,
    ordered,
    product,
)

MAX_TEXT = 100
MAX_DEPTH = 8
MAX_DIGITS = 12

_CHARACTERS = str.maketrans(
    {
        "\u2212": "-",
        "\u00d7": "*",
        "\u00b7": "*",
        "\u22c5": "*",
        "\u00f7": "/",
        "\u03c0": r"\pi ",
        "\u221e": r"\infty ",
        "\u2264": "<=",
        "\u2265": ">=",
        "\u222a": r"\cup ",
        "\u00b2": "^{2}",
        "\u00b3": "^{3}",
        "\u00a0": " ",
        "\n": " ",
        "\t": " ",
    }
)
_NOTATION = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\u221a ?(\d+|[a-z])", r"\\sqrt{\1}"),
        (r"\u221a ?(?=\()", r"\\sqrt"),
        (r"\\(?:left|right)(?![a-zA-Z])|\\(?:[,;:! ]|q?quad(?![a-zA-Z]))", " "),
        (r"\\[dtc]frac(?![a-z])", r"\\frac"),
        (r"\\frac ?(\d)", r"\\frac{\1}"),
        (r"(\\frac ?\{[^{}]*\}) ?(\d)", r"\1{\2}"),
        (r"\\sqrt ?(\d)(?!\d)", r"\\sqrt{\1}"),
        (r"\\(?:cdot|times|ast)(?![a-z])", "*"),
        (r"\\div(?![a-z])", "/"),
        (r"\\(?:leqslant|leq?)(?![a-z])", "<="),
        (r"\\(?:geqslant|geq?)(?![a-z])", ">="),
        (r"\\lt(?![a-z])", "<"),
        (r"\\gt(?![a-z])", ">"),
    )
)
_WRAPPING = (("**", "**"), ("`", "`"), ("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"))
_TOKEN = re.compile(
    r" *(\d+(?:\.\d+)?|\.\d+|\\[a-zA-Z]+|\\[{}]|[a-zA-Z]+|<=|>=|[-+*/^=<>()\[\]{},])"
)
_GROUPED_DIGITS = re.compile(r"\d,\d{3}(?!\d)")
_FUNCTIONS = frozenset([r"\sin", r"\cos", r"\tan", r"\log", r"\ln"])
_GREEK = r"\alpha \beta \gamma \delta \theta \lambda \mu \sigma \phi \omega \pi \infty"
_NAMES = frozenset(_GREEK.split())
_WORDS = {word: [f"\\{word}"] for word in ("pi", "sqrt", "sin", "cos", "tan", "log", "ln")}
_NO_VARIABLES = frozenset(["or", "and", "not", "no", "is", "if", "to", "in", "of", "at"])
_SIGNS = frozenset(["=", "<", ">", "<=", ">="])
_CLOSING = {"(": ")]", "[": ")]", r"\{": (r"\}",)}


def read_formula(text: str) -> Formula | None:
    r"""Parse the whole of `text` as one formula.

    Args:
        text: A short text, such as the content of a `\boxed{}`.

    Returns:
        The formula, or None if the text is longer than `MAX_TEXT`, contains an unknown sign or
        command, is ambiguous, or contains unevaluated arithmetic.
    """
    if len(text) > MAX_TEXT:
        return None
    plain = text.translate(_CHARACTERS).strip().rstrip(". ")
    for opening, closing in _WRAPPING:
        if plain.startswith(opening) and plain.endswith(closing):
            plain = plain[len(opening) : -len(closing)].strip()
    for pattern, replacement in _NOTATION:
        plain = pattern.sub(replacement, plain)
    if not plain.isascii() or "**" in plain or _GROUPED_DIGITS.search(plain):
        return None
    try:
        return _Reader(_tokens(plain)).read()
    except UnreadError:
        return None


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise UnreadError
        token, position = match[1], match.end()
        if token[0].isalpha():
            if token not in _WORDS and (len(token) > 3 or token.lower() in _NO_VARIABLES):
                raise UnreadError
            tokens += _WORDS.get(token, list(token))
        else:
            tokens.append(token)
    signs = "".join(token for token in tokens if not token.isalpha())
    if not signs or "".join(tokens).isupper():
        raise UnreadError  # "no" is a word, not n * o; A-C-B is an order
    return tokens


class _Reader:
    def __init__(self, tokens: list[str]) -> None:
        self._tokens = [*tokens, ""]
        self._position = 0
        self._depth = 0

    def read(self) -> Formula:
        items = [self._relation()]
        separator = self._next if self._next in {",", r"\cup"} else ""
        while separator and self._next == separator:
            self._take()
            items.append(self._relation())
        if self._next:
            raise UnreadError
        if len(items) == 1:
            return items[0]
        return Group(separator, tuple(items))

    @property
    def _next(self) -> str:
        return self._tokens[self._position]

    def _take(self, expected: str | None = None) -> str:
        token = self._next
        if token != (expected or token) or not token:
            raise UnreadError
        self._position += 1
        return token

    def _relation(self) -> Formula:
        sides, signs = [self._sum()], []
        while self._next in _SIGNS:
            signs.append(self._take())
            sides.append(self._sum())
        if not signs:
            return sides[0]
        if any(isinstance(side, Group) for side in sides):
            raise UnreadError
        if all(sign in {">", ">="} for sign in signs):
            signs = [sign.replace(">", "<") for sign in reversed(signs)]
            sides.reverse()
        return Relation(tuple(signs), tuple(sides))

    def _sum(self) -> Formula:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise UnreadError
        negative = self._next == "-"
        if self._next in {"-", "+"}:
            self._take()
        terms = [self._product(negative=negative)]
        while self._next in {"-", "+"}:
            negative = self._take() == "-"
            terms.append(self._product(negative=negative))
        self._depth -= 1
        if len(terms) == 1:
            return terms[0]
        flat: list[Formula] = []
        for term in terms:
            flat += term.terms if isinstance(term, Sum) else [term]
        if sum(isinstance(term, Constant) for term in flat) > 1:
            raise UnreadError  # 17 + 1
        return Sum(ordered(flat))

    def _product(self, *, negative: bool) -> Formula:
        factors = [self._factor()]
        divisors: list[Formula] = []
        while True:
            if self._next == "*":
                self._take()
            elif self._next == "/":
                self._take()
                divisors.append(self._factor())
                if self._next in {"*", "/"} or self._begins_factor():
                    raise UnreadError  # 1/2x
                break
            elif not self._begins_factor():
                break
            elif self._next == r"\frac" and isinstance(factors[-1], Constant):
                raise UnreadError  # a mixed number, or a product
            factors.append(self._factor())
        return product(factors, divisors, negative=negative)

    def _begins_factor(self) -> bool:
        token = self._next
        return token.isalpha() or token in _NAMES | _FUNCTIONS | {"(", r"\frac", r"\sqrt"}

    def _factor(self) -> Formula:
        first = self._next
        base = self._atom()
        if self._next != "^":
            return base
        if first == r"\frac" or isinstance(base, Group | Call):
            raise UnreadError
        self._take()
        token = self._next
        if token == "{":
            exponent = self._braced()
        elif token == "(" or token.isalpha() or (token.isdigit() and len(token) == 1):
            exponent = self._atom()
        else:
            raise UnreadError
        if self._next == "^" or isinstance(exponent, Group):
            raise UnreadError
        return Power(base, exponent)

    def _atom(self) -> Formula:
        token = self._take()
        if token[:1].isdigit() or token[:1] == ".":
            return _constant(token)
        if token in _CLOSING:
            return self._group(token)
        if token in {r"\frac", r"\sqrt"}:
            return self._command(token)
        if token in _FUNCTIONS or (token in {"f", "g", "h"} and self._next == "("):
            return Call(token, self._argument())
        if token.isalpha() or token in _NAMES:
            return Name(token)
        raise UnreadError

    def _group(self, opening: str) -> Formula:
        items = [self._sum()]
        while self._next == ",":
            self._take()
            items.append(self._sum())
        closing = self._take()
        if closing not in _CLOSING[opening]:
            raise UnreadError
        brackets = opening + closing
        if len(items) == 1 and brackets == "()":
            return items[0]
        return Group(brackets, ordered(items) if opening == r"\{" else tuple(items))

    def _braced(self) -> Formula:
        self._take("{")
        inner = self._sum()
        self._take("}")
        return inner

    def _command(self, command: str) -> Formula:
        if command == r"\frac":
            return product([self._braced()], [self._braced()], negative=False)
        degree = "2"
        if self._next == "[":
            self._take()
            degree = self._take()
            self._take("]")
        radicand = self._atom() if self._next == "(" else self._braced()
        if degree not in set("23456789") or isinstance(radicand, Group):
            raise UnreadError
        return Root(int(degree), radicand)

    def _argument(self) -> Formula:
        if self._next == "{":
            argument = self._braced()
        elif self._next == "(":
            argument = self._atom()
        else:
            argument = Name(self._take())
            if not (argument.name.isalpha() or argument.name in _NAMES) or self._begins_factor():
                raise UnreadError  # sin xy
        if isinstance(argument, Group):
            raise UnreadError
        return argument


def _constant(digits: str) -> Constant:
    if len(digits) > MAX_DIGITS or re.match(r"0\d", digits):
        raise UnreadError
    return Constant(Fraction(digits))
