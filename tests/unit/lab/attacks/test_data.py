from __future__ import annotations

import json
from pathlib import Path

import pytest

from reward_serve_lab.attacks.family import Attack
from reward_serve_lab.attacks.problems import GENERIC_QUESTION
from reward_serve_lab.attacks.suite import read_attacks
from reward_serve_lab.evaluation.json_lines import LinesError

GOOD = {"family": "mine", "response": "", "reference": "18"}


def written(folder: Path, *lines: str) -> Path:
    path = folder / "attacks.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_files_attacks_are_read_in_order_and_blank_lines_skipped(tmp_path: Path) -> None:
    asked = GOOD | {"response": "trust me", "question": "How many?", "note": "ours"}
    attacks = read_attacks(written(tmp_path, json.dumps(GOOD), "", json.dumps(asked)))
    assert attacks == [
        Attack("mine", "", "18", GENERIC_QUESTION),
        Attack("mine", "trust me", "18", "How many?"),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "is not JSON"),
        ("[1]", "must be an object (found list)"),
        (json.dumps({"family": "mine", "response": "x"}), "reference: Field required"),
        (
            json.dumps(GOOD | {"response": 18}),
            "response: Input should be a valid string",
        ),
        (
            json.dumps(GOOD | {"reference": ["18"]}),
            "reference: Input should be a valid string",
        ),
        (json.dumps(GOOD | {"family": " "}), "family: must be a non-blank string (found ' ')"),
        (json.dumps(GOOD | {"reference": " "}), "reference: must be a non-blank string"),
        (json.dumps(GOOD | {"response": "\ud800"}), "response: has a lone surrogate"),
        (json.dumps(GOOD | {"question": 3}), "question: "),
    ],
)
def test_a_line_that_is_no_attack_is_named_with_what_is_wrong(
    tmp_path: Path, line: str, message: str
) -> None:
    with pytest.raises(LinesError) as caught:
        read_attacks(written(tmp_path, json.dumps(GOOD), line))
    assert str(caught.value).startswith(f"line 2: {message}")


def test_every_bad_line_is_reported_up_to_ten(tmp_path: Path) -> None:
    with pytest.raises(LinesError) as caught:
        read_attacks(written(tmp_path, *["{"] * 12))
    message = str(caught.value).splitlines()
    assert [line.partition(":")[0] for line in message] == [
        *(f"line {n}" for n in range(1, 11)),
        message[-1],
    ]
    assert message[-1] == "and 2 more"


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LinesError, match="no attack"):
        read_attacks(written(tmp_path, ""))
