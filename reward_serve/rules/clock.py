"""Times of day: "17:30" is "5:30 PM", and "5:30 AM" is another time."""

from __future__ import annotations

import re

from reward_serve.rules.tails import is_bare

MAX_TEXT = 20_000  # characters that are searched for times
_LONGEST = 40  # characters of a time
_NOON = 12 * 60  # minutes
_HALF = r"([ap])\.?\s?m\b\.?"
_CLOCK = re.compile(
    rf"(?<![\w.:])(\d{{1,2}})(?::(\d{{2}})(?:\s{{0,2}}{_HALF})?|\s{{0,2}}{_HALF})(?![:\d])", re.I
)
_HOURS = (
    *("twelve", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"),
    *("nineteen", *4 * ("twenty",)),
)
# A time in words or another zone, or one that is taken back.
_IN_DOUBT = re.compile(
    r"\b(?:noon|mid(?:night|day)|morning|afternoon|evening|tonight|night|half|quarter|past"
    r"|o.?clock|utc|gmt|(?-i:[A-Z]{1,3}T)|not?|never|instead|rather|wrong|nicht|kein|pas|non)\b"
    r"|n['\u2019]t\b|\b(?:min(?:ute)?s?|five|ten|twenty(?:.five)?) (?:to|till?|before|after)\b",
    re.I,
)


_RELATIVE = re.compile(r"(?:after|before|from|to|till?|until|plus|minus|[+-])\s*$", re.I)
_TEXT = re.compile(r"\\(?:text|mathrm|textbf)\s?\{([^{}]*)\}")


def is_time(text: str) -> bool:
    """Whether a text is a time of day; not "5:30", which may be in either half, or a ratio."""
    return _clock(text) is not None


def is_same_time(text: str, gold: str) -> bool:
    """Whether both texts are times of day, and the same."""
    return _clock(gold) is not None and _clock(text) == _clock(gold)


def is_another_time(text: str, gold: str) -> bool:
    """Whether a text ends with a time of day, and never names the gold one in any form."""
    wanted = _clock(gold)
    if wanted is None or not re.search("[ap]", gold, re.I) or len(text) > MAX_TEXT:
        return False  # without a half of the day, the gold answer may be a ratio
    text = _TEXT.sub(r"\1", text)
    found = list(_CLOCK.finditer(text))
    if not found or not is_bare(text[found[-1].end() :]):
        return False
    if _RELATIVE.search(text[: found[-1].start()][-20:]):
        return False
    times = [_minutes(each) for each in found]
    if None in times or wanted in times or not text.isascii() or _IN_DOUBT.search(text):
        return False
    hour, minute = divmod(wanted, 60)
    hours = {hour, hour % 12 or 12}
    forms = {form for h in hours for form in (f"{h}", f"{h:02}", _HOURS[h])}
    forms |= {f"{h:{width}}{minute:02}" for h in hours for width in ("", "02")}
    return forms.isdisjoint(re.findall(r"\d+|[a-z]+", _CLOCK.sub(" ", text).lower()))


def _clock(text: str) -> int | None:
    if len(text) > _LONGEST:
        return None
    found = _CLOCK.fullmatch(_TEXT.sub(r"\1", text).strip(" .*$"))
    return _minutes(found) if found else None


def _minutes(found: re.Match[str]) -> int | None:
    """Minutes after midnight; None if the half of the day is open, or there is no such time."""
    hour, minute, half = int(found[1]), int(found[2] or 0), found[3] or found[4]
    if minute > 59:
        return None
    if half:
        later = _NOON if half in "pP" else 0
        return 60 * (hour % 12) + minute + later if 0 < hour < 13 else None
    return 60 * hour + minute if hour == 0 or 12 < hour < 24 else None
