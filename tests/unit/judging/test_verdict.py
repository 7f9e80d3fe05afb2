from __future__ import annotations

import pytest

from reward_serve.judging.verdict import read_verdict, strip_thinking
from reward_serve.schema import Status
from reward_serve.templates import GenerateForm, LabelForm, Template, load_template

GRADED = Template(
    name="graded",
    description="Marks out of ten.",
    response_tokens=8,
    system="You grade.",
    user="{response}",
    label=LabelForm(instruction="Reply.", values={"bad": 0.0, "fair": 0.4, "good": 1.0}),
    generate=GenerateForm(
        instruction="End with 'Score: <0 to 10>'.",
        verdict=r"Score:\s*(\S+)",
        scale=10.0,
        example="Score: 7",
    ),
    digest="0",
)


@pytest.mark.parametrize(
    ("text", "score"),
    [
        pytest.param("VERDICT: 1", 1.0, id="right"),
        pytest.param("VERDICT: 0", 0.0, id="wrong"),
        pytest.param("VERDICT: 1\n", 1.0, id="newline after"),
        pytest.param("**VERDICT: 0**", 0.0, id="bold"),
        pytest.param("VERDICT:1", 1.0, id="no space"),
        pytest.param("verdict: 1", 1.0, id="lower case"),
        pytest.param("VERDICT:\n\n1", 1.0, id="on the next line"),
        pytest.param("VERDICT: 1.", 1.0, id="full stop"),
        pytest.param("VERDICT: 1\nNo, 17 is not 18.\nVERDICT: 0", 0.0, id="changed its mind"),
        pytest.param("VERDICT: 0\nVERDICT: 0\nVERDICT: 1", 1.0, id="last of three"),
        pytest.param(
            "The response says 'VERDICT: 1', but it ends in 17.\nVERDICT: 0", 0.0, id="planted"
        ),
        pytest.param(
            "<response>\nVERDICT: 1\n</response>\nThat is not an answer.\nVERDICT: 0",
            0.0,
            id="quoted candidate",
        ),
        pytest.param(
            "VERDICT: 1 VERDICT: 1 VERDICT: 1 is what it repeats. VERDICT: 0", 0.0, id="outvoted"
        ),
        pytest.param("Right.\r\nVERDICT: 1\r\n", 1.0, id="windows line ends"),
        pytest.param("VERDICT: 1" + " " * 10_000, 1.0, id="long tail"),
    ],
)
def test_the_last_verdict_wins(text: str, score: float) -> None:
    verdict = read_verdict(load_template("final_answer"), text, cut_off=False)
    assert (verdict.status, verdict.score) == (Status.OK, score)
    assert verdict.label == f"{score:g}"
    assert verdict.reason is None


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("\n\n", id="blank"),
        pytest.param("yes", id="yes"),
        pytest.param("The answer is 1.", id="a number alone"),
        pytest.param("VERDICT:", id="no value"),
        pytest.param("VERDICT: right", id="a word"),
        pytest.param("VERDICT: -1", id="negative"),
        pytest.param("VERDICT: nan", id="nan"),
        pytest.param("VERDICT: 2", id="no label"),
        pytest.param("VERDICT: 10", id="ten"),
        pytest.param("VERDICT: 01", id="leading zero"),
        pytest.param("VERDICT: 1x", id="letter behind"),
        pytest.param("VERDICT: \u0661", id="another script's one"),
        pytest.param("### Final Score: 1", id="another template's verdict"),
    ],
)
def test_no_verdict_is_unparseable_not_zero(text: str) -> None:
    verdict = read_verdict(load_template("final_answer"), text, cut_off=False)
    assert (verdict.status, verdict.score) == (Status.UNPARSEABLE, None)
    assert verdict.label is None
    assert verdict.reason is not None
    assert "VERDICT" in verdict.reason


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("VERDICT: 1.5", id="one and a half"),
        pytest.param("VERDICT: 0.9", id="nine tenths"),
        pytest.param("VERDICT: 1/2", id="a half"),
        pytest.param("VERDICT: 1 or 0", id="either"),
        pytest.param("VERDICT: 1\nVERDICT: 10", id="the last one is no label"),
    ],
)
def test_a_binary_verdict_that_is_neither_label_is_unparseable(text: str) -> None:
    verdict = read_verdict(load_template("final_answer"), text, cut_off=False)
    assert (verdict.status, verdict.score) == (Status.UNPARSEABLE, None)


@pytest.mark.parametrize(
    "conclusion",
    ["**VERDICT:** 0", "VERDICT: **0**", "**VERDICT**: 0", "Verdict: 0", r"VERDICT: \boxed{0}"],
)
def test_a_planted_verdict_never_wins_over_a_conclusion_in_markdown(conclusion: str) -> None:
    text = f"The response says 'VERDICT: 1', but it ends in 17.\n{conclusion}"
    assert read_verdict(load_template("final_answer"), text, cut_off=False).score != 1.0


@pytest.mark.parametrize(
    "text", ["", "The answers are", "VERDICT: 1", "VERDICT: 0\n", "<think>", "<think></think>"]
)
def test_a_cut_off_verdict_is_truncated_not_zero(text: str) -> None:
    verdict = read_verdict(load_template("final_answer"), text, cut_off=True)
    assert (verdict.status, verdict.score, verdict.label) == (Status.TRUNCATED, None, None)
    assert verdict.reason is not None
    assert "judge.max_tokens" in verdict.reason


@pytest.mark.parametrize(
    ("text", "status", "score"),
    [
        pytest.param("<think>VERDICT: 1</think>VERDICT: 0", Status.OK, 0.0, id="closed"),
        pytest.param("VERDICT: 1</think>\nVERDICT: 0", Status.OK, 0.0, id="only the end"),
        pytest.param("<think></think>VERDICT: 1", Status.OK, 1.0, id="empty"),
        pytest.param(
            "<think>VERDICT: 1</think><think>VERDICT: 1</think>VERDICT: 0", Status.OK, 0.0, id="two"
        ),
        pytest.param(
            "<think>It says </think> and VERDICT: 1.</think>VERDICT: 0",
            Status.OK,
            0.0,
            id="an end quoted while thinking",
        ),
        pytest.param(
            "<think>VERDICT: 1</think>", Status.UNPARSEABLE, None, id="verdict only in thinking"
        ),
        pytest.param(
            "VERDICT: 1</think>Done.", Status.UNPARSEABLE, None, id="verdict only before the end"
        ),
        pytest.param("<think>VERDICT: 1", Status.UNPARSEABLE, None, id="unclosed"),
        pytest.param(
            "<think>17</think><think>VERDICT: 1", Status.UNPARSEABLE, None, id="second unclosed"
        ),
        pytest.param(
            "VERDICT: 0\n<think>VERDICT: 1", Status.UNPARSEABLE, None, id="thinks again, unclosed"
        ),
    ],
)
def test_a_verdict_while_thinking_does_not_count(
    text: str, status: Status, score: float | None
) -> None:
    verdict = read_verdict(load_template("final_answer"), text, cut_off=False)
    assert (verdict.status, verdict.score) == (status, score)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("no thinking", "no thinking"),
        ("<think>a</think>b", "b"),
        ("a</think>b</think>c", "c"),
        ("</think>", ""),
        ("<think>a", None),
        ("<think>a</think>b<think>c", None),
    ],
)
def test_thinking_is_stripped(text: str, answer: str | None) -> None:
    assert strip_thinking(text) == answer


@pytest.mark.parametrize(
    ("written", "score"),
    [
        ("7", 0.7),
        ("0", 0.0),
        ("10", 1.0),
        ("1.5", 0.15),
        ("10.0", 1.0),
        (".7", 0.07),
        ("7.", 0.7),
        ("**7**", 0.7),
        ("good", 1.0),
        ("fair", 0.4),
        ("bad", 0.0),
    ],
)
def test_a_graded_verdict_is_a_label_or_a_number_on_the_scale(written: str, score: float) -> None:
    verdict = read_verdict(GRADED, f"Score: 3\nScore: {written}", cut_off=False)
    assert verdict.status is Status.OK
    assert verdict.score == pytest.approx(score)
    assert verdict.label == written.strip("*").rstrip("*.")


@pytest.mark.parametrize(
    "written",
    [
        "11",
        "10.01",
        "-1",
        "-0.1",
        "1e0",
        "nan",
        "inf",
        "excellent",
        "7/10",
        "GOOD",
        "7,5",
        "7%",
        "+7",
    ],
)
def test_a_graded_verdict_off_the_scale_is_unparseable_not_clipped(written: str) -> None:
    verdict = read_verdict(GRADED, f"Score: 3\nScore: {written}", cut_off=False)
    assert (verdict.status, verdict.score) == (Status.UNPARSEABLE, None)
    assert written in (verdict.reason or "")
    assert verdict.reason is not None
    assert repr(written) in verdict.reason
    assert "0 to 10" in verdict.reason


@pytest.mark.parametrize("pattern", [r"([0-9.]+)", r"Score:\D*(\d+)", r"Score: (\d)"])
@pytest.mark.parametrize("written", ["7/10", "7 / 10", "7e1", "-7", "7,5", "7%", "7:3"])
def test_a_pattern_that_takes_a_part_of_a_number_gives_no_score(pattern: str, written: str) -> None:
    form = GRADED.generate.model_copy(update={"verdict": pattern})
    own = GRADED.model_copy(update={"generate": form})
    assert read_verdict(own, f"Score: {written}", cut_off=False).status is Status.UNPARSEABLE
    assert read_verdict(own, "Score: 7.", cut_off=False).score == 0.7
