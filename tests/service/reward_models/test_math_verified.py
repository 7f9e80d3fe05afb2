from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from reward_serve.reward_models.rule import MathVerifier
from reward_serve.schema import ScoreRequest
from reward_serve_answers.values import Grade, UnusableReferenceError


@pytest.fixture(scope="module")
def verifier() -> Iterator[MathVerifier]:
    verifier = MathVerifier()
    yield verifier
    verifier.close()


async def grade(verifier: MathVerifier, response: str, reference: str) -> Grade:
    return await verifier.verify(ScoreRequest(response=response), reference)


async def test_formulas_compare_by_value(verifier: MathVerifier) -> None:
    table = [
        (r"So $\frac{1}{2}$", "0.5", 1.0),
        ("The answer is 18.", "#### 18", 1.0),
        (r"\boxed{\frac{\sqrt{3}}{3}}", r"$\frac{1}{\sqrt{3}}$", 1.0),
        (r"$(1, 2)$", r"\( (1,2) \)", 1.0),
        (r"first $17$, then \boxed{18}", "18", 1.0),
        ("<think>17</think> 18", "18", 1.0),
        (r"Of $(10^9)!$, $9^{9^9}$ and \boxed{1500}", "1500", 1.0),
        (r"\boxed{17}", "18", 0.0),
        (r"\boxed{-18}", "18", 0.0),
        ("I cannot tell", "18", 0.0),
    ]
    for response, reference, score in table:
        assert (await grade(verifier, response, reference)).score == score, response


@pytest.mark.parametrize("cut", [r"\boxed{1", r"\boxed{\frac{1}{2}", r"\boxed", "the answer is"])
async def test_of_a_corrected_answer_that_was_cut_off_the_first_guess_is_not_graded(
    verifier: MathVerifier, cut: str
) -> None:
    for first in ("17", "18"):
        grade_ = await grade(verifier, rf"\boxed{{{first}}}. No, wait: it is {cut}", "18")
        assert (grade_.score, grade_.rule) == (None, "cut_off")


async def test_a_hostile_formula_costs_a_bounded_time_and_no_score(verifier: MathVerifier) -> None:
    huge = await grade(verifier, r"\boxed{9^{9^{9^{9}}}}", "18")
    assert (huge.score, huge.rule) == (None, "too_large")
    slow = await grade(verifier, r"\boxed{(x+y+z+w)^{200}}", "18")
    assert (slow.score, slow.rule) == (None, "too_slow")
    assert (await grade(verifier, r"\boxed{18}", "18")).score == 1.0


HOSTILE = {
    "factorials": r"\boxed{{(10^9+{0})!}}",
    "powers": r"\boxed{{((10^{{9999}})^{{9999}})^{{9{0}}}}}",
    "polynomials": r"\boxed{{(x+y+z+w)^{{20{0}}}}}",
    "integrals": r"\boxed{{\int_0^{0} \frac{{\sin(x^5+\ln x)}}{{\sqrt{{1+x^5+e^x}}}} dx}}",
}


@pytest.mark.parametrize("sort", HOSTILE)
async def test_ordinary_formulas_do_not_wait_for_hostile_ones(
    verifier: MathVerifier, sort: str
) -> None:
    hostile = [
        asyncio.create_task(grade(verifier, HOSTILE[sort].format(i), "18")) for i in range(1, 21)
    ]
    await asyncio.sleep(0)
    ordinary = await asyncio.gather(
        *(
            grade(verifier, rf"\boxed{{\frac{{{2 * i}}}{{{3 * i}}}}}", r"\frac{2}{3}")
            for i in range(1, 31)
        )
    )
    assert [each.score for each in ordinary] == [1.0] * 30
    assert sort == "factorials" or sum(task.done() for task in hostile) < 20
    for task in hostile:
        task.cancel()


async def test_a_reference_that_is_no_formula_cannot_be_used(verifier: MathVerifier) -> None:
    with pytest.raises(UnusableReferenceError, match="send LaTeX"):
        await grade(verifier, "18", r"\frac{1}{")
