import json
from pathlib import Path
from typing import Any

import pytest

from tests.fake_service import FakeService
from tests.rows import rows
from tests.unit.cli.test_main import invoke

CALL = {"name": "add", "arguments": {"a": 9, "b": 9}}
TASK: list[dict[str, Any]] = [
    {"role": "user", "content": "9 + 9?"},
    {"role": "assistant", "content": "Let me.\x1b[1m", "tool_calls": [{"function": CALL}]},
    {"role": "tool", "content": "18", "name": "add"},
    {"role": "assistant", "content": "It is\n#### 18"},
]


@pytest.mark.parametrize("content", [TASK, {"messages": TASK, "reference": "17"}])
def test_a_conversation_is_scored_with_its_turns(
    service: FakeService, tmp_path: Path, content: object
) -> None:
    (file := tmp_path / "task.json").write_text(json.dumps(content))
    result = invoke("ask", "--messages", file, "--turns", "--reference", 18, "--url", service.url)
    lines = result.output.splitlines()
    assert (result.exit_code, lines[0], lines[1]) == (0, "score: 1.0", "status: ok")
    assert lines[-2].startswith("turn_1: unparseable: the turn calls tools")
    assert rf"; 'Let me.\x1b[1m {json.dumps(CALL)[:40]}" in lines[-2]
    assert lines[-1] == "turn_2: 1; 'It is #### 18'"
    assert invoke("ask", "9 + 9?", "#### 18", "--url", service.url).exit_code == 1  # no reference


@pytest.mark.parametrize(
    ("content", "arguments", "code", "message"), rows(__file__, "no_conversations")
)
def test_what_is_no_conversation_is_refused(
    service: FakeService,
    tmp_path: Path,
    content: str,
    arguments: list[str],
    code: int,
    message: str,
) -> None:
    (file := tmp_path / "task.json").write_text(content)
    result = invoke("ask", "--messages", file, *arguments, "--url", service.url)
    assert (result.exit_code, message in result.output) == (code, True), result.output
