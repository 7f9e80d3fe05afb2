"""Formulas that look equal and are not, and equal ones in another notation."""

from __future__ import annotations

import pytest

from reward_serve_answers.formulas import compare

EQUAL = [
    ("5.", "5"),
    (r"1\,000", "1000"),
    ("x^2+2x+1", "(x+1)^2"),
    (r"\frac{\sqrt{3}}{3}", r"\frac{1}{\sqrt{3}}"),
    ("2,3", r"\{3,2\}"),
    ("x=5", "5"),
    (r"[1,2)\cup(3,\infty)", r"[1,2)\cup(3,\infty)"),
    (r"[1,2)\cup(3,4]", r"[1, 2) \cup (3, \frac{8}{2}]"),
    (
        r"\begin{pmatrix}1&2\\3&4\end{pmatrix}",
        r"\begin{pmatrix}1 & 2\\ 3 & \frac{8}{2}\end{pmatrix}",
    ),
    ("0.333333", r"\frac{1}{3}"),
    (r"60^\circ", r"60^\circ"),
    ("2^{10}", "1024"),
    ("1,000", "1000"),
    (r"\$5", "5"),
    ("3+4i", "4i+3"),
    (r"\left(\frac{1}{2},3\right)", "(0.5,3)"),
    ("e^{2}", "7.389056"),
    ("y=2x+1", "2x+1"),
    (r"\text{Paris}", "Paris"),
    (r"2\sqrt{3}", r"\sqrt{12}"),
    (r"\frac{a+b}{2}", r"\frac{b+a}{2}"),
    (r"\frac12", "0.5"),
    (r"x \in [1,2]", "[1,2]"),
    ("100,200", "100200"),
    ("x^{2}y", "yx^2"),
    ("10^{-3}", "0.001"),
    (r"1.6\times10^{-19}", r"1.60\times10^{-19}"),
    (r"\frac{3}{4}", "0.75"),
    (r"\frac{x}{2}", "0.5x"),
    ("x-1", "-1+x"),
]
DIFFERENT = [
    (r"1.6\times10^{-19}", r"9.1\times10^{-31}"),
    (r"\frac{1}{2^{98}}", r"\frac{1}{2^{99}}"),
    ("0.0000001", "0.0000002"),
    ("5", "x=6"),
    ("(3,0.5)", "(0.5,3)"),
    ("10000000", "10000001"),
    ("-x", "x"),
    ("17+2", "18"),
]
UNDECIDED = [
    (r"\le 18", "18"),
    (r"\neq 18", "18"),
    (r"5\text{ km}", r"5\text{ m}"),
    (r"18\text{ million}", "18"),
    ("101_2", "101_3"),
    (r"6\text{:00 AM}", r"6\text{:00 PM}"),
    ("(1,2)", r"\{1,2\}"),
    ("17 | 18", "18"),
    ("17=18", "18"),
    ("½", r"\frac{1}{2}"),
    (r"0.\overline{3}", r"\frac13"),
    (r"\sin 30^\circ", r"\frac12"),
    ("0.333", r"\frac{1}{3}"),
    (r"3\pi", "9.424778"),
    (r"\pi", "3.14"),
    (r"50\%", "50"),
    (r"50\%", "0.5"),
    ("x", "n"),
    ("2^10", "1024"),
    (r"\sqrt{x^2}", "x"),
    (r"\log_2 8", "3"),
    ("5!", "120"),
    (r"\binom{5}{2}", "10"),
    ("12345.678", "12345.679"),
    ("ab", "ba"),
    (r"(-\infty,3)", r"(-\infty,3]"),
    ("18,19", "18"),
    (r"\infty", r"-\infty"),
    (r"3 \text{ and } 4", "3,4"),
    ("i", r"\sqrt{-1}"),
    (r"1\frac12", r"\frac32"),
    ("0.1+0.2", "0.3"),
    ("1000000.5", "1000000.6"),
    ("1.500001", r"\frac{3}{2}"),
    (r"9\times 2", "18"),
    ("36/2", "18"),
    (r"\frac{36}{2}", "18"),
    (r"\sqrt{324}", "18"),
    (r"e^{i\pi}", "-1"),
    (r"\sqrt[3]{8}", "2"),
    ("0.3333", r"\frac13"),
    ("9.42478", r"3\pi"),
    ("17+1", "18"),
    ("18x", "18"),
]


@pytest.mark.parametrize(("pairs", "score"), [(EQUAL, 1.0), (DIFFERENT, 0.0), (UNDECIDED, None)])
def test_only_whole_formulas_compare(pairs: list[tuple[str, str]], score: float | None) -> None:
    assert [pair for pair in pairs if compare(*pair)[0] != score] == []
    if score is not None:
        assert [pair for pair in pairs if compare(*reversed(pair))[0] not in (score, None)] == []
