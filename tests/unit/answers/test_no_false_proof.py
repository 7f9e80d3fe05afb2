"""Random answers in random notations, equal and unequal: rules never prove what is not so."""

import random
import re
from collections.abc import Callable, Iterator
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from num2words import num2words

from reward_serve_answers import verify
from tests.rows import rows

SAMPLE, MANY = 3_000, 200_000
Case = tuple[str, str, bool | None]
"""Answer, reference and whether they are equal; None if only a proof of right would be false."""

MARKED = rows(__file__, "marked")
RESTATED = rows(__file__, "restated")
RETRACTED = rows(__file__, "retracted")
UNITS = [
    ("am", "pm"),
    ("minutes", "hours"),
    ("°C", "°F"),
    ("kg", "g"),
    ("km", "miles"),
    ("day", "week"),
]


def written(number: int, pick: random.Random) -> str:
    forms: list[Callable[[int], str]] = [
        str, "{:,}".format, "{}.0".format, "${}".format, "{} dollars".format, "x = {}".format,
        "**{}**".format, lambda n: num2words(n).replace(",", ""),
    ]  # fmt: skip
    return pick.choice(forms)(number)


def numbers(pick: random.Random) -> Case:
    value = pick.choice([pick.randint(2, 99), pick.randint(100, 10**6)])
    other = pick.choice([value, value, value + 1, value * 10, pick.randint(2, 99)])
    return written(other, pick), str(value), value == other


def fractions(pick: random.Random) -> Case:
    value = Fraction(pick.randint(1, 99), pick.choice([2, 4, 5, 8, 16, 25, 50]))
    top, bottom = value.numerator, value.denominator
    sign = pick.choice(["", "-"])
    forms = [
        f"\\frac{{{sign}{top}}}{{{bottom}}}", f"{sign}\\frac{{{top}}}{{{bottom}}}",
        f"{sign}{top}/{bottom}", f"{sign}{top}\u2215{bottom}", f"{sign}{float(value)}",
        f"{sign}{top} over {bottom}", f"{sign}{top} out of {bottom}",
    ]  # fmt: skip
    return pick.choice(forms), f"{sign}{float(value)}", True


def units(pick: random.Random) -> Case:
    number, pair = pick.randint(2, 300), pick.choice(UNITS)
    unit, other = pick.sample(pair, 2)
    if pick.random() < 0.5:
        return f"{number} {unit}", f"{number} {unit}", True
    return f"{number} {unit}", f"{number} {other}", False


def symbols(pick: random.Random) -> Case:
    name, number = pick.choice("fxynab"), pick.randint(2, 99)
    answer, reference = pick.choice(
        [
            (f".{number}{name}", f"{number}{name}"), (f"{name}'", name), (name.upper(), name),
            ("Co", "CO"), (f"{number}{name}", f"{number}{name.upper()}"), ("9E", "E9"),
            (f"({number}, 1]", f"({number}, 1)"), (f"[0, {number})", f"(0, {number})"),
            (f"({number}, 1)", f"(1, {number})"), (f"\\{{1, {number}\\}}", f"(1, {number})"),
            (f"-{number}\\sqrt{{2}}", f"{number}\\sqrt{{2}}"), (f"{name} < 2", f"{name} \\le 2"),
        ]
    )  # fmt: skip
    return (answer, reference, False) if pick.random() < 0.7 else (reference, reference, True)


def retracted(pick: random.Random) -> Case:
    value, other = pick.sample(range(2, 400), 2)
    answer = pick.choice(RETRACTED).format(value, other)
    return answer, str(pick.choice([value, other])), None


def restated(pick: random.Random) -> Case:
    value = pick.randint(2, 400)
    other = pick.choice([value, value + pick.randint(1, 400)])
    answer = pick.choice(RESTATED).format(*pick.sample([str(value), written(other, pick)], 2))
    return answer, str(value), value == other


KINDS = [numbers, fractions, units, restated, retracted, symbols]


def cases(count: int) -> Iterator[tuple[str, str, bool | None]]:
    pick = random.Random(50)
    for _ in range(count):
        answer, reference, equal = pick.choice(KINDS)(pick)
        bare = pick.random() < 0.2
        yield answer if bare else pick.choice(MARKED).format(answer), reference, equal


WHOLE = pytest.param(MANY, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])


@pytest.mark.parametrize("count", [SAMPLE, WHOLE])
def test_no_proof_is_false(count: int) -> None:
    for response, reference, equal in cases(count):
        outcome = verify(response, reference).outcome
        assert not (outcome == "right" and equal is not True), (response, reference)
        assert not (outcome == "wrong" and equal is True), (response, reference)


PIECES = rows(__file__, "pieces")
texts = st.lists(st.sampled_from(PIECES) | st.text(max_size=6), max_size=30).map("".join)
FORMS = [*MARKED, "Final Answer: ${}$", "**Answer:** {} dollars", "**Final Answer**\n{}"]


@given(texts, st.integers(-2000, 2000))
def test_what_is_right_holds_the_references_value(response: str, gold: int) -> None:
    if verify(response, str(gold)).outcome == "right":
        written = re.sub(r"[\s,{}!\\$*]", "", response)
        assert str(abs(gold)) in written or "eighteen" in response


@given(texts, st.integers(0, 10**4), st.integers(0, 10**4), st.sampled_from(FORMS))
def test_a_later_marker_of_another_decides(response: str, gold: int, other: int, form: str) -> None:
    for right in (response, f"{response}\n#### {gold}"):
        verification = verify(f"{right}\n{form.format(other)}", str(gold))
        assert other == gold or verification.outcome != "right"


@pytest.mark.parametrize(
    "text", ["False", "(3,-4)", "A B C", "3 pm", "-2,1", "é", "f'", ".5x", "10³", "#A B#"]
)
def test_a_response_that_is_the_reference_is_right(text: str) -> None:
    assert verify(f"  {text}\n", text).outcome == "right"
    assert verify(f"<think>hm</think>\n{text}", text).outcome == "right"
