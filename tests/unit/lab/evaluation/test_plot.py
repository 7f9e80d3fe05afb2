from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from reward_serve_lab.evaluation.metrics import Bin
from reward_serve_lab.evaluation.tables import plot_reliability

BINS = [Bin(10, 0.1, 0.2), Bin(100, 0.9, 0.7)]


def colours(path: Path) -> int:
    return len(np.unique(np.round(imread(path)[..., :3], 1).reshape(-1, 3), axis=0))


def drawn(folder: Path, curves: dict[str, list[Bin]]) -> Path:
    path = folder / "plot"
    plot_reliability(curves, path)
    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    return path


def test_the_diagram_is_a_png_with_the_curve_on_it(tmp_path: Path) -> None:
    with_curve = imread(drawn(tmp_path, {"run": BINS}))
    without = imread(drawn(tmp_path, {"run": []}))
    assert with_curve.shape == without.shape
    blue = [(image[..., 2] > image[..., 0] + 0.3).sum() for image in (with_curve, without)]
    assert blue[0] > 2 * blue[1]


def test_each_run_has_a_curve(tmp_path: Path) -> None:
    other = [Bin(3, 0.3, 0.9), Bin(3, 0.6, 0.1)]
    assert colours(drawn(tmp_path, {"a": BINS, "b": other})) > colours(drawn(tmp_path, {"a": BINS}))


def test_a_title_is_text_and_no_formula(tmp_path: Path) -> None:
    assert imread(drawn(tmp_path, {r"$\nonsense{$": BINS})).size


def test_a_file_that_cannot_be_written_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        plot_reliability({"run": BINS}, tmp_path / "none" / "plot.png")
