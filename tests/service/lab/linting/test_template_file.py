"""Seeded mistakes: each is reported with its field and a remedy."""

from pathlib import Path
from typing import Any

import pytest

from reward_serve.engines.base import Tokenizer
from reward_serve.templates import template_names
from reward_serve_lab.linting.template_file import check_file
from tests.rows import rows
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
    [*rows(__file__, "mistakes"), ({"response_tokens": ...}, "response_tokens", "is missing")],
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


@pytest.mark.parametrize(("name", "content", "message"), rows(__file__, "no_templates"))
def test_a_file_that_is_no_template_or_not_found_as_one_is_reported(
    name: str, content: str | None, message: str, write: Write, tokenizer: Tokenizer
) -> None:
    path = write(name)
    if content is not None:
        path.write_text(content, encoding="utf-8")
    (finding,) = check_file(path, tokenizer)
    assert (finding.field, message in str(finding)) == ("file", True)
