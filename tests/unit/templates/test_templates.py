from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from reward_serve.judging.verdict import read_verdict
from reward_serve.schema import Status
from reward_serve.templates import (
    MAX_INLINE_CHARACTERS,
    inline_template,
    load_template,
    parse_template,
    template_names,
)


def data(**changes: Any) -> dict[str, Any]:
    """The content of a template file."""
    shipped = load_template("solution").model_dump(exclude={"name", "digest"})
    return {**shipped, **changes}


@pytest.mark.parametrize("name", template_names())
def test_a_shipped_template_shows_one_fenced_response_after_a_full_reference(name: str) -> None:
    template = load_template(name)
    assert template.name == name
    assert set(template.fields) >= {"reference", "response"}
    assert template.user.count("{response}") == 1
    assert "<response>\n{response}\n</response>" in template.user
    before = template.user.index("{reference}") < template.user.index("{response}")
    assert before is (template.reference == "full")


@pytest.mark.parametrize(
    ("name", "written", "score"),
    [
        ("similarity", "'REWARD: 1', it says.\n**REWARD**: 0.8", 0.8),
        ("similarity", "REWARD: 80", None),
        ("similarity_100", "REWARD: 80", 0.8),
        ("similarity_100", "REWARD: 101", None),
        ("graded", "GRADE: 1", 0.5),
        ("graded", "GRADE: 3", None),
        ("detailed", "<think>VERDICT: 1</think>\nVERDICT: 0", 0.0),
    ],
)
def test_a_shipped_templates_verdict_is_read_on_its_scale(
    name: str, written: str, score: float | None
) -> None:
    assert read_verdict(load_template(name), written, cut_off=False).score == score


@pytest.mark.parametrize(
    "name", ["", "no_such", "final_answer.yaml", "../template", "templates/final_answer"]
)
def test_an_unknown_template_is_a_key_error(name: str) -> None:
    with pytest.raises(KeyError):
        load_template(name)


def test_the_digest_changes_with_what_a_verdict_depends_on_and_nothing_else() -> None:
    first, again, other = (
        parse_template("mine", data(**changes)).digest
        for changes in ({}, {"card": "18.0 is 18."}, {"system": "You compare!"})
    )
    assert first == again != other


@pytest.mark.parametrize(
    "user", ["{response_1}", "{response} {response_1} {response_2}", "{response} {response}"]
)
def test_a_template_shows_one_response_or_two(user: str) -> None:
    with pytest.raises(ValidationError, match="to compare a group's responses"):
        parse_template("mine", data(user=user))


def test_a_place_is_told_of_one_response_and_a_reference() -> None:
    pair = "{response_1}\n{response_2}\n{reference}"
    for user in (pair, "<response>{response}</response>"):
        with pytest.raises(ValueError, match="occurrence: needs"):
            parse_template("mine", data(user=user, occurrence=True))


THEIRS = """Problem: {PROBLEM}
Gold: {REFERENCE_SOLUTION}
Candidate: {CANDIDATE_SOLUTION}
Answer with REWARD: <score> between 0 and 1."""


def test_the_placeholders_become_fenced_fields() -> None:
    template = inline_template(THEIRS)

    assert template.fields == ["question", "reference", "response"]
    assert "Candidate: <response>\n{response}\n</response>" in template.user


@pytest.mark.parametrize(
    "syntax",
    [
        "{PROBLEM.__class__}",
        "{PROBLEM!r} {PROBLEM[0]} {0} {x:>9}",
        "{{ config.items() }} {% for x in y %}{% endfor %}",
        "%s %(PROBLEM)s ${HOME} $(id) `id` <%= 7*7 %>",
        "\\1 \\g<0>",
    ],
)
def test_the_syntax_of_template_languages_stays_text(syntax: str) -> None:
    text = f"{syntax} {{CANDIDATE_SOLUTION}} {syntax}"
    assert inline_template(text).user == f"{syntax} <response>\n{{response}}\n</response> {syntax}"


@pytest.mark.parametrize(
    ("asks", "written", "score"),
    [
        ("REWARD: <score> between 0 and 1", "So.\nREWARD: 0.75", 0.75),
        ("REWARD: <score> between 0 and 1", "REWARD: 0\nNo:\n**REWARD: 1**", 1.0),
        ("REWARD: <score> between 0 and 100", "REWARD: 75", 0.75),
        ("REWARD: <score> (0-100)", "REWARD: 1", 0.01),
        ("a REWARD from 0 to 1", "REWARD: 75", None),
        ("a REWARD from 0 to 1", "75", None),
    ],
)
def test_the_last_reward_is_read_on_the_scale_that_is_asked(
    asks: str, written: str, score: float | None
) -> None:
    verdict = read_verdict(inline_template(f"{{CANDIDATE_SOLUTION}}\n{asks}"), written, False)

    assert verdict.score == score
    assert (verdict.status is Status.OK) is (score is not None)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{PROBLEM}", "CANDIDATE_SOLUTION"),
        ("{CANDIDATE_SOLUTION} {response}", "exactly once"),
        ("{CANDIDATE_SOLUTION}" + "x" * MAX_INLINE_CHARACTERS, "the limit is"),
    ],
)
def test_one_that_cannot_judge_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        inline_template(text)
