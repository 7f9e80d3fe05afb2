"""A group's samples as they are pasted or uploaded: JSON lines, a JSON list, or a batch's body."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from reward_serve.schema import ScoreRequest, describe_errors

MAX_SAMPLES = 1024
"""Such as a training step of SkyRL or verl: 128 groups of 8."""

_FIELDS = frozenset(ScoreRequest.model_fields)

EXAMPLE = (
    '{"reference": "120", "response": "30 loaves at $4 are 120 dollars.\\n#### 120"}\n'
    '{"reference": "120", "response": "36 * 4 = 144\\n#### 144"}\n'
    '{"reference": "120", "response": "In all that is a hundred and twenty."}\n'
    '{"reference": "120", "response": "Let me think about this step by step."}'
)


class SamplesError(ValueError):
    """The text holds no samples; says where, and what would be right."""


def read_samples(text: str) -> list[dict[str, Any]]:
    """The score requests that a text holds; of each object the fields that a request has.

    Raises:
        SamplesError: names the line, or the entry, at fault.
    """
    found = [_request(where, entry) for where, entry in _entries(text)]
    if not found:
        raise SamplesError(
            'there are no samples; give lines of {"reference": ..., "response": ...}'
        )
    if len(found) > MAX_SAMPLES:
        raise SamplesError(
            f"{len(found):,} samples; the page takes {MAX_SAMPLES:,}, so give fewer groups, or "
            "score the file with `python -m reward_serve score`"
        )
    return found


def groups_of(requests: Iterable[Mapping[str, Any]]) -> dict[str, list[int]]:
    """Indices by group: by the field ``group``, else by question and reference."""
    found: dict[str, list[int]] = {}
    for index, request in enumerate(requests):
        key = request.get("group") or json.dumps(
            [request.get("question"), request.get("reference"), request.get("messages")]
        )
        found.setdefault(str(key), []).append(index)
    return found


def _entries(text: str) -> list[tuple[str, Any]]:
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        return _lines(text)
    if isinstance(whole, dict) and isinstance(whole.get("requests"), list):
        whole = whole["requests"]
    entries = whole if isinstance(whole, list) else [whole]
    return [(f"entry {number}", entry) for number, entry in enumerate(entries, 1)]


def _lines(text: str) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for number, line in enumerate(text.split("\n"), 1):  # a JSON string may hold U+2028
        if not line.strip():
            continue
        try:
            found.append((f"line {number}", json.loads(line)))
        except (ValueError, RecursionError) as error:
            raise SamplesError(
                f"line {number}: is not JSON ({str(error)[:80]}); give one object a line"
            ) from None
    return found


def _request(where: str, entry: Any) -> dict[str, Any]:
    if not isinstance(entry, dict):
        raise SamplesError(f"{where}: must be an object (found {type(entry).__name__})")
    request = {name: value for name, value in entry.items() if name in _FIELDS}
    try:
        ScoreRequest.model_validate(request)
    except ValidationError as error:
        raise SamplesError(f"{where}: {describe_errors(error)}") from None
    return request
