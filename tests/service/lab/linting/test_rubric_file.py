from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from reward_serve.engines.base import Tokenizer
from reward_serve_lab.linting.rubric_file import check_rubric
from tests.unit.reward_models.test_rubric import WordTokenizer


@pytest.fixture
def tokenizer() -> Any:
    return WordTokenizer()


def findings_of(folder: Path, content: Any, tokenizer: Tokenizer) -> list[str]:
    file = folder / "rubric.yaml"
    file.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return [str(finding) for finding in check_rubric(file, tokenizer)]


def criterion(name: str, text: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "text": text, **fields}


CLEAR = criterion("clear", "A: very clear, B: hard to follow.", choices={"A": 1.0, "B": 0.0})


def test_a_rubric_without_faults_has_no_findings(tmp_path: Path, tokenizer: Tokenizer) -> None:
    rubric = [
        criterion("brief", "It is brief.", required=True),
        CLEAR,
        criterion("rude", "Rude?", weight=-1),
    ]
    assert findings_of(tmp_path, rubric, tokenizer) == []
    del rubric[0]["required"]
    (nothing_required,) = findings_of(tmp_path, rubric, tokenizer)
    assert nothing_required.startswith("warning: required: no criterion is required")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: [", "error: file: cannot be read: "),
        ("applications: []\n", "error: file: is a mapping of applications; write a YAML list"),
        ("- x", "error: 0: Input should be a valid dictionary"),
        ([criterion("a", "x?")] * 2, "error: file: two criteria are named 'a'; rename"),
        (
            [criterion("a", "Is it brief?"), criterion("b", "is it Brief")],
            "error: 1.text: asks the same as 'a'",
        ),
        (
            [criterion("a", "good: fine, very bad: not.", choices={"good": 1, "very bad": 0})],
            "error: 0.choices: label 'very bad' is not a single token",
        ),
        (
            [criterion("a", "How clear?", choices={"A": 1, "B": 0})],
            "warning: 0.text: the text does not say when to choose A, B",
        ),
        (
            [criterion("a", "A: good, B: bad.", choices={"A": 0.5, "B": 0})],
            "error: 0.choices: the best choice scores 0.5, so no response can reach 1",
        ),
        (
            [
                criterion("a", "Good?"),
                criterion("b", "A: bad, B: not.", weight=-1, choices={"A": 1, "B": 0.5}),
            ],
            "error: 1.choices: every choice costs at least 0.5 of the weight",
        ),
        ([criterion("a", "long " * 300)], "warning: 0.text: has 600 tokens"),
    ],
)
def test_a_finding_names_the_criterion_and_the_remedy(
    content: Any, message: str, tmp_path: Path, tokenizer: Tokenizer
) -> None:
    findings = findings_of(tmp_path, content, tokenizer)
    findings = [finding for finding in findings if "no criterion is required" not in finding]
    assert len(findings) == 1
    assert findings[0].startswith(message)
    assert "; " in findings[0]
