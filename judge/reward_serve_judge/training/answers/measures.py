"""Quantities with units, dates, and times of day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from fractions import Fraction
from random import Random
from typing import ClassVar

from typing_extensions import override

from reward_serve_judge.training.answers.base import Answer
from reward_serve_judge.training.answers.numerals import decimal

_UNITS: dict[str, tuple[tuple[str, ...], ...]] = {
    "time": (
        ("seconds", "s", "sec", "secs"),
        ("minutes", "min", "mins"),
        ("hours", "h", "hr", "hrs"),
        ("days", "d"),
        ("weeks",),
        ("years", "yr", "yrs"),
    ),
    "length": (
        ("millimeters", "mm", "millimetres"),
        ("centimeters", "cm", "centimetres"),
        ("meters", "m", "metres"),
        ("kilometers", "km", "kilometres"),
        ("inches", "in", "in."),
        ("feet", "ft", "ft."),
        ("miles", "mi"),
    ),
    "mass": (
        ("grams", "g"),
        ("kilograms", "kg", "kilos"),
        ("pounds", "lb", "lbs"),
        ("ounces", "oz"),
        ("tons", "t"),
    ),
    "temperature": (
        ("°C", "degrees Celsius", "C", "degrees C"),
        ("°F", "degrees Fahrenheit", "F", "degrees F"),
        ("K", "kelvin", "Kelvin"),
    ),
    "volume": (
        ("liters", "L", "litres"),
        ("milliliters", "mL", "ml"),
        ("gallons", "gal"),
        ("cups",),
    ),
    "area": (
        ("square meters", "m^2", "m²", "sq m"),
        ("square centimeters", "cm^2", "cm²", "sq cm"),
        ("square feet", "ft^2", "sq ft"),
        ("cubic meters", "m^3", "m³"),
        ("acres",),
    ),
    "speed": (
        ("km/h", "kilometers per hour", "kph"),
        ("mph", "miles per hour"),
        ("m/s", "meters per second"),
    ),
    "money": (
        ("dollars", "USD"),
        ("euros", "EUR", "€"),
        ("cents", "¢"),
        ("pounds sterling", "GBP"),
    ),
}
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
        group = rng.choice(list(_UNITS))
        number = Fraction(rng.randint(1, 400), rng.choice((1, 1, 1, 1, 2, 10)))
        return cls(number, group, rng.randrange(len(_UNITS[group])))

    @override
    def written(self, rng: Random, *, tex: bool = False, lang: str = "en") -> str:
        number, unit = self._number(), rng.choice(_UNITS[self.group][self.unit])
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
        return f"{self._number()} {rng.choice(_UNITS[self.group][self.unit][:2])}"

    def _number(self) -> str:
        return decimal(self.number) or str(self.number)

    @override
    def miss(self, rng: Random, others: Sequence[Answer]) -> Quantity:
        chance = rng.random()
        number = self.number
        if chance < 0.4:
            number = rng.choice(
                (number + 1, number - 1, number * 10, number / 10, number * 2, -number)
            )
        unit = self.unit if chance < 0.35 else rng.randrange(len(_UNITS[self.group]))
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
        return cls(
            rng.randrange(24) * 60 + rng.choice((0, 0, 0, 15, 30, 45, 5, 50, rng.randrange(60)))
        )

    @override
    def written(self, rng: Random, *, tex: bool = False, lang: str = "en") -> str:
        hour, minute = divmod(self.minutes, 60)
        half, short = rng.choice((("am", "pm"), ("AM", "PM"), ("a.m.", "p.m."))), hour % 12 or 12
        gap = rng.choice((" ", " ", ""))
        forms = [f"{short}:{minute:02}{gap}{half[hour >= 12]}"] * 2 + [f"{hour:02}:{minute:02}"]
        if not minute:
            forms += [f"{short}{gap}{half[hour >= 12]}", f"{hour:02}:00"]
            parts = (
                "at night" if hour > 20 else "in the evening" if hour > 17 else "in the afternoon"
            )
            if hour % 12 and hour > 3:
                part = "in the morning" if hour < 12 else parts
                forms.append(f"{short} o'clock {part}")
        text = rng.choice(forms)
        return rf"\text{{{text}}}" if tex else text

    @override
    def reference(self, rng: Random) -> str:
        hour, minute = divmod(self.minutes, 60)
        if rng.random() < 0.4:
            return f"{hour:02}:{minute:02}"
        half = rng.choice((("am", "pm"), ("AM", "PM")))[hour >= 12]
        short = hour % 12 or 12
        return f"{short}:{minute:02} {half}" if minute or rng.random() < 0.5 else f"{short} {half}"

    @override
    def miss(self, rng: Random, others: Sequence[Answer]) -> Time:
        step = rng.choice((720, 720, 720, 60, -60, 5, -5, 15, 30, 1, rng.randrange(1, 1440)))
        return Time((self.minutes + step) % 1440)
