from pathlib import Path
from typing import Any

import pytest
import yaml

from reward_serve.engines.base import Tokenizer
from reward_serve_lab.linting.rubric_file import check_rubric
from tests.rows import rows
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
        *rows(__file__, "findings"),
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
