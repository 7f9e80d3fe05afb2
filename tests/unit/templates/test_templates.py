from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from reward_serve.schema import Status
from reward_serve.templates import (
    MAX_INLINE_CHARACTERS,
    Template,
    inline_template,
    load_template,
    parse_template,
    read_verdict,
    template_names,
)
from tests.rows import rows


def data(**changes: Any) -> dict[str, Any]:
    """The content of a template file."""
    return load_template("solution").model_dump(exclude={"name", "digest"}) | changes


def marks(verdict: str) -> Template:
    """A template of marks out of ten, with a pattern."""
    form = {"instruction": "Mark it.", "verdict": verdict, "scale": 10.0, "example": "Score: 7."}
    label = {"instruction": "Reply.", "values": {"bad": 0.0, "fair": 0.4, "good": 1.0}}
    return parse_template("marks", data(label=label, generate=form))


@pytest.mark.parametrize("name", template_names())
def test_a_shipped_template_shows_what_is_judged_fenced_after_the_reference(name: str) -> None:
    template = load_template(name)
    judged = template.shows
    assert template.user.count(f"<{judged}>\n{{{judged}}}\n</{judged}>") == 1
    if template.likelihood:
        assert "{reference}" not in template.user
        return
    before = template.user.index("{reference}") < template.user.index(f"{{{judged}}}")
    assert before is (template.reference == "full")


@pytest.mark.parametrize("name", ["", "no_such", "final_answer.yaml", "../template"])
def test_an_unknown_template_is_a_key_error(name: str) -> None:
    with pytest.raises(KeyError):
        load_template(name)


def test_the_digest_changes_with_what_a_verdict_depends_on_and_nothing_else() -> None:
    changes: list[dict[str, Any]] = [{}, {"card": "18.0 is 18."}, {"system": "You compare!"}]
    first, again, other = (parse_template("mine", data(**change)).digest for change in changes)
    assert first == again != other


PAIR = "{response_1}\n{response_2}\n{reference}"


@pytest.mark.parametrize(
    ("changes", "message"),
    [*rows(__file__, "refused"), ({"user": PAIR, "occurrence": True}, "occurrence: needs")],
)
def test_a_template_that_cannot_judge_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        parse_template("mine", data(**changes))


def test_an_absent_field_is_left_out_at_the_end_too() -> None:
    template = inline_template("{CONVERSATION}\n{REFERENCE_SOLUTION}\n{TOOLS}")
    assert template.without_absent(lambda name: name == "reference").fields == [
        "conversation",
        "reference",
    ]
    assert template.without_absent(lambda name: False).fields == ["conversation"]


THEIRS = """Problem: {PROBLEM}
Gold: {REFERENCE_SOLUTION}
Candidate: {CANDIDATE_SOLUTION}
Answer with REWARD: <score> between 0 and 1."""


def test_the_placeholders_of_an_inline_template_become_fenced_fields() -> None:
    template = inline_template(THEIRS)
    assert template.fields == ["question", "reference", "response"]
    assert "Candidate: <response>\n{response}\n</response>" in template.user


@pytest.mark.parametrize("syntax", rows(__file__, "syntax"))
def test_the_syntax_of_template_languages_stays_text(syntax: str) -> None:
    text = f"{syntax} {{CANDIDATE_SOLUTION}} {syntax}"
    assert inline_template(text).user == f"{syntax} <response>\n{{response}}\n</response> {syntax}"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{PROBLEM}", "CANDIDATE_SOLUTION"),
        ("{CANDIDATE_SOLUTION} {response}", "exactly once"),
        ("{CANDIDATE_SOLUTION}" + "x" * MAX_INLINE_CHARACTERS, "the limit is"),
    ],
)
def test_an_inline_template_that_cannot_judge_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        inline_template(text)


FINAL, MARKS = load_template("final_answer"), marks(r"Score:\s*(\S+)")
QUOTED = "The response says 'VERDICT: 1', but it ends in 17.\n"
TO_1, TO_100, ASKED = (
    inline_template(f"{{response}} {asks}")
    for asks in ("REWARD: <score> between 0 and 1", "REWARD: <score> (0-100)", "a REWARD, 0 to 1")
)


@pytest.mark.parametrize(
    ("template", "text", "score"),
    [
        (FINAL, "**VERDICT: 0**", 0.0),
        (FINAL, "verdict:1.", 1.0),
        (FINAL, "VERDICT:\n\n1", 1.0),
        (FINAL, "VERDICT: 0\nVERDICT: 0\nVERDICT: 1", 1.0),
        (FINAL, "<response>\nVERDICT: 1\n</response>\nThat is no answer.\nVERDICT: 0", 0.0),
        (FINAL, "Right.\r\nVERDICT: 1\r\n" + " " * 10_000, 1.0),
        *((FINAL, QUOTED + text, 0.0) for text in ("VERDICT: **0**", r"VERDICT: \boxed{0}")),
        *((FINAL, QUOTED + text, 0.0) for text in ("**VERDICT:** 0", "**VERDICT**: 0")),
        (FINAL, "<think>VERDICT: 1</think>VERDICT: 0", 0.0),
        (FINAL, "VERDICT: 1</think>\nVERDICT: 0", 0.0),
        (FINAL, "<think></think>VERDICT: 1", 1.0),
        (FINAL, "<think>It says </think> and VERDICT: 1.</think>VERDICT: 0", 0.0),
        (load_template("similarity"), "'REWARD: 1', it says.\n**REWARD**: 0.8", 0.8),
        (load_template("similarity_100"), "REWARD: 80", 0.8),
        (load_template("graded"), "GRADE: 1", 0.5),
        (MARKS, "Score: 1.5", 0.15),
        (MARKS, "Score: 3\nScore: .7", 0.07),
        (MARKS, "Score: 3\nScore: **7.**", 0.7),
        (MARKS, "Score: 3\nScore: fair", 0.4),
        (TO_1, "So.\nREWARD: 0\nNo:\n**REWARD: 0.75**", 0.75),
        (TO_100, "REWARD: 1", 0.01),
    ],
)
def test_the_last_verdict_wins(template: Template, text: str, score: float) -> None:
    verdict = read_verdict(template, text, cut_off=False)
    assert verdict.status is Status.OK
    assert verdict.score == pytest.approx(score)
    cut_off = read_verdict(template, text, cut_off=True)
    assert (cut_off.status, cut_off.score, cut_off.label) == (Status.TRUNCATED, None, None)
    assert "judge.max_tokens" in (cut_off.reason or "")


@pytest.mark.parametrize(
    ("template", "before", "written"),
    [
        (FINAL, "", ["", "The answer is 1.", "VERDICT:", "VERDICT: right", "### Final Score: 1"]),
        (FINAL, "VERDICT: ", ["-1", "nan", "10", "01", "1x", "\u0661", "1.5", "1/2", "1 or 0"]),
        (FINAL, "VERDICT: 1\n", ["VERDICT: 10", "<think>VERDICT: 1"]),
        (FINAL, "<think>17</think>", ["<think>VERDICT: 1"]),
        (FINAL, "<think>It says </think>", ["VERDICT: 1</think>"]),
        (FINAL, "VERDICT: 1</think>", ["", "Done."]),
        (MARKS, "Score: 3\nScore: ", ["10.01", "-1", "1e0", "nan", "inf", "excellent", "7/10"]),
        (MARKS, "Score: 3\nScore: ", ["GOOD", "7,5", "7%", "+7"]),
        (load_template("similarity"), "REWARD: ", ["80"]),
        (load_template("similarity_100"), "REWARD: ", ["101"]),
        (load_template("graded"), "GRADE: ", ["3"]),
        (ASKED, "", ["REWARD: 75", "75"]),
        *(
            (marks(pattern), "Score: ", ["7/10", "7 / 10", "7e1", "-7", "7,5", "7%", "7:3"])
            for pattern in (r"([0-9.]+)", r"Score:\D*(\d+)", r"Score: (\d)")
        ),
    ],
)
def test_no_verdict_and_one_that_is_no_whole_number_on_the_scale_are_unparseable_not_zero(
    template: Template, before: str, written: list[str]
) -> None:
    for text in written:
        verdict = read_verdict(template, before + text, cut_off=False)
        assert (verdict.status, verdict.score) == (Status.UNPARSEABLE, None), text
        assert verdict.label is None
        assert verdict.reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Both are 18.\nVERDICT: 1", "Both are 18."),
        ("<think>VERDICT: 0, hm</think>\n It says VERDICT: 0.\n VERDICT: 1", "It says VERDICT: 0."),
        ("hidden</think>VERDICT: 1\nSo it is.", None),
        ("a" * 9_000 + "b" * 1_999 + "c\nVERDICT: 1", "b" * 1_999 + "c"),
    ],
)
def test_a_verdicts_reason_precedes_it_without_thoughts(text: str, reason: str | None) -> None:
    verdict = read_verdict(FINAL, text, cut_off=False)
    assert (verdict.score, verdict.reason, verdict.text) == (1.0, reason, text)


def test_a_failure_does_not_quote_the_judge() -> None:
    verdict = read_verdict(FINAL, "VERDICT: 1234 secret", cut_off=False)
    assert verdict.status is Status.UNPARSEABLE
    assert "secret" not in (verdict.reason or "") and "1234" not in (verdict.reason or "")


@pytest.mark.parametrize(
    ("critique", "why"),
    [("(", "is not a regular"), ("CRITIQUE: .*", "needs a group"), ("(HINT)", "does not match")],
)
def test_a_pattern_of_critiques_must_read_the_example(critique: str, why: str) -> None:
    data = load_template("critique").model_dump(exclude={"name", "digest"})
    data["generate"]["critique"] = critique
    with pytest.raises(ValidationError, match=f"critique.*{why}"):
        parse_template("own", data)


PIECES = rows(__file__, "pieces")


@pytest.mark.parametrize("name", [n for n in template_names() if n != "likelihood"])
@given(
    st.lists(st.sampled_from(PIECES) | st.text(max_size=8), max_size=20).map("".join), st.booleans()
)
def test_any_text_has_a_verdict_in_the_scale_or_none(name: str, text: str, cut_off: bool) -> None:
    template = load_template(name)
    verdict = read_verdict(template, text, cut_off)
    assert (verdict.status is Status.TRUNCATED) is cut_off
    assert (verdict.score is None) is (verdict.status is not Status.OK)
    assert verdict.reason or verdict.status is Status.OK
    assert verdict.score is None or 0.0 <= verdict.score <= template.highest
