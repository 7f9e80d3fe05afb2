"""Run all checks on a template file."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from reward_serve.engines.base import Tokenizer
from reward_serve.templates import parse_template
from reward_serve_lab.linting.answers import (
    check_label_tokens,
    check_labels,
    check_reading,
    check_verdict,
)
from reward_serve_lab.linting.finding import Finding
from reward_serve_lab.linting.structure import check_fields, check_name, read_data
from reward_serve_lab.linting.texts import check_fences, check_placeholders, check_special_tokens


def check_file(path: Path, tokenizer: Tokenizer) -> list[Finding]:
    """The findings on a template file, errors first.

    Args:
        path: the template file.
        tokenizer: the tokenizer of the judge that will use it.
    """
    data = read_data(path)
    if isinstance(data, Finding):
        return [data]
    findings = [
        *check_name(path),
        *check_fields(path.stem, data),
        *check_placeholders(data),
        *check_fences(data),
    ]
    try:
        template = parse_template(path.stem, data)
    except ValidationError:
        pass  # check_fields has reported it
    else:
        findings += check_special_tokens(template, tokenizer)
        findings += check_labels(template)
        findings += check_label_tokens(template, tokenizer)
        findings += check_verdict(template)
        findings += check_reading(template)
    return sorted(findings, key=lambda finding: finding.severity)
