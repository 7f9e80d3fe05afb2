from __future__ import annotations

import pytest

from reward_serve.judging.verdict import read_verdict
from reward_serve.schema import Status
from reward_serve.templates import MAX_INLINE_CHARACTERS, inline_template, is_inline, template_names

THEIRS = """Problem: {PROBLEM}
Gold: {REFERENCE_SOLUTION}
Candidate: {CANDIDATE_SOLUTION}
Answer with REWARD: <score> between 0 and 1."""


def test_only_text_with_a_placeholder_is_an_inline_template() -> None:
    assert not any(map(is_inline, template_names()))
    assert is_inline(THEIRS)
    assert is_inline("Is {response} right?")


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
