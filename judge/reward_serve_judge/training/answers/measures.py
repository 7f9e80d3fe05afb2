"""Quantities with units, dates, times of day, and durations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from fractions import Fraction
from random import Random
from typing import ClassVar

from typing_extensions import override

from reward_serve_judge.training.answers.base import Answer
from reward_serve_judge.training.answers.numerals import decimal, spelled
from reward_serve_judge.training.texts import KINDS, UNITS

_MINUTES = (Fraction(1, 60), 1, 60, 1440, 10_080, 525_600)
"""Of each unit of time."""
_TIMES_1000 = {"length": ((0, 2), (2, 3)), "mass": ((0, 1),), "volume": ((1, 0),)}
"""Pairs of units of which the second is a thousand of the first."""
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
_MONDAY = date(2024, 1, 1)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@dataclass(frozen=True, slots=True)
class Quantity(Answer):
    """A number of a unit; units are not converted, and a missing one is not compared."""

    kind: ClassVar[str] = "unit"
    number: Fraction
    group: str
    unit: int

    @classmethod
    def invented(cls, rng: Random) -> Quantity:
        """A random quantity."""
        group = rng.choice(list(UNITS))
        number = Fraction(rng.randint(1, 400), rng.choice((1, 1, 1, 1, 2, 10)))
        return cls(number, group, rng.randrange(len(UNITS[group])))

    @override
    def written(self, rng: Random, *, tex: bool = False, lang: str = "en") -> str:
        number, unit = self._number(), rng.choice(UNITS[self.group][self.unit])
        if not tex and rng.random() < 0.12 and (text := self.restated(rng)):
            return text
        if tex:
            return (
                rf"{number}\ \text{{{unit}}}"
                if rng.random() < 0.5
                else rf"{number} \text{{ {unit}}}"
            )
        return (
            number + ("" if len(unit) < 3 and unit != "in" and rng.random() < 0.25 else " ") + unit
        )

    @override
    def reference(self, rng: Random) -> str:
        return f"{self._number()} {rng.choice(UNITS[self.group][self.unit][:2])}"

    def _number(self) -> str:
        return decimal(self.number) or str(self.number)

    def restated(self, rng: Random) -> str | None:
        """With the same amount in another unit: "540 meters (0.54 km)"; None without one."""
        text, others = self._short(rng), []
        if self.group == "time":
            forms = Duration(self.number * _MINUTES[self.unit]).forms(rng)
            others = [form for form in forms if not form.startswith(text.split()[0] + " ")]
        elif other := self._converted(rng):
            others = [other._short(rng)]
        return rng.choice(KINDS["restated"]).format(text, rng.choice(others)) if others else None

    def _short(self, rng: Random) -> str:
        return f"{self._number()} {rng.choice(UNITS[self.group][self.unit])}"

    def _converted(self, rng: Random) -> Quantity | None:
        """The same amount in a unit a thousand times as large or small, if there is one."""
        pairs = _TIMES_1000.get(self.group, ())
        amounts = [(self.number / 1000, large) for small, large in pairs if small == self.unit]
        amounts += [(self.number * 1000, small) for small, large in pairs if large == self.unit]
        forms = [Quantity(number, self.group, unit) for number, unit in amounts if decimal(number)]
        return rng.choice(forms) if forms else None

    @override
    def miss(self, rng: Random, others: Sequence[Answer]) -> Quantity:
        chance = rng.random()
        number = self.number
        if chance < 0.4:
            number = rng.choice(
                (number + 1, number - 1, number * 10, number / 10, number * 2, -number)
            )
        unit = self.unit if chance < 0.35 else rng.randrange(len(UNITS[self.group]))
        return Quantity(number, self.group, unit)


@dataclass(frozen=True, slots=True)
class Day(Answer):
    """A date, or a day of the week, which is then a date of ``_MONDAY``'s week."""

    kind: ClassVar[str] = "date"
    date: date
    weekday: bool = False

    @classmethod
    def invented(cls, rng: Random) -> Day:
        """A random day of two centuries, or of a week."""
        if rng.random() < 0.25:
            return cls(_MONDAY + timedelta(days=rng.randrange(7)), weekday=True)
        return cls(date(1900, 1, 1) + timedelta(days=rng.randrange(60_000)))

    @override
    def written(self, rng: Random, *, tex: bool = False, lang: str = "en") -> str:
        day = self.date
        if self.weekday:
            name = _DAYS[day.weekday()]
            text = rng.choice((name, name, name.lower(), name[:3], name.upper()))
        else:
            month = _MONTHS[day.month - 1]
            suffix = (
                "th" if 10 < day.day < 20 else {1: "st", 2: "nd", 3: "rd"}.get(day.day % 10, "th")
            )
            text = rng.choice((
                f"{month} {day.day}, {day.year}", f"{day.day} {month} {day.year}", day.isoformat(),
                f"{month[:3]} {day.day}, {day.year}", f"{day.day}{suffix} of {month} {day.year}",
                f"{month} {day.day}{suffix}, {day.year}", f"{day.day} {month[:3]}. {day.year}",
                day.strftime("%Y/%m/%d"), f"{month.upper()} {day.day} {day.year}",
            ))  # fmt: skip
        return rf"\text{{{text}}}" if tex else text

    @override
    def reference(self, rng: Random) -> str:
        if self.weekday:
            return _DAYS[self.date.weekday()]
        month = _MONTHS[self.date.month - 1]
        return rng.choice((f"{month} {self.date.day}, {self.date.year}", self.date.isoformat()))

    @override
    def miss(self, rng: Random, others: Sequence[Answer]) -> Day | None:
        day, chance = self.date, rng.random()
        if self.weekday:
            return Day(_MONDAY + timedelta(days=rng.randrange(7)), weekday=True)
        try:
            if chance < 0.4:
                return replace(
                    self, date=day + timedelta(days=rng.choice((-7, -2, -1, 1, 2, 10, 30)))
                )
            if chance < 0.6:
                return replace(self, date=day.replace(month=rng.randint(1, 12)))
            if chance < 0.8:
                step = rng.choice((-100, -10, -1, 1, 1, 10))
                return replace(self, date=day.replace(year=day.year + step))
            return replace(self, date=day.replace(month=day.day, day=day.month))
        except ValueError:
            return None  # there is no such day


@dataclass(frozen=True, slots=True)
class Time(Answer):
    """A time of day, in minutes since midnight."""

    kind: ClassVar[str] = "time"
    minutes: int

    @classmethod
    def invented(cls, rng: Random) -> Time:
        """A random time, mostly a multiple of five minutes."""
        hour = rng.choice((0, 12)) if rng.random() < 0.12 else rng.randrange(24)
        return cls(hour * 60 + rng.choice((0, 0, 0, 15, 30, 30, 45, 5, 50, rng.randrange(60))))

    @override
    def written(self, rng: Random, *, tex: bool = False, lang: str = "en") -> str:
        hour, minute = divmod(self.minutes, 60)
        half, short = rng.choice((("am", "pm"), ("AM", "PM"), ("a.m.", "p.m."))), hour % 12 or 12
        gap, mark = rng.choice((" ", " ", "")), rng.choice("::.")
        forms = [f"{short}:{minute:02}{gap}{half[hour >= 12]}"] * 3
        forms += [f"{short:02}{mark}{minute:02} {half[hour >= 12]}"]
        if not 10 <= hour <= 12 or rng.random() < 0.5:
            forms += [f"{hour:02}:{minute:02}"] * 2 + [f"{hour:02}:{minute:02} hours"]
        forms += [f"{hour}h{minute:02}"] if rng.random() < 0.3 else []
        if not minute:
            forms += [f"{short}{gap}{half[hour >= 12]}"] * 2
        if self.minutes in (0, 720):
            name = "noon" if hour else "midnight"
            forms += [name, name.capitalize(), f"12 {name}"] * 2
        elif 4 <= hour < 23 and hour != 12:
            forms += [f"{self._spoken(rng)} {_part_of_day(hour)}"] * 3
        text = rng.choice(forms)
        return rf"\text{{{text}}}" if tex else text

    def _spoken(self, rng: Random) -> str:
        """The time of twelve hours: "half past five", "3 o'clock", "5:50"."""
        hour, minute = divmod(self.minutes, 60)
        quarters = {15: "quarter past", 30: "half past", 45: "quarter to"}
        named = (hour + (minute == 45)) % 12 or 12
        word = rng.choice((str(named), spelled(Fraction(named)) or ""))
        if minute in quarters and rng.random() < 0.8:
            return (
                rng.choice(("", "", "a ") if minute != 30 else ("",)) + f"{quarters[minute]} {word}"
            )
        return f"{word} o'clock" if not minute else f"{hour % 12 or 12}:{minute:02}"

    @override
    def reference(self, rng: Random) -> str:
        hour, minute = divmod(self.minutes, 60)
        if rng.random() < 0.4 and not 10 <= hour <= 12:  # 10:15 may be of either half
            return f"{hour:02}:{minute:02}"
        half = rng.choice((("am", "pm"), ("AM", "PM"), ("a.m.", "p.m.")))[hour >= 12]
        short = hour % 12 or 12
        return f"{short}:{minute:02} {half}" if minute or rng.random() < 0.5 else f"{short} {half}"

    @override
    def miss(self, rng: Random, others: Sequence[Answer]) -> Time:
        step = rng.choice((720, 720, 720, 720, 60, -60, 5, -5, 15, 30, 1, rng.randrange(1, 1440)))
        return Time((self.minutes + step) % 1440)


def _part_of_day(hour: int) -> str:
    if hour < 12:
        return "in the morning"
    return "at night" if hour > 20 else "in the evening" if hour > 17 else "in the afternoon"


@dataclass(frozen=True, slots=True)
class Duration(Answer):
    """A time that something takes, in minutes, however many units it is written in."""

    kind: ClassVar[str] = "duration"
    minutes: Fraction

    @classmethod
    def invented(cls, rng: Random) -> Duration:
        """A random duration of one to twelve hours, mostly a multiple of five minutes."""
        rest = rng.choice((0, 15, 20, 30, 30, 40, 45, 50, 5 * rng.randrange(12), rng.randrange(60)))
        return cls(Fraction(rng.randint(1, rng.choice((3, 3, 12))) * 60 + rest))

    @override
    def written(self, rng: Random, *, tex: bool = False, lang: str = "en") -> str:
        forms = [*self.forms(rng)]
        if not tex and len(forms) > 1 and rng.random() < 0.25:
            return rng.choice(KINDS["restated"]).format(*rng.sample(forms, 2))
        text = rng.choice(forms)
        return rf"\text{{{text}}}" if tex else text

    def forms(self, rng: Random) -> Iterator[str]:
        """In minutes, hours and minutes, hours, seconds or days; each as far as it is natural."""
        seconds, minutes, hours = (rng.choice(UNITS["time"][at]) for at in range(3))
        spread = [*divmod(int(self.minutes), 60)]
        if self.minutes.denominator != 1 or self.minutes < 1:
            if text := decimal(self.minutes * 60):
                yield f"{text} {seconds}"
        elif self.minutes < 1000:
            yield f"{self.minutes} {minutes}"
        if self.minutes.denominator == 1 and spread[0] and spread[1] and spread[0] < 100:
            whole, rest = spread
            ones = "hour" if whole == 1 else "hours"
            spoken = rng.choice((str(whole), spelled(Fraction(whole)) or ""))
            yield f"{spoken} {ones} and {rest} minute{'s' * (rest != 1)}"
            yield rng.choice((
                f"{whole} {ones} {rest} minutes", f"{whole} h {rest} min", f"{whole}h{rest:02}m",
                f"{whole} {ones}, {rest} minutes", f"{whole}h {rest}m", f"{whole} hr {rest} mins",
            ))  # fmt: skip
        if self.minutes >= 60 and (text := decimal(self.minutes / 60)) and len(text) < 6:
            yield f"{text} {hours if text != '1' else 'hour'}"
            if spread[1] == 30 and spread[0] > 1:
                yield f"{spread[0]} and a half hours"
        if self.minutes >= 1440 and self.minutes % 1440 == 0:
            yield f"{self.minutes // 1440} days"

    @override
    def reference(self, rng: Random) -> str:
        return rng.choice([*self.forms(rng)])

    @override
    def miss(self, rng: Random, others: Sequence[Answer]) -> Duration | None:
        hours, rest = divmod(self.minutes, 60)
        missed = Fraction(rng.choice((
            self.minutes + rng.choice((-60, 60, -10, 10, -5, 5, 1, -30, 30)), self.minutes * 60,
            self.minutes / 60, hours * 60 + rest * Fraction(3, 5),
            rest * 60 + hours, self.minutes * 1440, hours * 100 + rest, hours * 60,
        )))  # fmt: skip
        return Duration(missed) if missed > 0 and [*Duration(missed).forms(rng)] else None
