from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reward_serve.rules import formulas
from reward_serve.rules.child_process import ChildProcess
from reward_serve.rules.formulas import compare_formulas

SIGNS = [*"12x+-*/{}()=<,. ", "999999999989", "^{20}", "^2", "^{-3}", r"\pi"]
SIGNS += [r"\sqrt{", r"\frac{", r"\sqrt[9]{"]


@pytest.fixture(scope="module", autouse=True)
def _math_verify_is_loaded() -> None:
    compare_formulas("1024", "2^{10}")


@pytest.mark.parametrize(
    ("answer", "reference"),
    [
        (r"\dfrac{x}{2}", "0.5x"),
        ("1+x^2", "x^2+1"),
        ("(1, 2)", "(1,2)"),
        (r"\{2,1\}", r"\{1,2\}"),
        (r"2\sqrt{3}", r"2\sqrt{3}."),
        (r"$2\sqrt{3}$", r"\(2\sqrt{3}\)"),
        (r"x = \sqrt{2}", r"\sqrt{2}"),
        (r"\sqrt{2}", r"x = \sqrt{2}"),
        ("y = 2x + 1", "1 + 2x"),
        (r"2\sqrt{3}\text{ cm}", r"2\sqrt{3}"),
        (r"36\pi", r"36\pi\text{ square inches}"),
        (r"9\pi \text{ cm}^2", r"9\pi"),
        ("1024", "2^{10}"),
        ("300000", r"3 \times 10^5"),
        ("4", r"\sqrt{16}"),
        (r"2\sqrt{3}", r"\sqrt{12}"),
        (r"\frac{\sqrt{3}}{3}", r"\frac{1}{\sqrt{3}}"),
        (r"\frac{\sqrt{6}}{2}", r"\sqrt{\frac{3}{2}}"),
        ("(1/2, 3)", r"\left(\frac{1}{2}, 3\right)"),
        ("[0, 1)", r"\left[0,1\right)"),
        ("(-∞, -1) ∪ (6, ∞)", r"(-\infty,-1)\cup(6,\infty)"),
        (r"\{1, 2\}", r"\left\{2,1\right\}"),
        ("x ≤ 2", r"x \leq 2"),
        ("2√3", r"2\sqrt{3}"),
    ],
)
def test_equal_are(answer: str, reference: str) -> None:
    assert compare_formulas(answer, reference) == "equal"


@pytest.mark.parametrize(
    ("answer", "reference"),
    [
        # What may be the task itself, handed back.
        ("(x-1)(x+1)", "x^2-1"),
        ("x^2-1", "(x-1)(x+1)"),
        (r"\sqrt{12}", r"2\sqrt{3}"),
        (r"\frac{\sqrt{8}}{2}", r"\sqrt{2}"),
        # Roundings, and what may be another unit.
        ("1.414", r"\sqrt{2}"),
        ("1.41421356237", r"\sqrt{2}"),
        ("3.14", r"\pi"),
        ("30", r"\frac{\pi}{6}"),
        ("180", r"\pi"),
        ("2", r"2\pi"),
        (r"200\sqrt{3}", r"2\sqrt{3}"),
        (r"24\sqrt{3}", r"2\sqrt{3}"),
        # What math-verify takes for equal.
        ("[0,1]", "[0,1)"),
        ("f(x)'", "f(x)"),
        (".5x", "5x"),
        ("X+1", "x+1"),
        ("x < 2", r"x \le 2"),
        (r"2\sqrt{3}\text{ cm}", r"2\sqrt{3}\text{ m}"),
        ("0.666667x", r"\frac{2x}{3}"),
        ("(1,2)", r"\{1,2\}"),
        (r"\{1,2\}", "(1,2)"),
        (r"\{1,1,2\}", r"\{1,2\}"),
        ("2,1", "1,2"),
        ("(1,2)", "1<x<2"),
        ("x = 2x + 1", "2x+1"),
        (r"2\sqrt{3}\%", r"2\sqrt{3}"),
        (r"0.02\sqrt{3}", r"2\sqrt{3}\%"),
        (r"\frac{665857}{470832}", r"\sqrt{2}"),
        ("2xd", "2x"),
        (r"2\sqrt{3}\text{ thousand}", r"2\sqrt{3}"),
        (r"2\sqrt{3}\text{ or so}", r"2\sqrt{3}"),
        (r"2\sqrt{3}\text{ cents}", r"2\sqrt{3}"),
        (r"2\sqrt{3}\mathrm{i}", r"2\sqrt{3}"),
        # Not read, or not an amount.
        (r"2\sqrt{3}!", r"2\sqrt{3}"),
        ("y = 5", r"x = \sqrt{2}"),
        (r"\sqrt{-2}", r"\sqrt{2}"),
        ("e", r"\pi"),
        ("x+2", "x+1"),
        ("yes", "no"),
    ],
)
def test_unknown_are(answer: str, reference: str) -> None:
    assert compare_formulas(answer, reference) == "unknown"


@pytest.mark.parametrize(
    ("answer", "reference"),
    [
        (r"\sqrt{5}", r"2\sqrt{3}"),
        (r"-\sqrt{2}", r"\sqrt{2}"),
        ("0", r"\sqrt{2}"),
        ("2000", "2^{10}"),
        (r"\frac{\sqrt{3}}{2}", r"x = \frac{\sqrt{2}}{3}"),
        (r"7\pi", r"36\pi"),
        ("(2,1)", "(1,2)"),
        ("(3,4)", "(3,-4)"),
    ],
)
def test_amounts_far_apart_are_unequal(answer: str, reference: str) -> None:
    assert compare_formulas(answer, reference) == "unequal"


@pytest.mark.parametrize(
    "answer",
    [
        "9^{9^{9^9}}",
        "((((9^{20})^{20})^{20})^{20})",
        "*".join(["999999999999^{20}"] * 5),
        r"\sqrt{999999999989}" * 5,
        r"\sqrt[9]{999999999989}\sqrt[8]{999999999989}\sqrt[7]{999999999989}",
        r"\sqrt{1+\pi\sqrt{1+\pi\sqrt{1+\pi\sqrt{1+\pi}}}}",
        "*".join(rf"\sqrt[9]{{{999999999000 + n}}}" for n in range(4)),
        "-".join(rf"\sqrt{{{999999999000 + n}}}" for n in range(5)),
        r"\pi^{-20}\pi^{20}",
        "0^{-1}",
        r"(\pi-\pi)^{-1}",
        "9!!!!!!!!",
        r"\int_0^1 x",
        "9" * 100,
        "9" * 10**6,
        "(" * 100,
        "{" * 100,
        "x^{" * 33,
    ],
    ids=lambda text: text[:30],
)
@pytest.mark.parametrize("reference", [r"\sqrt{2}", r"\sqrt{2+\sqrt{3}}", r"\pi", "2^{10}"])
def test_a_hostile_answer_is_decided_quickly(answer: str, reference: str) -> None:
    took = []
    for _ in range(2):
        start = time.perf_counter()
        assert compare_formulas(answer, reference) != "equal"
        took.append(time.perf_counter() - start)
    assert min(took) < 1.5  # of which the child process may have a second


@given(st.lists(st.sampled_from(SIGNS), max_size=24))
@settings(deadline=500)
def test_any_answer_is_compared(signs: list[str]) -> None:
    answer = "".join(signs)
    if compare_formulas(answer, r"\sqrt{2}") == "equal":
        assert "2" in answer
        assert r"\sqrt" in answer


def test_another_thread_than_the_first_may_compare() -> None:
    compared: list[str] = []
    thread = threading.Thread(
        target=lambda: compared.append(compare_formulas(r"2\sqrt{3}", r"\sqrt{12}"))
    )
    thread.start()
    thread.join()
    assert compared == ["equal"]


def test_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        compare_formulas(r"3\sqrt{2}", r"\sqrt{18}")
    assert not caplog.records


def test_sympy_loads_only_in_the_child_process() -> None:
    code = (
        "import sys; from reward_serve.rules import verify\n"
        "assert verify(r'#### 2\\sqrt{3}', r'\\sqrt{12}').outcome == 'right'\n"
        "assert not {'sympy', 'math_verify'} & set(sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def endless(*formulas: str) -> None:
    while True:
        pass


def test_a_comparison_that_takes_too_long_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = ChildProcess("tests.service.rules.test_formulas:endless", 0.1)
    monkeypatch.setattr(formulas, "_child", lambda pid: slow)
    assert compare_formulas("x+2", "2+x") == "unknown"
    slow.close()
