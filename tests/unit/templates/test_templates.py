from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from reward_serve import templates
from reward_serve.judging.verdict import read_verdict
from reward_serve.templates import load_template, parse_template, template_names

BINARY = ("detailed", "final_answer", "gsm8k_strict", "problem", "solution")


def data(**changes: Any) -> dict[str, Any]:
    return {
        "name": "mine",
        "description": "A template of the tests.",
        "response_tokens": 8,
        "system": "You compare.",
        "user": "Gold: {reference}\n<response>\n{response}\n</response>",
        "label": {"instruction": "Reply 1 or 0.", "values": {"0": 0.0, "1": 1.0}},
        "generate": generate(),
        "digest": "0",
        **changes,
    }


def generate(**changes: Any) -> dict[str, Any]:
    return {
        "instruction": "End with 'VERDICT: 1' or 'VERDICT: 0'.",
        "verdict": "VERDICT: ([01])",
        "example": "VERDICT: 1",
        **changes,
    }


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that stands for the shipped templates'."""
    monkeypatch.setattr(templates, "_folder", lambda folder: tmp_path)
    for cached in (load_template, template_names):
        cached.cache_clear()
    yield tmp_path
    for cached in (load_template, template_names):
        cached.cache_clear()


@pytest.mark.parametrize("name", template_names())
def test_a_shipped_template_shows_one_fenced_response_after_a_full_reference(name: str) -> None:
    template = load_template(name)
    assert template.name == name
    assert set(template.fields) >= {"reference", "response"}
    assert template.user.count("{response}") == 1
    assert "<response>\n{response}\n</response>" in template.user
    before = template.user.index("{reference}") < template.user.index("{response}")
    assert before is (template.reference == "full")


@pytest.mark.parametrize("name", BINARY)
def test_a_shipped_verdict_pattern_finds_every_label_in_the_instructed_form(
    name: str,
) -> None:
    form = load_template(name).generate
    assert re.findall(form.verdict, form.example) == ["1"]
    assert {found[0] for found in re.findall(form.verdict, form.instruction)} == {"0", "1"}


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


def test_the_digest_changes_with_what_a_verdict_depends_on_and_nothing_else(folder: Path) -> None:
    written = {key: value for key, value in data().items() if key not in ("name", "digest")}
    text = yaml.safe_dump(written)

    def digest(content: str) -> str:
        (folder / "mine.yaml").write_text(content, encoding="utf-8")
        load_template.cache_clear()
        return load_template("mine").digest

    first = digest(text)
    assert digest(text.replace("You compare.", "You compare!")) != first
    assert digest("# a comment\n" + yaml.safe_dump(written | {"card": "18.0 is 18."})) == first


@pytest.mark.parametrize(
    "user", ["{response_1}", "{response} {response_1} {response_2}", "{response} {response}"]
)
def test_a_template_shows_one_response_or_two(user: str) -> None:
    with pytest.raises(ValidationError, match="to compare a group's responses"):
        parse_template("mine", {**data(), "user": user})


def test_a_place_is_told_of_one_response_and_a_reference() -> None:
    data = load_template("final_answer").model_dump(exclude={"name", "digest"})
    pair = "{response_1}\n{response_2}\n{reference}"
    for user in (pair, "<response>{response}</response>"):
        with pytest.raises(ValueError, match="occurrence: needs"):
            parse_template("mine", {**data, "user": user})
