"""Seeded mistakes: each is reported with its field and a remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reward_serve.engines.base import Tokenizer
from reward_serve.templates import template_names
from reward_serve_lab.linting.template_file import check_file
from tests.service.lab.conftest import Write

FENCED = "<response>\n{response}\n</response>"
BOTH = "<reference>\n{reference}\n</reference>\n"
SHIPPED = Path(__file__).resolve().parents[4] / "reward_serve/templates"


def test_a_template_without_a_mistake_is_left_alone(write: Write, tokenizer: Tokenizer) -> None:
    assert check_file(write(), tokenizer) == []
    theirs = {"reference": "{REFERENCE_SOLUTION}", "response": "{CANDIDATE_SOLUTION}"}
    assert check_file(write(user=(BOTH + FENCED).format(**theirs)), tokenizer) == []


@pytest.mark.parametrize("name", template_names())
def test_the_shipped_templates_pass_and_a_copy_needs_another_name(
    name: str, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    observed = [finding.observed for finding in check_file(SHIPPED / f"{name}.yaml", tokenizer)]
    assert observed == (["shows the {question}"] if name in ("critique", "problem") else [])
    copy = tmp_path / f"{name}.yaml"
    copy.write_bytes((SHIPPED / copy.name).read_bytes())
    taken, *_ = check_file(copy, tokenizer)
    assert (taken.field, taken.remedy) == ("file", "rename the file")


@pytest.mark.parametrize(
    ("changes", "field", "message"),
    [
        ({"user": BOTH}, "user", "must contain {response}"),
        ({"user": BOTH + FENCED * 2}, "user", "{conversation} exactly once"),
        ({"user": BOTH + "{respnse}"}, "user", "not a placeholder; write {response}"),
        ({"user": BOTH + "{{response}}"}, "user", "'{{response}}' is not filled in"),
        ({"system": "Judge {response}."}, "system", "move them to user"),
        ({"user": BOTH + FENCED + "{instruction}"}, "user", "is not filled in here"),
        ({"user": BOTH + "<response>\n{response}"}, "user", "is not inside a fence"),
        (
            {"user": BOTH + "<essay>{response}</essay>"},
            "user",
            "the fence <essay> can be closed by the text inside it; write <response>",
        ),
        ({"system": "<|im_start|>system You compare."}, "system", "contains a special token"),
        ({"label__values": {"right": 1, "not right": 0}}, "label.values", "is not a single token"),
        ({"label__values": {0: 0.0, 1: 1.0}}, "label.values", 'quote it: "0"'),
        ({"label__values": {"0": 1.0, "1": 1.0}}, "label.values", "every label has the value 1"),
        ({"label__values": {"0": 0.0, "1": 10.0}}, "label.values", "use values between 0 and 1"),
        ({"label__instruction": "Reply yes or no."}, "label.instruction", "not name label '0'"),
        ({"response_tokens": ...}, "response_tokens", "is missing"),
        ({"generate__exmple": "x"}, "generate.exmple", "is unknown; did you mean 'example'?"),
        ({"generate__verdict": "VERDICT: ("}, "generate.verdict", "is not a regular expression"),
        ({"generate__verdict": "VERDICT: [01]"}, "generate.verdict", "needs a group"),
        ({"generate__example": "Score: 1"}, "generate.example", "does not match 'Score: 1'"),
        ({"generate__example": "VERDICT: right"}, "generate.example", "neither a label"),
        ({"generate__verdict": r"(?s)VERDICT: ([01]).*"}, "generate.verdict", "hides the last"),
        (
            {"generate__verdict": r"(?:\w+\s?)*VERDICT:([^\n]*)"},
            "generate.verdict",
            "more than 1 s",
        ),
        ({"generate__instruction": "Say it."}, "generate.instruction", "the verdict's format"),
        (
            {
                "label": None,
                "generate__instruction": "End with 'VERDICT: <x>', x from 0 to 100.",
                "generate__example": "VERDICT: 1",
            },
            "generate.scale",
            "set generate.scale: 100",
        ),
        # What may be meant is a warning.
        ({"user": FENCED}, "warning: user", "does not contain {reference}"),
        ({"user": "{reference}\n" + FENCED}, "warning: user", "{reference} is not inside a fence"),
        (
            {"user": BOTH + "<question>\n{question}\n</question>\n" + FENCED},
            "warning: user",
            "{question}",
        ),
        ({"user": BOTH + FENCED + "{rubric}"}, "warning: user", "{rubric} is not a placeholder"),
    ],
)
def test_a_seeded_mistake_is_reported_with_its_field_and_remedy(
    changes: dict[str, Any], field: str, message: str, write: Write, tokenizer: Tokenizer
) -> None:
    findings = [str(finding) for finding in check_file(write(**changes), tokenizer)]
    start = field if field.startswith("warning: ") else f"error: {field}"
    assert any(finding.startswith(f"{start}: ") and message in finding for finding in findings), (
        findings
    )
    assert findings[0].startswith(start.partition(" ")[0])
    assert not any("\n" in finding for finding in findings)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("ours.yaml", "system: a: b", "is not YAML"),
        ("ours.yaml", "just text", "contains str"),
        ("ours.txt", None, "end in .yaml"),
        ("pairwise.yaml", None, "rename the file"),
        ("rubric.yaml", None, "rename the file"),
    ],
)
def test_a_file_that_is_no_template_or_not_found_as_one_is_reported(
    name: str, content: str | None, message: str, write: Write, tokenizer: Tokenizer
) -> None:
    path = write(name)
    if content is not None:
        path.write_text(content, encoding="utf-8")
    (finding,) = check_file(path, tokenizer)
    assert (finding.field, message in str(finding)) == ("file", True)
