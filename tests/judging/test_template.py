from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from reward_serve.judging import template as template_module
from reward_serve.judging.template import Template, load_template, template_names

SHIPPED = ("final_answer", "gsm8k_strict", "solution")


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
    monkeypatch.setattr(template_module, "_folder", lambda: tmp_path)
    for cached in (load_template, template_names):
        cached.cache_clear()
    yield tmp_path
    for cached in (load_template, template_names):
        cached.cache_clear()


def test_the_shipped_templates_are_found_by_name() -> None:
    assert template_names() == SHIPPED


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_template_shows_one_fenced_response_after_its_reference(name: str) -> None:
    template = load_template(name)
    assert template.name == name
    assert template.fields == ["reference", "response"]
    assert template.user.count("{response}") == 1
    assert "<response>\n{response}\n</response>" in template.user
    assert template.user.index("{reference}") < template.user.index("{response}")


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_template_is_blind_to_the_question(name: str) -> None:
    assert "question" not in load_template(name).fields


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_template_gives_zero_or_one(name: str) -> None:
    label = load_template(name).label
    assert label.values == {"0": 0.0, "1": 1.0}
    assert label.binary


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_verdict_pattern_finds_every_label_as_the_judge_is_told_to_write_it(
    name: str,
) -> None:
    form = load_template(name).generate
    assert re.findall(form.verdict, form.example) == ["1"]
    assert {found[0] for found in re.findall(form.verdict, form.instruction)} == {"0", "1"}


@pytest.mark.parametrize(
    "name", ["", "no_such", "final_answer.yaml", "../template", "templates/final_answer"]
)
def test_an_unknown_template_is_a_key_error(name: str) -> None:
    with pytest.raises(KeyError):
        load_template(name)


def test_the_digest_changes_with_any_byte_of_the_file(folder: Path) -> None:
    digests = set()
    written = {key: value for key, value in data().items() if key not in ("name", "digest")}
    text = yaml.safe_dump(written)
    for content in (text, text + "\n", text.replace("You compare.", "You compare!")):
        (folder / "mine.yaml").write_text(content, encoding="utf-8")
        load_template.cache_clear()
        digests.add(load_template("mine").digest)
    assert len(digests) == 3
    (folder / "mine.yaml").write_text(text, encoding="utf-8")
    load_template.cache_clear()
    assert load_template("mine").digest in digests


def test_only_yaml_files_are_templates(folder: Path) -> None:
    for name in ("b.yaml", "a.yaml", "README.md", "c.yaml.orig"):
        (folder / name).touch()
    assert template_names() == ("a", "b")


def test_fields_are_named_once_in_the_order_of_the_prompt() -> None:
    user = "{reference} {question} {response} {reference} {other}"
    assert Template.model_validate(data(user=user)).fields == ["reference", "question", "response"]


@pytest.mark.parametrize(
    ("values", "binary"),
    [
        ({"0": 0.0, "1": 1.0}, True),
        ({"yes": 1.0, "no": 0.0}, True),
        ({"1": 0.0, "2": 0.5, "3": 1.0}, False),
        ({"0": 0.0, "1": 0.5}, False),
        ({"0": 0.0, "1": 1.0, "2": 1.0}, False),
    ],
)
def test_only_two_labels_worth_zero_and_one_are_binary(
    values: dict[str, float], binary: bool
) -> None:
    label = {"instruction": "Reply.", "values": values}
    assert Template.model_validate(data(label=label)).label.binary is binary


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param(
            {"generate": generate(verdict="VERDICT: ([01]")},
            "verdict: is not a regular expression",
            id="bad regex",
        ),
        pytest.param(
            {"generate": generate(verdict="VERDICT: [01]")},
            "verdict: has no group around the verdict itself",
            id="no group",
        ),
        pytest.param(
            {"generate": generate(verdict="VERDICT: (?:[01])")},
            "verdict: has no group around the verdict itself",
            id="a group that captures nothing",
        ),
        pytest.param(
            {"generate": generate(example="Score: 1")},
            "example: the verdict pattern finds nothing in 'Score: 1'",
            id="example without a verdict",
        ),
        pytest.param(
            {"system": "Compare with {reference}."},
            "system: must not hold placeholders",
            id="placeholder in system",
        ),
        pytest.param(
            {"user": "{reference}"}, "user: must hold {response} exactly once", id="no response"
        ),
        pytest.param(
            {"user": "{response} {response}"},
            "user: must hold {response} exactly once",
            id="two responses",
        ),
        pytest.param({"generate": generate(scale=0)}, "generate.scale", id="scale of nothing"),
        pytest.param(
            {"label": {"instruction": "Reply.", "values": {"1": 1.0}}},
            "label.values",
            id="one label",
        ),
        pytest.param(
            {"label": {"instruction": "", "values": {str(i): 0 for i in range(129)}}},
            "label.values",
            id="more labels than the engine reads",
        ),
        pytest.param({"response_tokens": 0}, "response_tokens", id="no response tokens"),
        pytest.param({"rules": "guess"}, "rules", id="unknown rules"),
        pytest.param({"sytem": "typo"}, "sytem", id="unknown key"),
    ],
)
def test_a_faulty_template_is_refused_when_read(changes: dict[str, Any], message: str) -> None:
    Template.model_validate(data())
    with pytest.raises(ValidationError) as caught:
        Template.model_validate(data(**changes))
    assert message in str(caught.value)
