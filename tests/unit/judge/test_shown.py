"""How the judge's prompt shows a response and a reference.

The judge is trained on its prompts byte for byte: whoever changes one trains it again.
"""

import hashlib
import json
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reward_serve.prompts.rendering import Renderer
from reward_serve.templates import load_template
from reward_serve_answers import final_answer
from reward_serve_answers.committed import committed
from reward_serve_judge import canonical, occurrence, stated
from tests.rows import rows

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


@pytest.mark.parametrize(("written", "expected"), rows(__file__, "notations"))
def test_numbers_and_formulas_are_shown_in_one_notation(written: str, expected: str) -> None:
    assert canonical(written) == expected


@pytest.mark.parametrize("text", [*rows(__file__, "kept"), "9" * 500 + " thousand"])
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
@pytest.mark.parametrize("piece", rows(__file__, "pieces"))
def test_the_time_is_proportional_to_the_length(piece: str) -> None:
    text = piece * (2**16 // len(piece))
    canonical(text)
    stated(text)


def where(reference: str, response: str) -> str:
    """As a template with canonical numerals shows both."""
    commitment = committed(response)
    clause = commitment.clause and canonical(commitment.clause)
    return occurrence(canonical(reference), canonical(commitment.text), clause)


@pytest.mark.parametrize(("reference", "response", "expected"), rows(__file__, "places"))
def test_where_a_reference_stands(reference: str, response: str, expected: str) -> None:
    assert where(reference, response) == expected


numbers = st.integers(-10_000, 10_000)


@given(numbers, numbers, st.sampled_from(["{}", "It is {}.", "({})", "a {} b", "#### {}", "*{}*"]))
def test_a_number_occurs_where_it_is_written_whole(number: int, other: int, form: str) -> None:
    assert (where(str(number), form.format(other)) != "absent") == (number == other)


@pytest.mark.parametrize(
    ("text", "expected"), [*rows(__file__, "unmarked"), ("Solution: " + "we add " * 20, None)]
)
def test_an_unmarked_answer_is_found_before_long_text(text: str, expected: str | None) -> None:
    text += "\nLet me verify this. Every step can be retraced, and 9 of 12 conditions were used."
    span = stated(text)
    assert (text[slice(*span)] if span else None) == expected
