r"""Labelled rows of kinds that rules leave to the judge, independent of the training's generator.

Durations and times of day, numbers in other bases, intervals and tuples, and plain words, each with
notations, near misses and wordings of this module.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from random import Random

from reward_serve_judge.training.texts import loaded

Row = tuple[str, str, bool]
"""Reference, answer as a response writes it, and whether they are equal."""

_TEXTS = loaded("unseen_notations.yaml")
_HOURS = (
    "twelve", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven",
)  # fmt: skip

_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def _of_day(rng: Random) -> Row:
    hour, minute = rng.randrange(24), rng.choice((0, 0, 15, 30, 45, 10, 20, 40, 5, 55))

    def spoken(hour: int, minute: int) -> str:
        half, part = hour >= 12, _part(hour)
        forms = [
            f"{hour % 12 or 12}:{minute:02} {'PM' if half else 'AM'}",
            f"{hour % 12 or 12}:{minute:02}{'pm' if half else 'am'}",
            f"{hour % 12 or 12}.{minute:02} {'p.m.' if half else 'a.m.'}",
            f"{hour:02}:{minute:02}", f"{hour:02}h{minute:02}", f"{hour:02}:{minute:02}:00",
        ]  # fmt: skip
        name, after = _HOURS[hour % 12], _HOURS[(hour + 1) % 12]
        if part:
            if minute == 30:
                forms += [f"half past {name} {part}"] * 2
            if minute == 15:
                forms += [f"quarter past {name} {part}"] * 2
            if minute == 45 and _part(hour + 1) == part:
                forms += [f"a quarter to {after} {part}"] * 2
            if minute == 0:
                forms += [f"{name} o'clock {part}", f"{hour % 12 or 12} {'PM' if half else 'AM'}"]
        if minute == 0 and hour in (0, 12):
            forms += ["noon" if hour else "midnight"] * 3
        return rng.choice(forms)

    reference = f"{hour % 12 or 12}:{minute:02} {'PM' if hour >= 12 else 'AM'}"
    if rng.random() < 0.35:
        reference = f"{hour:02}:{minute:02}"
    if rng.random() < 0.5:
        return reference, spoken(hour, minute), True
    other = rng.choice(((hour + 12) % 24,) * 4 + ((hour + 1) % 24, (hour - 1) % 24) + (hour,) * 2)
    moved = minute if other != hour else (minute + rng.choice((5, 10, 15, 30, 45))) % 60
    return reference, spoken(other, moved), False


def _part(hour: int) -> str:
    if 5 <= hour < 12:
        return "in the morning"
    if 12 < hour < 18:
        return "in the afternoon"
    return "in the evening" if 18 <= hour < 22 else ""


def _duration(rng: Random) -> Row:
    minutes = rng.choice((65, 75, 80, 90, 95, 100, 105, 110, 125, 135, 140, 150, 160, 165, 190, 200,
                          210, 225, 255, 270, 320, 330, 345))  # fmt: skip

    def spoken(minutes: int) -> str:
        hours, rest = divmod(minutes, 60)
        forms = [
            f"{hours} hours and {rest} minutes", f"{hours} h {rest} min", f"{hours}h{rest:02}m",
            f"{hours} hr {rest} min", f"{hours} hours, {rest} minutes", f"{minutes} minutes",
            f"{minutes} min", f"{_HOURS[hours]} hours and {rest} minutes",
            f"{minutes} minutes, that is {hours} hours {rest} minutes",
            f"{hours} hours {rest} minutes ({minutes} minutes)",
        ]  # fmt: skip
        if rest == 30:
            forms += [f"{hours}.5 hours", f"{hours} and a half hours", f"{hours}½ hours"]
        if rest == 15:
            forms += [f"{hours}.25 hours", f"{hours} and a quarter hours"]
        return rng.choice(forms).replace("1 hours", "1 hour").replace("one hours", "one hour")

    hours, rest = divmod(minutes, 60)
    reference = rng.choice(
        (f"{hours} hours {rest} minutes", f"{hours} hours and {rest} minutes", f"{minutes} minutes")
    ).replace("1 hours", "1 hour")
    if rng.random() < 0.5:
        return reference, spoken(minutes), True
    chance = rng.random()
    if chance < 0.3:  # the unit alone is wrong
        return reference, f"{minutes} {rng.choice(('hours', 'seconds', 'days'))}", False
    if chance < 0.45:
        wrong = f"{rest} hours and {hours} minutes"
        return reference, wrong, False
    if chance < 0.6:  # a decimal read as minutes
        tenths = f"{rest:02}" if rest % 15 else rest // 6 + 1
        return reference, f"{hours}.{tenths} hours", False
    return reference, spoken(minutes + rng.choice((-60, -10, -5, 5, 10, 15, 60, 40))), False


def _based(rng: Random) -> Row:
    base = rng.choice((2, 2, 2, 3, 4, 5, 6, 7, 8, 8, 9, 16, 16, 16))
    value = rng.randint(base * 2, 300)
    digits = _digits(value, base)
    marks = {2: "binary", 8: "octal", 16: "hexadecimal"}

    def spoken(digits: str, base: int) -> str:
        forms = [f"{digits}_{{{base}}}", f"{digits}_{base}", f"({digits})_{base}",
                 f"{digits} in base {base}", f"{digits} (base {base})",
                 f"{digits}_{{\\text{{{base}}}}}",
                 digits + str(base).translate(_SUBSCRIPTS)]  # fmt: skip
        if base == 16:
            forms += [f"0x{digits}"] * 2 + [f"0x{digits.lower()}"] * 2
        if base == 2:
            forms += [f"0b{digits}"] * 2
        if base == 8:
            forms += [f"0o{digits}"] * 2
        if base in marks:
            forms += [f"{digits} in {marks[base]}", f"{marks[base]} {digits}"]
        return rng.choice(forms)

    reference = rng.choice((f"{digits}_{base}", f"{digits}_{{{base}}}", f"{digits}_{{{base}}}"))
    if base == 16 and rng.random() < 0.5:
        reference = f"0x{digits}"
    if base == 2 and rng.random() < 0.2:
        reference = f"0b{digits}"
    chance = rng.random()
    if chance < 0.4:
        return reference, spoken(digits, base), True
    if chance < 0.5:
        return reference, rng.choice((f"{value} in decimal", f"{value}_{{10}}", str(value))), True
    if chance < 0.7:
        least = max(int(digit, 16) for digit in digits) + 1
        others = [b for b in (2, 3, 4, 5, 6, 7, 8, 9, 16) if b >= least and b != base]
        if others:
            return reference, spoken(digits, rng.choice(others)), False
    if chance < 0.76:
        wrong = value + rng.choice((-2, -1, 1, 2, 10))
        return reference, rng.choice((f"{wrong}_{{10}}", f"{wrong} in decimal")), False
    return reference, spoken(_digits(value + rng.choice((-2, -1, 1, 2, base)), base), base), False


def _digits(value: int, base: int) -> str:
    out = ""
    while value:
        value, digit = divmod(value, base)
        out = "0123456789ABCDEF"[digit] + out
    return out


def _interval(rng: Random) -> Row:
    low = rng.randint(-9, 6)
    high, left, right = low + rng.randint(1, 9), rng.random() < 0.5, rng.random() < 0.5

    def spoken(low: int, high: int, left: bool, right: bool) -> str:
        comma = rng.choice((",", ", "))
        plain = f"{'[' if left else '('}{low}{comma}{high}{']' if right else ')'}"
        le, ge = ("\\leq", "\\geq") if rng.random() < 0.3 else ("≤", "≥")
        return rng.choice((
            plain, plain, f"$x \\in {plain}$", f"\\left{plain[:-1]}\\right{plain[-1]}",
            f"{low} {le if left else '<'} x {le if right else '<'} {high}",
            f"x {ge if left else '>'} {low} and x {le if right else '<'} {high}",
            f"all x with {low} {le if left else '<'} x {le if right else '<'} {high}",
            f"the interval {plain}",
        ))  # fmt: skip

    if rng.random() < 0.35:  # two rays
        first, last = ("[", "]") if left else ("(", ")")
        reference = rf"(-\infty, {low}{last} \cup {first}{high}, \infty)"

        def rays(low: int, high: int, closed: bool) -> str:
            opens, shuts = ("[", "]") if closed else ("(", ")")
            less, more = ("≤", "≥") if closed else ("<", ">")
            return rng.choice((
                f"(-∞, {low}{shuts} ∪ {opens}{high}, ∞)", f"x {less} {low} or x {more} {high}",
                rf"x \in (-\infty,{low}{shuts} \cup {opens}{high},\infty)",
                f"(-inf, {low}{shuts} U {opens}{high}, inf)",
                f"{{x : x {less} {low} or x {more} {high}}}",
            ))  # fmt: skip

        if rng.random() < 0.5:
            return reference, rays(low, high, left), True
        chance = rng.random()
        if chance < 0.4:
            return reference, rays(low, high, not left), False
        if chance < 0.6:
            return reference, spoken(low, high, left, left), False
        return reference, rays(low + rng.choice((-1, 1, -2)), high + 2, left), False
    reference = f"{'[' if left else '('}{low}, {high}{']' if right else ')'}"
    if rng.random() < 0.5:
        return reference, spoken(low, high, left, right), True
    chance = rng.random()
    if chance < 0.6:
        ends = rng.choice(((not left, right), (left, not right), (not left, not right)))
        return reference, spoken(low, high, *ends), False
    if chance < 0.8:
        return reference, spoken(low - rng.randint(1, 3), high, left, right), False
    return reference, spoken(low, high + rng.randint(1, 3), left, right), False


def _tuple(rng: Random) -> Row:
    def drawn() -> str:
        half = f"{rng.choice((1, 3, 5))}/{rng.choice((2, 4))}"
        return rng.choice((str(rng.randint(-12, 20)), half))

    parts = [drawn() for _ in range(rng.choice((2, 2, 3, 3, 4)))]
    while len(set(parts)) < 2:
        parts[0] = str(rng.randint(-12, 20))
    reference = f"({', '.join(parts)})"

    def spoken(parts: list[str]) -> str:
        tex = [re.sub(r"(-?\d+)/(\d)", r"\\frac{\1}{\2}", part) for part in parts]
        decimals = [str(_value(p)) if "/" in p else p for p in parts]
        names = "xyzw"[: len(parts)]
        return rng.choice((
            f"({', '.join(parts)})", f"({','.join(parts)})", f"$({', '.join(tex)})$",
            rf"\left({', '.join(tex)}\right)", f"({', '.join(decimals)})",
            ", ".join(f"{n} = {p}" for n, p in zip(names, parts, strict=True)),
            " and ".join(f"{n}={p}" for n, p in zip(names, parts, strict=True)),
            f"({', '.join(names)}) = ({', '.join(parts)})", f"the point ({', '.join(parts)})",
        ))  # fmt: skip

    if rng.random() < 0.5:
        return reference, spoken(parts), True
    chance, wrong = rng.random(), list(parts)
    if chance < 0.5:
        while wrong == parts:
            rng.shuffle(wrong)
    elif chance < 0.7:
        at = rng.randrange(len(parts))
        wrong[at] = wrong[at][1:] if wrong[at][0] == "-" else f"-{wrong[at]}"
        if wrong[at] in ("0", "-0"):
            wrong[at] = "7"
    elif chance < 0.8 and len(parts) > 2:
        wrong = wrong[:-1]
    else:
        at = rng.randrange(len(parts))
        wrong[at] = str(rng.randint(21, 40))
    return reference, spoken(wrong), False


def _value(text: str) -> float:
    top, bottom = text.split("/")
    return int(top) / int(bottom)


def _word(rng: Random) -> Row:
    chance = rng.random()
    if chance < 0.2:
        word, other = rng.sample(rng.choice(_TEXTS["same"]).split(), 2)
        return word, _cased(other, rng), True
    word, other = rng.sample(rng.choice(_TEXTS["unlike"]).split(), 2)
    if chance < 0.5:
        return word, _cased(other, rng), False
    if chance < 0.62:
        return (
            word,
            rng.choice((f"not {word}", f"It is not {word}.", f"certainly not {word}")),
            False,
        )
    if chance < 0.72:
        return word, rng.choice((f"{word}, not {other}", f"{word} (and not {other})")), True
    if chance < 0.8:
        return word, f"{other}, not {word}", False
    return word, _cased(word, rng), True


def _cased(text: str, rng: Random) -> str:
    return rng.choice((text, text.upper(), text.capitalize(), text.lower(), f'"{text}"'))


def _verdict(rng: Random) -> Row:
    positive, right = rng.random() < 0.5, rng.random() < 0.5
    reference = "yes" if positive == right else "no"
    text = rng.choice(_TEXTS["positive"] if positive else _TEXTS["negative"])
    return rng.choice((reference, reference.capitalize())), text, right


_KINDS: dict[str, tuple[Callable[[Random], Row], ...]] = {
    "durations, times": (_of_day, _duration),
    "other bases": (_based,),
    "intervals, tuples": (_interval, _tuple),
    "plain words": (_word, _word, _verdict),
}


def written(count: int, seed: int) -> Iterator[tuple[str, Row]]:
    """Rows of each kind: the kind, then reference, response and whether they are equal.

    Args:
        count: rows of each kind.
        seed: seed of the rows.
    """
    for kind, made in _KINDS.items():
        for place in range(count):
            rng, draw = Random(f"{seed}/{kind}/{place}"), made[place % len(made)]
            reference, answer, equal = draw(rng)
            form = "{}" if draw is _verdict else rng.choice(_TEXTS["wordings"])
            yield kind, (reference, form.format(answer), equal)
