r"""One notation for times of day, durations, and numbers of another base.

    17:30, half past 5 in the afternoon, 05:30 p.m.       # 5:30 PM
    2 hours and 40 minutes, 2h40m                         # 160 minutes
    0x1F, 1F_{16}, (1F)_{16}, 1F in hexadecimal           # 31

Part of `canonical`, which has put number words in digits before. A time without a half of the day
stays so: "half past 5" is 5:30.
"""

from __future__ import annotations

import re
from functools import partial

from reward_serve_judge.notation import steps

_steps = partial(steps, flags=re.IGNORECASE)
_BASES = {"binary": 2, "octal": 8, "decimal": 10, "hexadecimal": 16, "hex": 16}
_BASE = r"(?:base[ -]?(\d{1,2})|(binary|octal|decimal|hexadecimal|hex))(?![\w-])"
_NOT_ITS_NAME = r"(?!\)?\s?(?:is|are|equals|becomes|gives|to|as)\b|\)?\s?[=:→])"
_SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")


def _of_base(digits: str, base: int, whole: str) -> str:
    """The value in decimal digits; the text as it is where the digits are not of the base."""
    letters = re.search("[A-Za-z]", digits)
    if letters and (not re.search(r"\d", digits) and (base, len(digits) > 1) != (16, True)):
        return whole  # a variable with an index
    try:
        return str(int(digits, base))
    except ValueError:
        return whole


def _indexed(match: re.Match[str]) -> str:
    digits, index = match[1] or match[2], match[3] or match[4]
    return _of_base(digits, int(index.translate(_SUBSCRIPTS)), match[0])


def _clock(hour: int, minute: str | None, late: bool) -> str:
    """5 PM or 5:30 PM."""
    minutes = f":{minute}" if int(minute or 0) else ""
    return f"{hour % 12 or 12}{minutes} {'PM' if late else 'AM'}"


def _half_day(match: re.Match[str]) -> str:
    hour, late = int(match[1]), match[3].lower() == "p"
    return _clock(hour, match[2], late) if 0 < hour <= 12 else match[0]


def _part_of_day(match: re.Match[str]) -> str:
    """5:30 PM for "5:30 in the afternoon", 11 PM for "11 o'clock at night"."""
    hour, part = int(match[1]), match[3].lower()
    if not 0 < hour <= 12:
        return match[0]
    early = part == "morning" or (part == "night" and (hour < 6 or hour == 12))
    return _clock(hour, match[2], not early)


def _of_24(match: re.Match[str]) -> str:
    """5:30 PM for 17:30; 10:15 may be of either half."""
    return _clock(int(match[1]), match[2], int(match[1]) > 12)


def _duration(match: re.Match[str]) -> str:
    return f"{int(match[1]) * 60 + int(match[2])} {'minutes' if match[3] else 'seconds'}"


_HOUR = r"(?<![\w.,:/$])(\d{1,2})"
_HALF_DAY = r"([ap])(?:m\b|\.\s?m\b\.?)(?!\w)"
MEASURES = (
    _steps(re.compile(r"[\dA-F)]\s?_\s?\{?\d|\b0[xbo]|[₀-₉]", re.IGNORECASE),
        (r"(?<![\w.,^\\])(?:\(([0-9A-F]{1,40})\)|([0-9A-F]{1,40}))\s?"
         r"(?:_\s?\{?\s?(\d{1,2})\s?\}?|([₀-₉]{1,2}))(?![\w₀-₉])", _indexed),
        (r"(?<![\w.,])0([xbo])([0-9A-F]{1,40})(?!\w)",
         lambda m: _of_base(m[2], {"x": 16, "b": 2, "o": 8}[m[1].lower()], m[0]))),
    _steps(("base", "binary", "octal", "decimal", "hex"),
        (rf"(?<![\w.,])(\()?(\d[0-9A-F]{{0,39}}|[A-F]\d[0-9A-F]{{0,38}})(?(1)\))"
         rf"(?: (\()(?:in )?|,? in |,? (?=base)){_BASE}{_NOT_ITS_NAME}(?(3)\))",
         lambda m: _of_base(m[2], int(m[4] or _BASES[m[5].lower()]), m[0])),
        (r"\b(binary|octal|hexadecimal|hex)(?: number)? (\d[0-9A-F]{0,39})(?![\w.,])",
         lambda m: _of_base(m[2], _BASES[m[1].lower()], m[0]))),
    _steps(("past", "quarter", "noon", "midnight"),
        (r"\bhalf[- ]past (\d{1,2})\b", r"\1:30"),
        (r"\b(?:a )?quarter past (\d{1,2})\b", r"\1:15"),
        (r"\b(?:a )?quarter to (\d{1,2})\b", lambda m: f"{(int(m[1]) - 2) % 12 + 1}:45"),
        (r"\b12(?::00)? noon\b", "12 PM"),
        (r"\b12(?::00)? midnight\b", "12 AM")),
    _steps(re.compile(r"\d\s?[ap]\.?\s?m\b|\d:\d|o'clock", re.IGNORECASE),
        (rf"{_HOUR}(?:[:.](\d\d)(?::00)?)?\s?{_HALF_DAY}", _half_day),
        (rf"{_HOUR}(?::(\d\d)(?: o'clock)?| o'clock),? "
         r"(?:in the |at )(morning|afternoon|evening|night)\b", _part_of_day),
        (rf"{_HOUR} o'clock\b", r"\1:00"),
        (r"(?<![\w:.,])(0\d|1[3-9]|2[0-3]):([0-5]\d)(?::00)?(?: hours|h)?(?![\d:])", _of_24)),
    _steps(re.compile(r"\d\s?[hm]", re.IGNORECASE),
        (r"(?<![\w.,])(\d{1,4}) ?(?:h|hrs?|hours?)\.?(?:,? and |, ?| )?"
         r"(\d{1,2}) ?(m|mins?|minutes?)\b", _duration),
        (r"(?<![\w.,])(\d{1,4}) ?(?:mins?|minutes?)\.?(?:,? and |, ?| )"
         r"(\d{1,2}) ?()(?:s|secs?|seconds?)\b", _duration)),
)  # fmt: skip
"""Steps of `canonical`."""
