from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

import reward_serve_judge
from reward_serve.cli.console import prepare_with_progress
from reward_serve.engines.bundled import Step
from reward_serve_judge.weights import ADAPTER


@pytest.mark.parametrize("terminal", [True, False])
def test_each_step_is_a_line_where_there_is_no_terminal_for_a_bar(
    terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prepare(step: Step, adapter: Path | None) -> Path:
        step("dequantising the weights")
        return Path("/prepared")

    monkeypatch.setattr(reward_serve_judge, "prepare_bundled", prepare)
    monkeypatch.setattr(reward_serve_judge, "prepare_int8", prepare)
    out = Console(file=io.StringIO(), force_terminal=terminal, width=100)
    assert prepare_with_progress(out) == Path("/prepared")
    assert isinstance(out.file, io.StringIO)
    lines = [line.strip() for line in out.file.getvalue().splitlines()]
    assert ("bundled judge: dequantising the weights" in lines) is not terminal
    assert lines[-1].endswith("bundled judge: /prepared")


@pytest.mark.parametrize(
    ("adapter", "made"),
    [(ADAPTER, ["whole", "int8"]), (Path("/mine"), ["whole"]), (None, ["whole"])],
)
def test_only_the_shipped_judge_is_prepared_in_int8(
    adapter: Path | None, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared: list[str] = []

    def prepare(kind: str) -> Path:
        prepared.append(kind)
        return Path("/prepared")

    monkeypatch.setattr(
        reward_serve_judge, "prepare_bundled", lambda step, adapter: prepare("whole")
    )
    monkeypatch.setattr(reward_serve_judge, "prepare_int8", lambda step, adapter: prepare("int8"))
    prepare_with_progress(Console(file=io.StringIO()), adapter)
    assert prepared == made
