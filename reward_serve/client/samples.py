"""Writes a sample of the results to a file of JSON lines, and to a trainer's table.

It is off unless a client has ``samples``, the file. Several processes may append to one file.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sys
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from reward_serve.lines import LineFile
from reward_serve.schema import ScoreResult

logger = logging.getLogger(__name__)

COLUMNS = (
    "step", "question", "response_end", "label", "score", "probability", "status", "source",
    "reason",
)  # fmt: skip
"""The keys of a sample's JSON object, and the columns of the table."""
TABLE = "judge/samples"
_CHARACTERS = 500


def sample_of(body: Mapping[str, Any], result: ScoreResult) -> dict[str, Any]:
    """The sample of a request, whose metadata has the step, and its result, by ``COLUMNS``."""
    texts = (body.get("question"), body.get("response") or _last_turn(body.get("messages")))
    # An invalid request may have anything there, such as an array, which has no truth value.
    question, response = (text[-_CHARACTERS:] if isinstance(text, str) else "" for text in texts)
    keys = body.get("metadata")
    values = (
        keys.get("step") if isinstance(keys, Mapping) else None,
        question, response, result.label, result.score,
        (result.probabilities or {}).get(result.label or ""),
        result.status.value, result.source, result.reason,
    )  # fmt: skip
    return dict(zip(COLUMNS, values, strict=True))


def _last_turn(messages: Any) -> Any:
    turns = messages if isinstance(messages, list) else []
    last = (turn for turn in reversed(turns) if isinstance(turn, Mapping))
    return next((turn.get("content") for turn in last if turn.get("role") == "assistant"), None)


class SampleWriter:
    """Appends every n-th result to a file.

    Args:
        file: the file of JSON lines, readable by its owner only; its folder is created.
        every: write the first of every this many results.

    Raises:
        ValueError: ``every`` is less than 1.
        OSError: the folder cannot be created.
    """

    def __init__(self, file: str, every: int) -> None:
        if every < 1:
            raise ValueError(f"samples_every: {every} must be at least 1")
        self._file, self._every, self._count = LineFile(Path(file), logger), every, count()

    def note(self, body: Mapping[str, Any], result: ScoreResult) -> None:
        """Write the result if it is in the sample."""
        if next(self._count) % self._every:
            return
        self._file.append(json.dumps(sample_of(body, result)))


class SampleReader:
    """Reads samples as they are appended to a file.

    Args:
        file: the file, which need not exist yet; its current content is skipped.
    """

    def __init__(self, file: str) -> None:
        self._file = Path(file)
        self._offset = self._file.stat().st_size if self._file.exists() else 0

    def rows(self) -> list[tuple[Any, ...]]:
        """The new samples, as rows of ``COLUMNS``."""
        if not self._file.exists():
            return []
        with self._file.open("rb") as lines:
            lines.seek(self._offset)
            whole = lines.read().rpartition(b"\n")[0]
        self._offset += len(whole) + bool(whole)
        rows = []
        for line in whole.splitlines():
            with contextlib.suppress(ValueError):  # a full disk cut it off
                sample = json.loads(line)
                rows.append(tuple(sample[column] for column in COLUMNS))
        return rows


def log_table(rows: Sequence[Sequence[Any]]) -> None:
    """Log samples as a table if this process has a run of wandb or trackio."""
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
