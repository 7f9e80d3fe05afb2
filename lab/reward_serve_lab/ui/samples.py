"""Parse a group's samples: JSON lines, a JSON list, or the body of a batch request."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from reward_serve.schema import ScoreRequest
from reward_serve_lab.evaluation.json_lines import (
    LinesError,
    all_valid,
    parse_line,
    parse_object,
)

MAX_SAMPLES = 1024
"""A training step of SkyRL or verl: 128 groups of 8."""

EXAMPLE = (
    '{"reference": "120", "response": "30 loaves at $4 are 120 dollars.\\n#### 120"}\n'
    '{"reference": "120", "response": "36 * 4 = 144\\n#### 144"}\n'
    '{"reference": "120", "response": "In all that is a hundred and twenty."}\n'
    '{"reference": "120", "response": "Let me think about this step by step."}'
)


class _Sample(ScoreRequest, extra="ignore"):
    """A score request; the file's other fields are ignored."""


def read_samples(text: str) -> list[dict[str, Any]]:
    """Parse score requests; fields that a request does not have are ignored.

    Raises:
        LinesError: a line or an entry is invalid, or there are too many or none.
    """
    samples = _samples(text)
    if not samples:
        raise LinesError('there are no samples; write lines of {"reference": ..., "response": ...}')
    if len(samples) > MAX_SAMPLES:
        raise LinesError(
            f"{len(samples):,} samples; the page accepts {MAX_SAMPLES:,}: use fewer groups, or "
            "score the file with `reward-serve score`"
        )
    return [sample.model_dump(mode="json", exclude_unset=True) for sample in samples]


def groups_of(requests: Iterable[Mapping[str, Any]]) -> dict[str, list[int]]:
    """Sample indices by ``group``, or else by question, reference and messages."""
    found: dict[str, list[int]] = {}
    for index, request in enumerate(requests):
        key = request.get("group") or json.dumps(
            [request.get("question"), request.get("reference"), request.get("messages")]
        )
        found.setdefault(str(key), []).append(index)
    return found


def _samples(text: str) -> list[_Sample]:
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        lines = enumerate(text.split("\n"), 1)
        return all_valid((n, parse_line(line, _Sample)) for n, line in lines if line.strip())
    if isinstance(whole, dict) and isinstance(whole.get("requests"), list):
        whole = whole["requests"]
    entries = enumerate(whole if isinstance(whole, list) else [whole], 1)
    return all_valid(((n, parse_object(entry, _Sample)) for n, entry in entries), "entry")
