"""The reliability diagram."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from reward_serve_lab.evaluation.metrics import BINS, Bin


def plot_reliability(curves: Mapping[str, Sequence[Bin]], path: Path) -> None:
    """Plot observed against predicted accuracy, one curve per run, above each bin's row count.

    Raises:
        OSError: the file cannot be written.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 7), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    above.plot([0, 1], [0, 1], color="grey", linestyle="--", label="perfectly calibrated")
    for title, bins in curves.items():
        predicted = [b.predicted for b in bins]
        label = title.replace("$", r"\$")
        (line,) = above.plot(predicted, [b.right for b in bins], marker="o", label=label)
        below.plot(
            predicted, [b.n for b in bins], marker="o", linestyle="none", color=line.get_color()
        )
    above.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), ylabel="fraction right")
    above.set_title(f"Reliability, {BINS} equal-width bins")
    above.legend()
    below.set(xlabel="predicted probability right (mean of the bin)", ylabel="rows")
    below.set_yscale("symlog")
    below.set_ylim(0, 10 * max((b.n for bins in curves.values() for b in bins), default=1))
    figure.savefig(path, format="png", dpi=120)
