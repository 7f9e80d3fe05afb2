import io
from pathlib import Path

import pytest
from rich.console import Console

import reward_serve_judge
from reward_serve.cli.console import prepare_with_progress
from reward_serve.engines.bundled import Step
from reward_serve_judge.weights import ADAPTER


@pytest.mark.parametrize(
    ("adapter", "made"),
    [(ADAPTER, ["whole", "int8"]), (Path("/mine"), ["whole"]), (None, ["whole"])],
)
def test_only_the_shipped_judge_is_prepared_in_int8_and_each_step_is_printed(
    adapter: Path | None, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def prepare(kind: str, step: Step) -> Path:
        step(kind)
        return Path("/prepared")

    for kind, name in (("whole", "prepare_bundled"), ("int8", "prepare_int8")):
        monkeypatch.setattr(
            reward_serve_judge, name, lambda step, adapter, kind=kind: prepare(kind, step)
        )
    out = io.StringIO()
    assert prepare_with_progress(Console(file=out), adapter) == Path("/prepared")
    assert out.getvalue().splitlines() == [f"bundled judge: {n}" for n in (*made, "/prepared")]
