"""Score rows behind a progress bar, with one or several templates and modes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress

from reward_serve.client.transport import Transport
from reward_serve_lab.evaluation.bulk import Run, score_rows
from reward_serve_lab.evaluation.stability import flips

BATCH_SIZES = (1, 8, 64)
"""Batch sizes of ``--stability``, besides the first run's; batches of 1 are sent one at a time."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A template and a mode to evaluate; None means the deployment's default."""

    template: str | None
    mode: str | None

    @property
    def title(self) -> str:
        """The title of the run in tables."""
        return ", ".join(filter(None, (self.template, self.mode))) or "as deployed"

    @property
    def settings(self) -> dict[str, Any]:
        """Fields of every request; the judge's cache is off."""
        mode = {"mode": self.mode} if self.mode else {}
        template = {"template": self.template} if self.template else {}
        return {**template, "options": {**mode, "cache": False}}


def score_again(
    score: Callable[..., Run],
    first: Run,
    title: str,
    *,
    batch_size: int,
    batches: int,
    margin: float,
) -> dict[str, Any]:
    """Score the rows of a run again, with the same and with other batch sizes, and compare.

    Args:
        score: ``score_with_progress`` with the arguments of the first run.
        first: the first run.
        title: the first run's title.
        batch_size: the first run's batch size.
        batches: concurrent calls.
        margin: as in ``flips``.
    """
    batchings = [(batch_size, batches)]
    batchings += [(n, 1 if n == 1 else batches) for n in BATCH_SIZES]
    runs = [
        score(title=f"{title}: batches of {n}", batch_size=n, batches=in_flight)
        for n, in_flight in batchings
    ]
    return {
        **flips(first.rows, [first.results, *(run.results for run in runs)], margin),
        "settings": [
            {"batch_size": n, "batches_in_flight": in_flight, **_speed(run)}
            for (n, in_flight), run in zip([batchings[0], *batchings], [first, *runs], strict=True)
        ],
    }


def _speed(run: Run) -> dict[str, Any]:
    summary = run.summary()
    return {key: summary[key] for key in ("agreement", "statuses", "verdicts_per_s")}


def score_with_progress(
    out: Console,
    client: Transport,
    rows: Sequence[Any],
    settings: dict[str, Any],
    *,
    title: str = "scoring",
    batch_size: int = 16,
    batches: int = 8,
) -> Run:
    """Score rows behind a progress bar.

    Raises:
        ServiceUnavailableError: the service cannot be reached.
    """
    with Progress(console=out) as progress:
        task = progress.add_task(escape(title), total=len(rows))
        return asyncio.run(
            score_rows(
                client,
                rows,
                settings=settings,
                batch_size=batch_size,
                batches_in_flight=batches,
                scored=lambda count: progress.advance(task, count),
            )
        )
