r"""What verifiers compare: grades, plain numbers with their units, gold answers, equal texts.

    parse_number(r"\$1{,}800.50")          # Number(Fraction(3601, 2), unit={"dollars"})
    parse_number("17 or 18")               # None

Digits, thousands separators, one sign, a fraction in lowest terms, a percent sign and words of a
unit are read. Arithmetic, ranges, estimates, number words, exponents and signs of other scripts
are not: what must be interpreted is no rule's to decide.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import deque
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal

RIGHT, WRONG, ABSTAINED = 1.0, 0.0, None

Outcome = Literal["right", "wrong", "abstain", "graded"]

_OUTCOMES: dict[float | None, Outcome] = {RIGHT: "right", WRONG: "wrong", ABSTAINED: "abstain"}


@dataclass(frozen=True, slots=True)
class Grade:
    """A rule's result for a response.

    Attributes:
        score: ``RIGHT`` or ``WRONG`` where the rule proves it, ``ABSTAINED`` where it proves
            nothing; a custom function may return any finite number.
        rule: the deciding rule, such as "marker_matches" or "reference_absent", or the reason for
            abstaining.
        answer: the text that was found and compared.
        span: start and end of the rule's match in the response, in characters; None if unknown.
    """

    score: float | None
    rule: str
    answer: str | None = None
    span: tuple[int, int] | None = None

    @property
    def outcome(self) -> Outcome:
        """The score in a word; "graded" is a custom function's."""
        return _OUTCOMES.get(self.score, "graded")


class VerifierError(RuntimeError):
    """The verifier failed, so nothing is known about the response."""


class UndecidedError(RuntimeError):
    """The verifier failed deterministically; do not retry.

    Attributes:
        rule: "too_slow" if it exceeded its CPU time, "not_computed" if it raised.
    """

    def __init__(self, rule: str, reason: str) -> None:
        super().__init__(reason)
        self.rule = rule


class UnusableReferenceError(ValueError):
    """The reference contains nothing that this verifier can compare with."""


MAX_TEXT = 120
"""Characters of a number with its unit."""
MAX_UNIT_WORDS = 4
MAX_ANSWER = 200
"""Characters after a marker."""
MAX_BOX = 2_000  # characters in a box, which may hold a matrix
_MANY_MARKS = re.compile(r"((?<![^\w\x00-\u02ff])[^\w\x00-\u02ff]{32,})")
_OPENING, BRACE = re.compile(r"\s{0,3}\{"), re.compile(r"[{}]")


def words(text: str) -> frozenset[str]:
    """The words of a list that is written as text."""
    return frozenset(text.split())


WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")

NUMERIC = words(
    """zero both one two three four five six seven eight nine ten eleven twelve thirteen fourteen
    fifteen sixteen seventeen eighteen nineteen twenty thirty forty fourty fifty sixty seventy
    eighty ninety hundred hundreds thousand thousands million millions billion billions trillion
    trillions half halves third thirds quarter quarters fourth fourths fifth fifths sixth sixths
    eighth eighths tenth tenths dozen dozens pair pairs couple couples score scores gross k m mil
    mn bn mio double triple twice thrice percent percentage none nothing nil nought cent cents
    pence penny pennies nickel nickels dime dimes squared cubed point am pm noon fold factorial
    basis bps permille root power exponent inverse reciprocal negative opposite lakh lakhs crore
    crores grand myriad"""
)
"""Words that are numbers, or change the number beside them."""
CHANGING = NUMERIC | words(
    """or and to than minus plus times over under above below between about approximately around
    more less fewer most least off short divided multiplied added subtracted mod remainder base
    binary octal hex hexadecimal repeating repeated recurring bar rounded choose loss debt owed"""
)
"""Words after a number that make it another one."""
MEASURES = words(
    """second seconds sec secs minute minutes min mins hour hours hr hrs day days week weeks wk wks
    month months year years yr yrs decade decades inch inches foot feet ft yard yards yd yds mile
    miles mm cm km meter meters metre metres m gram grams g kg kilograms ounce ounces oz pound
    pounds lb lbs ton tons tonne tonnes ml liter liters litre litres l cup cups pint pints quart
    quarts qt qts gallon gallons tablespoon tablespoons tbsp teaspoon teaspoons tsp acre acres
    degrees degree celsius fahrenheit kelvin radians mph kph bits bytes kb mb gb euro euros yen yuan
    pesos rupees francs"""
)
"""Units that convert into others."""
DOUBT = words(
    """not no never nor cannot wrong incorrect incorrectly false falsely mistake mistaken mistakenly
    error wait actually but however although though if unless suppose assume assuming maybe perhaps
    possibly probably might could either neither whether guess except instead rather than say says
    said claims claimed think thinks believe example e.g reference key judge grader expected
    instructed told ignore kidding joke twice half least most between approximately about around
    roughly over under otherwise yet doubt unsure isn't wasn't don't doesn't can't other another
    previous earlier hint sorry correction scratch nope hmm oops
    trap decoy exceed exceeds nicht kein pas non nie ne"""
)
"""Words that deny, suppose, quote or retract what stands beside them."""
BE = words(
    """is was are were be been being has have had do did does that which this it i we you when while
    because since as until"""
)

_DIGITS = r"\d{1,3}(?:(?:,(?:\\!)?|\{,\}|\\,|\\!)\d{3})+|\d{1,30}"
_NUMBER = re.compile(
    r"(?P<minus>-?) ?(?P<currency>\\?\$ ?)?(?P<inner>-?)"
    r"(?:(?P<top>\d{1,12}) ?/ ?(?P<bottom>\d{1,12})"
    r"|\\[dtc]?frac ?\{ ?(?P<over>\d{1,12}) ?\} ?\{ ?(?P<under>\d{1,12}) ?\}"
    rf"|(?P<whole>{_DIGITS})(?P<part>\.\d{{1,20}})?|(?P<point>\.\d{{1,20}}))"
    r"(?P<percent> ?\\?%| percent\b)?(?P<rest>(?:[ ~$*]|\\[ ,$]|\\(?:text|mathrm|textbf)\{).*)?",
    re.DOTALL,
)
_WRAP = re.compile(r"^(?:[\s*_`:=]|\\[(\[]|\$(?=\$|\\))+|(?:[\s*_`.:,;]|\\[)\]])+$")
_BRACED = re.compile(r"\{(-?[\d.,]+)\}|\\(?:text|mathrm|mathbf|textbf|boxed|fbox) ?\{([^{}]*)\}")
_IN_UNIT = re.compile(r"\\(?:text|mathrm|textbf)\{|[{}$~*]|\\[ ,$]")


@dataclass(frozen=True, slots=True)
class Number:
    """A number as written.

    Attributes:
        value: the exact value; of a percentage, the number before the sign (18% is 18).
        percent: whether it is a percentage.
        unit: the words after it in lower case; "dollars" for a ``$``.
    """

    value: Fraction
    percent: bool = False
    unit: frozenset[str] = frozenset()


@lru_cache(maxsize=128)  # a group's samples have one reference
def parse_number(text: str) -> Number | None:
    """Read the whole of a short text as one number; None if a part of it is not understood."""
    if len(text) > MAX_TEXT or not text.isascii() or ".." in text:
        return None
    text = _WRAP.sub("", text).strip()
    if text[:1] == text[-1:] and text[:1] in ('"', "'"):
        text = text[1:-1].strip()
    if text.startswith("$") and text.endswith("$") and len(text) > 1:
        text = _WRAP.sub("", text[1:-1]).strip()
    whole = _BRACED.fullmatch(text)
    text = (whole[1] or whole[2]).strip() if whole else text
    match = _NUMBER.fullmatch(text.rstrip(".$ "))
    if match is None or (match["minus"] and match["inner"]):
        return None
    if match["top"] or match["over"]:
        top, bottom = int(match["top"] or match["over"]), int(match["bottom"] or match["under"])
        if bottom < 2 or math.gcd(top, bottom) != 1:
            return None  # 36/2 is a task, 6/8 may be a score
        value = Fraction(top, bottom)
    else:
        digits = re.sub(r"\D", "", match["whole"] or "0")
        if len(digits) > 1 and digits[0] == "0":
            return None
        value = Fraction(digits + (match["part"] or match["point"] or ""))
    unit = _unit(match["rest"] or "")
    if unit is None or (match["percent"] and (unit or match["currency"])):
        return None
    if match["currency"]:
        unit |= {"dollars"}
    return Number(
        -value if match["minus"] or match["inner"] else value, bool(match["percent"]), unit
    )


def _unit(rest: str) -> frozenset[str] | None:
    """The words of a unit; None if one of them may change the number or is none."""
    words = _IN_UNIT.sub(" ", rest).rstrip(" .").split()
    if len(words) > MAX_UNIT_WORDS or not all(word.isalpha() for word in words):
        return None
    unit = frozenset(word if len(word) < 3 else word.lower() for word in words)  # Mb, MB
    if not unit.isdisjoint(CHANGING | DOUBT | BE) or set(words[-1:]) & OPEN_END:
        return None
    return None if any(len(word) == 1 for word in unit - _LETTERS) else unit


OPEN_END = words("a an at by for from in of on per the to with")
"""Words with which no unit ends; "in" may be inches."""
_LETTERS = words("a g l")


def braced(text: str, start: int) -> tuple[str, int] | None:
    """The text of the group in braces at `start`, after up to three spaces, and where it ends.

    None if no group begins there, or if it does not end within `MAX_BOX` characters.
    """
    opening = _OPENING.match(text, start)
    if opening is None:
        return None
    depth = 1
    for brace in BRACE.finditer(text, opening.end(), opening.end() + MAX_BOX):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return text[opening.end() : brace.start()], brace.end()
    return None


_BOX = re.compile(r"\\(?:boxed|fbox|framebox)(?![a-z])")
_NO_ANSWER = re.compile(r"(?:####|answer is:?)[\s$*]*\Z")
_FORMULA_SIGNS = re.compile(r"[\\^_{}=<>+*/|'\u2032]")
WRAPPINGS = (("**", "**"), ("`", "`"), ("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"))
_IN_TEXT = re.compile(r"^\\(?:text|textbf|textit|textrm|mathrm|mathbf|mbox) ?\{([^{}\\]*)\}$")
_CHOICE = re.compile(r"\(?([A-J])[).]")  # of several: "(B)", "B)"
_FIRST_LOOK = 100  # characters to check before the whole text
_BLANK_LETTERS = frozenset("$+<=>^`|~\u115f\u1160\u2800\u3164\uffa0")
_BLANK_CATEGORIES = frozenset(["Cc", "Cf", "Cs", "Mn", "Me"])
_CASELESS = frozenset(["yes", "no", "true", "false"])


def final_answer(reference: str) -> str:
    r"""The gold answer of a solution: what follows its last "####", else its last box, else all."""
    _, marker, end = reference.rpartition("####")
    text = end.strip()
    bare = text.strip("$ ").removeprefix("\\[").removesuffix("\\]").strip()
    last = deque(_BOX.finditer(bare), maxlen=1)
    if not last or (marker and last[0].start()):
        return text
    box = last[0]
    inner = braced(bare, box.end())
    if inner is None or (marker and inner[1] != len(bare)):
        return text
    return inner[0].strip()


def ends_without_answer(response: str) -> bool:
    r"""Whether the last marker has no answer: an open or empty ``\boxed{``, a bare ``####``."""
    if _NO_ANSWER.search(response[-100:]):
        return True
    last = deque(_BOX.finditer(response), maxlen=1)
    if not last:
        return False
    rest = response[last[0].end() :].lstrip()
    if rest.startswith("{"):
        inner = braced(response, last[0].end())
        return inner is None or not inner[0].strip()
    return not rest or (rest.startswith(("[", "\\")) and rest.count("{") > rest.count("}"))


def gold_answer(reference: str) -> str:
    """The answer in a reference: the text after its last ``####``, or else all of it.

    Raises:
        UnusableReferenceError: it contains no answer.
    """
    answer = final_answer(reference)
    if not answer:
        raise UnusableReferenceError(
            f"{reference[-64:]!a} contains no answer; send the gold answer"
        )
    return answer


def not_latex(reference: str) -> str:
    """What is wrong with a reference that math-verify cannot parse."""
    return (
        f"{reference[-64:]!a} is not a formula that math-verify can parse; send LaTeX, or set "
        "rule.verifier: exact"
    )


def normalised(text: str) -> str:
    """The text in Unicode NFC, with runs of whitespace replaced by a space and stripped.

    Case, punctuation and compatibility characters (², full-width letters) are kept, and so are 16
    marks in a row or more, which NFC sorts in quadratic time.
    """
    parts = _MANY_MARKS.split(text)
    parts[::2] = (unicodedata.normalize("NFC", part) for part in parts[::2])
    return " ".join("".join(parts).split())


def is_blank(text: str) -> bool:
    """Whether a text shows no letter, digit or symbol that could be an answer."""
    first = set(text[:_FIRST_LOOK])
    return all(map(is_blank_character, first)) and all(map(is_blank_character, set(text)))


def is_blank_character(character: str) -> bool:
    """Whether a character is a space, punctuation or invisible."""
    category = unicodedata.category(character)
    return category[0] in "ZP" or category in _BLANK_CATEGORIES or character in _BLANK_LETTERS


def same_text(text: str, other: str) -> bool:
    """Whether two answers are the same text, but for markup around it and capitals in "yes".

    A point at the beginning, a prime, and case (Co and CO, n and N) tell answers apart.
    """
    text, other = bare(text), bare(other)
    if text == other or _FORMULA_SIGNS.search(text + other):
        return text == other
    words, others = text.split(), other.split()
    return len(words) == len(others) and all(map(_same_word, words, others))


def bare(text: str) -> str:
    """The text without markup around the whole of it, and without its full stop."""
    text = normalised(text)
    if text.count("**") % 2:
        text = text.removesuffix("**")  # a marker within the bold text has the other two
    for opening, closing in WRAPPINGS:
        inner = text.removeprefix(opening).removesuffix(closing)
        if len(text) - len(inner) == len(opening + closing) and opening not in inner:
            text = inner.strip()
    text = _IN_TEXT.sub(r"\1", text).strip()
    text = text if text.endswith("..") else text.removesuffix(".").rstrip()
    letter = _CHOICE.fullmatch(text)
    return letter[1] if letter else text


def _same_word(word: str, other: str) -> bool:
    return word == other or (word.casefold() == other.casefold() in _CASELESS)
