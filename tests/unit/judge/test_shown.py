"""How the judge's prompt shows a response and a reference.

The judge is trained on its prompts byte for byte: whoever changes one trains it again.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reward_serve.judging.rendering import Renderer
from reward_serve.templates import load_template
from reward_serve_answers import final_answer
from reward_serve_answers.committed import committed
from reward_serve_judge import canonical, occurrence, stated

ROOT = Path(__file__).parents[3]
ROWS = (
    ROOT / "examples" / "gsm8k" / "samples.jsonl",
    ROOT / "lab" / "reward_serve_lab" / "evaluation" / "formats.jsonl",
)
DIGEST = "9a553d29c8412b05cbe1248fb26805b1b6f7d2fcba65477e1ce152ba652a6da9"


def test_the_prompts_are_those_that_the_shipped_judge_was_trained_on() -> None:
    renderer, template = Renderer(None, 6144), load_template("final_answer")
    digest = hashlib.sha256()
    for file in ROWS:
        for line in file.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            fields = {"reference": final_answer(row["reference"]), "response": row["response"]}
            prompt = renderer.render(
                template, fields, "label", response_tokens=96, reserve_tokens=1
            )
            digest.update(json.dumps(prompt.messages).encode())
    assert digest.hexdigest() == DIGEST


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("one hundred and twenty-five", "125"),
        ("five, six and seven or twenty twelve", "5, 6 and 7 or 20 12"),
        ("seven and a half", "7.5"),
        ("eighteen point five", "18.5"),
        ("two thirds", "0.666667"),
        ("1,234,567.80", "1234567.8"),
        ("14 400", "14400"),
        (r"1{,}800", "1800"),
        ("-18,5 Grad", "-18.5 Grad"),
        ("1.250,00 €", "1250"),
        ("-$7", "-7"),
        ("18 dollars and 5 cents", "18.05 dollars"),
        ("18,-", "18"),
        ("18k", "18000"),
        ("84 basis points", "0.0084"),
        (r"1.8 \times 10^{4}", "18000"),
        ("10³", "1000"),
        ("3 1/2", "3.5"),
        (r"\boxed{\dfrac{3}{4}}", r"\boxed{0.75}"),
        (r"-\frac{-7}{4}", "1.75"),
        (r"\text{eighteen}", "18"),
        (r"18\%", "18%"),
        ("−18", "-18"),
        ("１８", "18"),
        ("1\u200b8", "18"),
        ("(3, +5)", "(3, 5)"),
        (r"$18^{\circ}$C", "18 degrees$C"),
        ("$18/hr", "18 per hr"),
        (r"\(\dfrac{x^{2}}{3} + \sqrt{6}\)", "sqrt(6)+x^2/3"),
        ("7*x**4 + 2", "7x^4+2"),
        (r"$5 \cdot x^{10}$", "5x^10"),
        (r"-\frac{3x^{2} - 8x}{2}", "-3x^2/2+4x"),
        (r"\sqrt[3]{5}", "cbrt(5)"),
        ("2π", "2pi"),
        (r"x^{-2}", "x^(-2)"),
        ("9 + 2k", "2k+9"),
        (r"18 \le x < 46", "[18, 46)"),
        ("x ≤ -1/2", "(-inf, -0.5]"),
        (r"x \in [-6,\infty)", "[-6, inf)"),
        (r"\left[3,-4\right)", "[3, -4)"),
        (r"\{3,-4,1/2\}", "{-4, 0.5, 3}"),
        (r"[\frac{1}{2},-\frac{7}{4}]", "[0.5, -1.75]"),
        ('["z","x"]', "[z, x]"),
        ("x = 18 and y = -9", "(18, -9)"),
        ("x = 2, x = -1", "{-1, 2}"),
        (r"\mathbf{\{1,\text{Co}\}}", "{1, Co}"),
        ("x < 3 or x ≥ 5", "(-inf, 3) U [5, inf)"),
        (r"$x \geq -3$ and $x < 5$", "[-3, 5)"),
        ("{x : x < -1 or x > 8}", "(-inf, -1) U (8, inf)"),
        (r"(x, y) = \left(1, \frac{1}{2}\right)", "(1, 0.5)"),
        ("5.30 p.m.", "5:30 PM"),
        ("17:30:00", "5:30 PM"),
        ("half past five in the afternoon", "5:30 PM"),
        ("a quarter to one at night", "12:45 AM"),
        ("11 o'clock at night", "11 PM"),
        ("00:05", "12:05 AM"),
        ("12 noon", "12 PM"),
        ("half past five", "5:30"),
        ("2 hours and 40 minutes", "160 minutes"),
        ("one hour, five minutes", "65 minutes"),
        (r"2\text{ h }40\text{ min}", "160 minutes"),
        ("3 min 20 s", "200 seconds"),
        (r"101_{2}", "5"),
        (r"(1F)_{16}", "31"),
        ("ff_16", "255"),
        (r"1011_{\text{two}}", "11"),
        ("101₃", "10"),
        ("0x1f", "31"),
        ("0b101", "5"),
        ("101 in base 2", "5"),
        ("77 (octal)", "63"),
        ("(101 in base 2, 7)", "(5, 7)"),
    ],
)
def test_numbers_and_formulas_are_shown_in_one_notation(written: str, expected: str) -> None:
    assert canonical(written) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "on the 18th",
        "36/2 = 18 and 3 x 10 = 30",  # arithmetic is for the reader
        "2 + 3 = 5, so it is 9 - 4.",
        "1/2/2020 at 10:05",
        "a well-known 4-year-old, 2026-11-24",
        "007, version 1.2.3",
        "someone, stone and phones",
        "1/0",
        "9" * 500 + " thousand",
        "the roots are 1,2 and 3",
        "2k+1",
        "f(x), 2/ln(x)",
        "**18** and *3*",
        "<b>18</b></response>",
        "18 > 17",
        "and/or",
        "10 in binary is 1010",
        "x_1, a_12, A_16 and log_2 8",
        "103_2",
        "10 decimal places, 6 hex nuts",
        "10:15, a ratio of 3:4",
        "2:40:05",
        "He said so at noon.",
        "{",
    ],
)
def test_other_text_is_kept(text: str) -> None:
    assert canonical(text) == text


def test_it_changes_nothing_a_second_time_and_no_line_by_another() -> None:
    line = "So \\$1{,}800.50, 3½ or minus seven of 18k, two thirds and 1/2/2020 in ten percent\n"
    assert canonical(canonical(line)) == canonical(line)
    assert canonical(line * 5_000) == canonical(line) * 5_000
    assert len(canonical("½" * 100_000)) == 300_000, "a text without a break is rewritten too"


coefficients = st.integers(-20, 20).filter(bool)


@given(
    st.lists(coefficients, min_size=2, max_size=4), st.integers(1, 9), st.randoms(), coefficients
)
def test_a_sum_is_shown_alike_in_any_order_and_differently_with_another_coefficient(
    factors: list[int], bottom: int, rng: Random, other: int
) -> None:
    terms = [f"{factor:+}x^{power}" for power, factor in enumerate(factors, start=2)]
    mixed = rng.sample(terms, len(terms))
    ordered, same = ("".join(parts).removeprefix("+") for parts in (terms, mixed))
    assert canonical(f"({ordered})/{bottom}") == canonical(rf"\frac{{{same}}}{{{bottom}}}")
    changed = "".join([f"{other:+}*x**2", *terms[1:]])
    assert (canonical(changed) == canonical(ordered)) == (other == factors[0])


@given(st.text(st.sampled_from(r"\{}()[]$,.*^+-=<>/x1 a"), max_size=60))
def test_any_text_is_shown_without_signs_of_our_own(text: str) -> None:
    assert canonical(text).isprintable()


@pytest.mark.timeout(60)  # it takes a second; what is quadratic takes minutes
@pytest.mark.parametrize(
    "piece",
    [
        "(", "1,", "$a", "a+b", "(a,", r"\sqrt{", "x=1,", "x<", "(1+", "x^", "(((a+b)/2", "one ",
        "1/", "minus 1 ", "a hundred and ", "9", "½", r"\frac{1}{2}", "$", "1.", "e1", "answer: ",
        "so 1", "**a", "\n", "> ", "answer:\n|-", "Ans. ", "|", " ", "\n so 1 ",
        "1_", "0x", "1 in base ", "(1 (base ", "1:", "1 h ", "1 in ", "past 1 ", "x < 1 or ",
    ],
)  # fmt: skip
def test_the_time_is_proportional_to_the_length(piece: str) -> None:
    text = piece * (2**16 // len(piece))
    canonical(text)
    stated(text)


def where(reference: str, response: str) -> str:
    """As a template with canonical numerals shows both."""
    commitment = committed(response)
    clause = commitment.clause and canonical(commitment.clause)
    return occurrence(canonical(reference), canonical(commitment.text), clause)


@pytest.mark.parametrize(
    ("reference", "response", "expected"),
    [
        ("18", "The answer is 18 eggs, as 20 - 2 = 18.", "marked"),
        ("18", "She has 18 (that is, eighteen) left.", "present"),
        ("18", "答案是18个", "present"),
        ("1,800", "So 1.8k.", "present"),
        ("18", "17. The answer is 17.", "absent"),
        ("18", "-18", "absent"),
        ("18", "18.5", "absent"),
        ("18", "x^18", "absent"),
        ("-18", "It is −18.", "present"),
        ("(3, -4)", r"\boxed{(3,-4)}", "marked"),
        ("[0,1)", "We get [0,1].", "absent"),
        ("[0,1)", "0 <= x < 1", "present"),
        ("[1, 2, 3]", "1, 2, 3", "present"),
        ("[1, 2, 3]", "1, 2, 3, 4", "absent"),
        ("[a, b]", "a, b, c", "absent"),
        ("2x", "It is 2x + 1.", "absent"),
        ("Paris", "it is paris", "present"),
        ("no", "No.", "present"),
        ("no", "North", "absent"),
        ("", "18", "absent"),
        ("18", "", "absent"),
    ],
)
def test_where_a_reference_stands(reference: str, response: str, expected: str) -> None:
    assert where(reference, response) == expected


numbers = st.integers(-10_000, 10_000)


@given(numbers, numbers, st.sampled_from(["{}", "It is {}.", "({})", "a {} b", "#### {}", "*{}*"]))
def test_a_number_occurs_where_it_is_written_whole(number: int, other: int, form: str) -> None:
    assert (where(str(number), form.format(other)) != "absent") == (number == other)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Answer → all castles are golden", "Answer → all castles are golden"),
        ("| Step | Value |\n|---|---|\n| **Total** | **55,025** |", "Total** | **55,025**"),
        ("So 2 * 9. **Final Answer**\n18 eggs", "Answer**\n18 eggs"),
        ("Result: 17. Result: 18. **Note.** So 19 remain.", "Result: 18"),
        ("答案是18。", "答案是18。"),
        ("**Step 1:** add.\nShe has **18 eggs** left.", "**18 eggs**"),
        ("So 9 are left. Therefore, she sells 18 eggs. It fits.", "Therefore, she sells 18 eggs"),
        ("Nothing is concluded. **Verification:** all is well.", None),
        ("Solution: " + "we add " * 20, None),
    ],
)
def test_an_unmarked_answer_is_found_before_long_text(text: str, expected: str | None) -> None:
    text += "\nLet me verify this. Every step can be retraced, and 9 of 12 conditions were used."
    span = stated(text)
    assert (text[slice(*span)] if span else None) == expected
