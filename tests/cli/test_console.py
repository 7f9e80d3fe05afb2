from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from reward_serve.cli import console
from reward_serve.cli.console import prepare_with_progress
from reward_serve.embedded.bundled import Step


@pytest.mark.parametrize("terminal", [True, False])
def test_each_step_is_a_line_where_there_is_no_terminal_for_a_bar(
    terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prepare(step: Step, adapter: Path | None) -> Path:
        step("dequantising the weights")
        return Path("/prepared")

    monkeypatch.setattr(console, "prepare_bundled", prepare)
    out = Console(file=io.StringIO(), force_terminal=terminal, width=100)
    assert prepare_with_progress(out) == Path("/prepared")
    assert isinstance(out.file, io.StringIO)
    lines = [line.strip() for line in out.file.getvalue().splitlines()]
    assert ("bundled judge: dequantising the weights" in lines) is not terminal
    assert lines[-1].endswith("bundled judge: /prepared")
