r"""Read a short text as one plain number with its unit, or not at all.

    parse_number(r"\$1{,}800.50")          # Number(Fraction(3601, 2), unit={"dollars"})
    parse_number("17 or 18")               # None

Digits, thousands separators, one sign, a fraction in lowest terms, a percent sign and words of a
unit are read. Arithmetic, ranges, estimates, number words, exponents and signs of other scripts
are not: what must be interpreted is no rule's to decide.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

MAX_TEXT = 120
"""Characters of a number with its unit."""
MAX_UNIT_WORDS = 4


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

_DIGITS = r"\d{1,3}(?:(?:,|\{,\}|\\,|\\!)\d{3})+|\d{1,30}"
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
    """Read the whole of a text as one number; None if any part of it is not understood.

    Args:
        text: a short text, such as the text after an answer marker.
    """
    if len(text) > MAX_TEXT or not text.isascii() or ".." in text:
        return None
    text = _WRAP.sub("", text).strip()
    if text[:1] == text[-1:] and text[:1] in ('"', "'"):
        text = text[1:-1].strip()
    if text.startswith("$") and text.endswith("$") and len(text) > 1:
        text = _WRAP.sub("", text[1:-1]).strip()
    whole = _BRACED.fullmatch(text)
    text = (whole[1] or whole[2]).strip() if whole else text
    found = _NUMBER.fullmatch(text.rstrip(".$ "))
    if found is None or (found["minus"] and found["inner"]):
        return None
    if found["top"] or found["over"]:
        top, bottom = int(found["top"] or found["over"]), int(found["bottom"] or found["under"])
        if bottom < 2 or math.gcd(top, bottom) != 1:
            return None  # 36/2 is a task, 6/8 may be a score
        value = Fraction(top, bottom)
    else:
        digits = re.sub(r"\D", "", found["whole"] or "0")
        if len(digits) > 1 and digits[0] == "0":
            return None
        value = Fraction(digits + (found["part"] or found["point"] or ""))
    unit = _unit(found["rest"] or "")
    if unit is None or (found["percent"] and (unit or found["currency"])):
        return None
    if found["currency"]:
        unit |= {"dollars"}
    return Number(
        -value if found["minus"] or found["inner"] else value, bool(found["percent"]), unit
    )


def _unit(rest: str) -> frozenset[str] | None:
    """The words of a unit; None if one of them may change the number or is none."""
    found = _IN_UNIT.sub(" ", rest).rstrip(" .").split()
    if len(found) > MAX_UNIT_WORDS or not all(word.isalpha() for word in found):
        return None
    unit = frozenset(word if len(word) < 3 else word.lower() for word in found)  # Mb, MB
    if not unit.isdisjoint(CHANGING | DOUBT | BE) or set(found[-1:]) & OPEN_END:
        return None
    return None if any(len(word) == 1 for word in unit - _LETTERS) else unit


OPEN_END = words("a an at by for from in of on per the to with")
"""Words with which no unit ends; "in" may be inches."""
_LETTERS = words("a g l")
