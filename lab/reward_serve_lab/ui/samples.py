"""Parse a group's samples: JSON lines, a JSON list, or the body of a batch request."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from reward_serve.schema import ScoreRequest, describe_errors

MAX_SAMPLES = 1024
"""A training step of SkyRL or verl: 128 groups of 8."""

_FIELDS = frozenset(ScoreRequest.model_fields)

EXAMPLE = (
    '{"reference": "120", "response": "30 loaves at $4 are 120 dollars.\\n#### 120"}\n'
    '{"reference": "120", "response": "36 * 4 = 144\\n#### 144"}\n'
    '{"reference": "120", "response": "In all that is a hundred and twenty."}\n'
    '{"reference": "120", "response": "Let me think about this step by step."}'
)


class SamplesError(ValueError):
    """The samples are invalid; the message has the position and the remedy."""


def read_samples(text: str) -> list[dict[str, Any]]:
    """Parse score requests; fields that a request does not have are ignored.

    Raises:
        SamplesError: a line or an entry is invalid, or there are too many or none.
    """
    found = [_request(where, entry) for where, entry in _entries(text)]
    if not found:
        raise SamplesError(
            'there are no samples; write lines of {"reference": ..., "response": ...}'
        )
    if len(found) > MAX_SAMPLES:
        raise SamplesError(
            f"{len(found):,} samples; the page accepts {MAX_SAMPLES:,}: use fewer groups, or "
            "score the file with `reward-serve score`"
        )
    return found


def groups_of(requests: Iterable[Mapping[str, Any]]) -> dict[str, list[int]]:
    """Sample indices by ``group``, or else by question, reference and messages."""
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
    for number, line in enumerate(text.split("\n"), 1):  # a JSON string may contain U+2028
        if not line.strip():
            continue
        try:
            found.append((f"line {number}", json.loads(line)))
        except (ValueError, RecursionError) as error:
            raise SamplesError(
                f"line {number}: is not JSON ({str(error)[:80]}); write one object per line"
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
