from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reward_serve.rules.numbers.parsing import MAX_DIGITS, Number, parse_number, words_value

EIGHTEEN = Fraction(18)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("18", 18),
        ("18.", 18),
        ("18.00", 18),
        (".5", Fraction(1, 2)),
        ("+18", 18),
        ("-18", -18),
        ("\u221218", -18),
        ("-$18", -18),
        ("$-18", -18),
        ("**18**", 18),
        ("`18`", 18),
        ('"18"', 18),
        ("$18", 18),
        ("US$18", 18),
        ("\u20ac18", 18),
        ("18\u20ac", 18),
        ("1,800", 1800),
        ("1 800", 1800),
        ("1\u202f800", 1800),
        ("1\u2009800", 1800),
        ("1,234,567.5", Fraction(2469135, 2)),
        ("1{,}800", 1800),
        (r"1\,800", 1800),
        (r"\$18", 18),
        ("$18$", 18),
        (r"$\$18$", 18),
        (r"\(18\)", 18),
        (r"\text{18}", 18),
        (r"\mathbf{18}", 18),
        ("1/2", Fraction(1, 2)),
        (r"\frac{1}{2}", Fraction(1, 2)),
        (r"\dfrac12", Fraction(1, 2)),
        (r"-\frac{1}{2}", Fraction(-1, 2)),
        ("3 1/2", Fraction(7, 2)),
        (r"3\frac{1}{2}", Fraction(7, 2)),
        ("3\u00bd", Fraction(7, 2)),
        ("eighteen", 18),
        ("Eighteen", 18),
        ("twenty-one", 21),
        ("One Hundred Twenty-Five dollars", 125),
        ("a hundred and twenty-five", 125),
        ("one-hundred-twenty-five", 125),
        ("one hundred and five", 105),
        ("eighteen hundred", 1800),
        ("1.8 thousand", 1800),
        ("2 million", 2_000_000),
        ("9 * 2 = 18", 18),
        ("x = 18", 18),
        (r"9 \times 2 = 18", 18),
        ("total cost = $18", 18),
    ],
)
def test_a_number_is_read_exactly_in(text: str, value: int | Fraction) -> None:
    number = parse_number(text)
    assert number is not None
    assert number.value == value


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("18 pears", ("pears",)),
        ("18 dollars per day", ("dollars", "per", "day")),
        ("$18/day", ("day",)),
        ("18-year-old", ("year", "old")),
        (r"18 \text{ pears}", ("pears",)),
        ("18kg", ("kg",)),
        ("18 (dollars)", ("dollars",)),
        ("18 dollars a day", ("dollars", "a", "day")),
        ("18 dollars in total", ("dollars",)),
        ("18 pears daily", ("pears", "daily")),
        ("50\u00a2", ("cents",)),
    ],
)
def test_the_unit_is_kept_beside_the_value_of(text: str, unit: tuple[str, ...]) -> None:
    number = parse_number(text)
    assert number is not None
    assert number.unit == unit
    assert not number.percent


@pytest.mark.parametrize(
    "text", ["18%", "18 %", r"18\%", "18 percent", "18 per cent", "eighteen percent"]
)
def test_a_percent_sign_is_noted_not_applied(text: str) -> None:
    number = parse_number(text)
    assert number is not None
    assert (number.value, number.percent) == (EIGHTEEN, True)


@pytest.mark.parametrize("text", ["eighteen", "9 * 2 = 18", "1.8 thousand"])
def test_a_number_not_written_in_digits_alone_is_not_plain(text: str) -> None:
    number = parse_number(text)
    assert number is not None
    assert not number.plain


@pytest.mark.parametrize(
    "text",
    [
        "",
        "pears",
        "17 or 18",
        "17, 18",
        "17-18",
        "17\u201318",
        "18-",
        "18 /",
        "between 17 and 18",
        "18 and a half",
        "about 18",
        "~18",
        "\u224818",
        "> 18",
        "18+",
        "\u00b118",
        "- 18",
        "--18",
        "(18)",
        "[18]",
        "018",
        "1 8",
        "1,80",
        "1,8000",
        "1,00,000",
        "1,800,00",
        "1.8.0",
        "18k",
        "18x",
        "18 x",
        "18 m",
        "18 dozen",
        "18 pi",
        "18 cos",
        "18 sevens",
        "18 sixteenths",
        "18-fold",
        "18 kilo",
        "18 in base sixteen",
        "18 supposedly",
        "18...",
        "18.. 19",
        "one hundred twenty-fifth",
        "18 tens",
        "18 hundredths",
        "18 squared",
        "18 below zero",
        "18 in debt",
        "18 less",
        "18 times two",
        "18 - pears",
        "18 twenty",
        "9 * 2",
        "16 + 2",
        "36/2",
        r"\frac{36}{2}",
        "1/0",
        "3 5/2",
        r"\frac{1}{2}3",
        "2**3",
        "18^2",
        "18\u00b2",
        "18_8",
        "18!",
        "1.8e1",
        "1.8 x 10^1",
        "0x12",
        "3:30",
        "3/4/2020",
        "18 R 2",
        "50%%",
        "18% off",
        "1\u200b8",
        "\u202e81",
        "\u0661\u0668",
        "\uff11\uff18",
        "\u2460\u2467",
        "18\x00",
        "18\ud800",
        "~~18~~",
        "<s>18</s>",
        r"\cancel{18}",
        "1{8}",
        "18 = 20",
        "9 * 2 = 16 + 2",
        "9 * 2 = 18 = 20",
        "17 because 9 * 2 = 18",
        "eighteen -",
        "eighteen - pears",
        "eighteenth",
        "eighteen and a half",
        "18(",
        "18 (pears",
        "17 (9 * 2 = 18)",
        "17, 9 * 2 = 18",
        "x != 18",
        "x >= 18",
        "not x = 18",
        r"x \neq 18",
        "twenty twelve",
        "ten eight",
        "eighteen or nineteen",
        "half",
        "a",
        "a dozen",
    ],
)
def test_no_number_is_guessed_from(text: str) -> None:
    assert parse_number(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "9" * (MAX_DIGITS + 1),
        "1/" + "9" * MAX_DIGITS,
        "9" * 10**6,
        "1" + ",000" * 10**5,
        "1e1000000000",
    ],
    ids=[
        "too many digits",
        "too long a fraction",
        "a megabyte",
        "a grouped megabyte",
        "an exponent",
    ],
)
def test_a_number_beyond_every_use_is_not_computed(text: str) -> None:
    assert parse_number(text) is None


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("zero", 0),
        ("one hundred five", 105),
        ("a hundred twenty one", 121),
        ("two thousand three hundred and four", 2304),
        ("one hundred thousand", 100_000),
        ("one million two thousand three", 1_002_003),
    ],
)
def test_number_words_compound(words: str, value: int) -> None:
    assert words_value(words.split()) == value


@pytest.mark.parametrize(
    "words",
    [
        "",
        "hundred",
        "one two",
        "twenty and one",
        "zero five",
        "one hundred hundred",
        "two million and",
        "one thousand one million",
        "twenty hundred",
        "five twenty",
    ],
)
def test_words_that_are_no_single_number_have_no_value(words: str) -> None:
    assert words_value(words.split()) is None


@given(st.text(max_size=200))
def test_any_text_is_a_number_or_none(text: str) -> None:
    assert isinstance(parse_number(text), Number | None)


@given(st.integers(min_value=-(10**12), max_value=10**12), st.integers(min_value=0, max_value=99))
def test_formatting_an_amount_never_changes_its_value(whole: int, hundredths: int) -> None:
    value = Fraction(f"{whole}.{hundredths:02}")
    for text in (
        f"{whole}.{hundredths:02}",
        f"{whole:,}.{hundredths:02}",
        f"${whole}.{hundredths:02}00",
    ):
        number = parse_number(text)
        assert number is not None
        assert number.value == value
