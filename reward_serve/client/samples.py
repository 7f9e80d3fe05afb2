"""A sample of what was judged, to read: JSON lines, and rows for a trainer's table.

Off unless a client is given ``samples``, the file. Several processes may append to one file.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from reward_serve.schema import ScoreResult

logger = logging.getLogger(__name__)

COLUMNS = (
    "step", "question", "response_end", "label", "score", "probability", "status", "source",
    "reason",
)  # fmt: skip
"""Of a sample, as a JSON object and as a row of a table."""
TABLE = "judge/samples"
_CHARACTERS = 500


def _no_step() -> int | None:
    return None


_step: Callable[[], int | None] = _no_step


def count_steps(current: Callable[[], int | None]) -> None:
    """Have this process's samples bear the trainer's step, which ``current`` returns."""
    global _step
    _step = current


def sample_of(body: Mapping[str, Any], result: ScoreResult) -> dict[str, Any]:
    """What is worth reading of a request and its result; by ``COLUMNS``."""
    question, response = (
        str(body.get(key) or "")[-_CHARACTERS:] for key in ("question", "response")
    )
    values = (
        _step(), question, response, result.label, result.score,
        (result.probabilities or {}).get(result.label or ""),
        result.status.value, result.source, result.reason,
    )  # fmt: skip
    return dict(zip(COLUMNS, values, strict=True))


class SampleWriter:
    """Appends one of several results to a file.

    Args:
        file: of JSON lines; its folder is made.
        every: how many results there are to each that is written, the first among them.

    Raises:
        ValueError: ``every`` is less than 1.
        OSError: the folder cannot be made.
    """

    def __init__(self, file: str, every: int) -> None:
        if every < 1:
            raise ValueError(f"samples_every: {every} must be at least 1")
        self._file, self._every, self._count = Path(file), every, count()
        self._file.parent.mkdir(parents=True, exist_ok=True)

    def note(self, body: Mapping[str, Any], result: ScoreResult) -> None:
        """Write a result, if it is one to be written."""
        if next(self._count) % self._every:
            return
        line = json.dumps(sample_of(body, result)) + "\n"
        try:
            with self._file.open("a", encoding="utf-8") as out:
                out.write(line)
        except OSError as error:  # a full disk must not cost a reward
            logger.warning("samples: %s: %s", self._file, error.strerror)


class SampleReader:
    """Reads what was appended to a file of samples since it was last read.

    Args:
        file: need not be there yet; what it holds already is skipped.
    """

    def __init__(self, file: str) -> None:
        self._file = Path(file)
        self._offset = self._file.stat().st_size if self._file.exists() else 0

    def rows(self) -> list[tuple[Any, ...]]:
        """The new samples, by ``COLUMNS``."""
        if not self._file.exists():
            return []
        with self._file.open("rb") as lines:
            lines.seek(self._offset)
            whole = lines.read().rpartition(b"\n")[0]
        self._offset += len(whole) + bool(whole)
        samples = (json.loads(line) for line in whole.splitlines())
        return [tuple(sample[column] for column in COLUMNS) for sample in samples]


def log_table(rows: Sequence[Sequence[Any]]) -> None:
    """Log samples as a table where this process has a run of wandb or trackio; else do nothing."""
    if not rows:
        return
    data = [list(row) for row in rows]
    wandb, trackio = sys.modules.get("wandb"), sys.modules.get("trackio")
    if wandb is not None and wandb.run is not None:
        table = wandb.Table(columns=list(COLUMNS), data=data)
        wandb.log({TABLE: table}, commit=False)
    if trackio is not None and trackio.context_vars.current_run.get() is not None:
        import pandas as pd

        table = trackio.Table(dataframe=pd.DataFrame(data, columns=list(COLUMNS)))
        trackio.log({TABLE: table})
