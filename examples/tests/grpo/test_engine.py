from __future__ import annotations

from pathlib import Path

from examples.grpo.engine import prune


def test_what_was_saved_to_sample_from_is_pruned_and_states_are_kept(tmp_path: Path) -> None:
    going, finished = (tmp_path / "checkpoints" / name for name in ("model_a", "model_b"))
    for model in (going, finished):
        (model / "sampler_weights").mkdir(parents=True)
        (model / "sampler_weights" / "step-1.tar.gz").touch()
        (model / "sampler_weights" / "step-0.tar.gz.probe").touch()
    (going / "step-1.tar.gz").mkdir()

    prune(tmp_path)

    assert sorted(tmp_path.rglob("*")) == [
        tmp_path / "checkpoints",
        going,
        going / "step-1.tar.gz",
    ]
