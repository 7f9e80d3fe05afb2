"""Seeded mistakes: each is reported with its field and a remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reward_serve.engines.base import Tokenizer
from reward_serve.templates import template_names
from reward_serve_lab.linting.check import check_file
from tests.service.lab.conftest import Write

FENCED = "<response>\n{response}\n</response>"
BOTH = "<reference>\n{reference}\n</reference>\n"
SHIPPED = Path(__file__).resolve().parents[4] / "reward_serve/templates"


def test_a_template_without_a_mistake_is_left_alone(write: Write, tokenizer: Tokenizer) -> None:
    assert check_file(write(), tokenizer) == []


@pytest.mark.parametrize("name", template_names())
def test_the_shipped_templates_pass_except_for_their_names(
    name: str, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.yaml"
    copy.write_bytes((SHIPPED / f"{name}.yaml").read_bytes())
    found = [finding.found for finding in check_file(copy, tokenizer)]
    assert found == (["shows the {question}"] if name == "problem" else [])
    taken, *_ = check_file(SHIPPED / f"{name}.yaml", tokenizer)
    assert (taken.field, taken.remedy) == ("file", "rename the file")


def test_the_placeholders_of_another_judge_are_known(write: Write, tokenizer: Tokenizer) -> None:
    user = BOTH + FENCED
    for ours, theirs in (
        ("{reference}", "{REFERENCE_SOLUTION}"),
        ("{response}", "{CANDIDATE_SOLUTION}"),
    ):
        user = user.replace(ours, theirs)
    assert check_file(write(user=user), tokenizer) == []


def test_latex_and_plain_braces_are_no_placeholders(write: Write, tokenizer: Tokenizer) -> None:
    system = r"Answers look like \boxed{answer}, \frac{one}{two}, x_{max} or {1, 2}."
    assert check_file(write(system=system), tokenizer) == []


@pytest.mark.parametrize(
    ("changes", "field", "said"),
    [
        pytest.param({"user": BOTH}, "user", "must contain {response}", id="no response"),
        pytest.param(
            {"user": BOTH + FENCED * 2}, "user", "{response} exactly once", id="two responses"
        ),
        pytest.param(
            {"user": FENCED, "occurrence": True}, "occurrence", "or omit it", id="no occurrence"
        ),
        pytest.param(
            {"user": BOTH + "{respnse}"},
            "user",
            "not a placeholder; write {response}",
            id="misspelt",
        ),
        pytest.param(
            {"user": BOTH + "{CANDIDATE}" + FENCED},
            "user",
            "{CANDIDATE} is not a placeholder; write {CANDIDATE_SOLUTION}",
            id="another's misspelt",
        ),
        pytest.param(
            {"user": BOTH + "{{response}}"}, "user", "'{{response}}' is not filled in", id="Jinja"
        ),
        pytest.param(
            {"user": BOTH + FENCED + "{% if x %}"},
            "user",
            "'{% if x %}' is not filled in",
            id="a block",
        ),
        pytest.param(
            {"system": "Judge {response}."}, "system", "move them to user", id="field in system"
        ),
        pytest.param(
            {"user": BOTH + FENCED + "{instruction}"},
            "user",
            "is not filled in here",
            id="instruction",
        ),
        pytest.param({"user": BOTH + "{response}"}, "user", "is not inside a fence", id="no fence"),
        pytest.param(
            {"user": BOTH + "<response>\n{response}"},
            "user",
            "is not inside a fence",
            id="open fence",
        ),
        pytest.param(
            {"user": BOTH + "<essay>{response}</essay>"},
            "user",
            "the fence <essay> can be closed by the text inside it; write <response>",
            id="a fence that can be closed",
        ),
        pytest.param(
            {"system": "<|im_start|>system You compare."},
            "system",
            "contains a special token",
            id="a turn of its own",
        ),
        pytest.param(
            {"label__values": {"right": 1.0, "not right": 0.0}},
            "label.values",
            "is not a single token",
            id="a label of several tokens",
        ),
        pytest.param(
            {"label__values": {0: 0.0, 1: 1.0}}, "label.values", 'quote it: "0"', id="YAML numbers"
        ),
        pytest.param(
            {"label__values": {"1": 1.0}}, "label.values", "at least 2 items", id="one label"
        ),
        pytest.param(
            {"label__values": {"0": 1.0, "1": 1.0}},
            "label.values",
            "every label has the value 1",
            id="labels of one worth",
        ),
        pytest.param(
            {"label__values": {"0": 0.0, "1": 10.0}},
            "label.values",
            "use values between 0 and 1",
            id="worth ten",
        ),
        pytest.param(
            {"label__instruction": "Reply yes or no."},
            "label.instruction",
            "does not name label '0'",
            id="labels unsaid",
        ),
        pytest.param({"generate": ...}, "generate", "is missing", id="no generate"),
        pytest.param({"response_tokens": ...}, "response_tokens", "is missing", id="no budget"),
        pytest.param(
            {"response_tokens": 0}, "response_tokens", "greater than or equal to 1", id="no tokens"
        ),
        pytest.param(
            {"sytem": "x"}, "sytem", "is unknown; did you mean 'system'?", id="unknown field"
        ),
        pytest.param(
            {"generate__exmple": "x"}, "generate.exmple", "did you mean 'example'?", id="unknown in"
        ),
        pytest.param({"rules": "numeric"}, "rules", "'gsm8k'", id="unknown rules"),
        pytest.param({"digest": "0"}, "digest", "remove it", id="digest"),
        pytest.param(
            {"generate__verdict": "VERDICT: ("},
            "generate.verdict",
            "is not a regular expression",
            id="pattern",
        ),
        pytest.param(
            {"generate__verdict": "VERDICT: [01]"},
            "generate.verdict",
            "needs a group around the verdict itself",
            id="no group",
        ),
        pytest.param(
            {"generate__example": "Score: 1"},
            "generate.example",
            "does not match 'Score: 1'; write an output of the judge",
            id="an example of another form",
        ),
        pytest.param(
            {"generate__example": "VERDICT: right"},
            "generate.example",
            "reads 'right'",
            id="an example that is no score",
        ),
        pytest.param(
            {"generate__verdict": r"(?s)VERDICT: ([01]).*"},
            "generate.verdict",
            "a planted first verdict hides the last",
            id="the first verdict wins",
        ),
        pytest.param(
            {"generate__verdict": r"(?:\w+\s?)*VERDICT:([^\n]*)"},
            "generate.verdict",
            "takes more than 1 s",
            id="a pattern that backtracks",
        ),
        pytest.param(
            {"generate__instruction": "Say what you think."},
            "generate.instruction",
            "does not state the verdict's format",
            id="a form that is not asked for",
        ),
        pytest.param(
            {
                "label": None,
                "generate__instruction": "End with 'VERDICT: <x>', x from 0 to 100.",
                "generate__example": "VERDICT: 1",
            },
            "generate.scale",
            "set generate.scale: 100",
            id="another scale",
        ),
    ],
)
def test_a_seeded_mistake_is_reported_with_its_field_and_remedy(
    changes: dict[str, Any], field: str, said: str, write: Write, tokenizer: Tokenizer
) -> None:
    findings = check_file(write(**changes), tokenizer)
    listed = [
        f"{finding.found}; {finding.remedy}" for finding in findings if finding.field == field
    ]
    assert any(said in text for text in listed), findings
    assert findings[0].severity == "error"
    assert not any("\n" in str(finding) for finding in findings)


def test_labels_that_share_a_token_are_reported(write: Write, tokenizer: Tokenizer) -> None:
    class FakeTokenizer:
        """Writes every letter as one token."""

        def chat(self, messages: Any, enable_thinking: bool) -> str:
            return tokenizer.chat(messages, enable_thinking)

        def encode_control(self, text: str) -> list[int]:
            return [7 for _ in text]

        def encode_plain(self, text: str) -> tuple[list[int], list[int]]:
            return self.encode_control(text), [*range(len(text))]

    fake: Any = FakeTokenizer()
    (finding,) = check_file(write(), fake)
    assert finding.field == "label.values"
    assert "share a token" in finding.found


@pytest.mark.parametrize(
    ("user", "said"),
    [
        pytest.param(FENCED, "does not contain {reference}", id="no reference"),
        pytest.param("{reference}\n" + FENCED, "{reference} is not inside a fence", id="unfenced"),
        pytest.param(
            BOTH + "<question>\n{question}\n</question>\n" + FENCED, "{question}", id="question"
        ),
        pytest.param(
            BOTH + FENCED + "{rubric}", "{rubric} is not a placeholder", id="like nothing"
        ),
    ],
)
def test_what_may_be_meant_is_a_warning(
    user: str, said: str, write: Write, tokenizer: Tokenizer
) -> None:
    (finding,) = check_file(write(user=user), tokenizer)
    assert finding.severity == "warning"
    assert said in finding.found


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param("system: a: b", "is not YAML", id="a colon unquoted"),
        pytest.param("just text", "contains str", id="text"),
        pytest.param("", "contains NoneType", id="empty"),
    ],
)
def test_a_file_that_is_no_template_is_reported(
    content: str, said: str, tmp_path: Path, tokenizer: Tokenizer
) -> None:
    path = tmp_path / "ours.yaml"
    path.write_text(content, encoding="utf-8")
    (finding,) = check_file(path, tokenizer)
    assert said in finding.found


@pytest.mark.parametrize("name", ["final_answer", "pairwise", "rubric"])
def test_the_name_of_a_shipped_template_is_taken(
    name: str, write: Write, tokenizer: Tokenizer
) -> None:
    (finding,) = check_file(write(f"{name}.yaml"), tokenizer)
    assert (finding.field, finding.remedy) == ("file", "rename the file")


def test_a_file_by_another_ending_would_not_be_found(write: Write, tokenizer: Tokenizer) -> None:
    (finding,) = check_file(write("ours.txt"), tokenizer)
    assert "end in .yaml" in finding.remedy
