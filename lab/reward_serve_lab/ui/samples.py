"""The samples of a training step: read from JSON lines, grouped, and their advantages.

>>> [round(a, 3) for a in advantages([1.0, 0.0], "GRPO, SkyRL and verl")]
[0.707, -0.707]
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import takewhile
from statistics import fmean, stdev
from typing import Any

from reward_serve.schema import ScoreRequest
from reward_serve_lab.evaluation.json_lines import LinesError, all_valid, parse_lines

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
    """Parse score requests, one per line; fields that a request does not have are ignored.

    Raises:
        LinesError: a line is invalid, or there are too many or none.
    """
    samples = all_valid(parse_lines(text.encode(errors="replace"), _Sample))
    if not samples:
        raise LinesError('there are no samples; write lines of {"reference": ..., "response": ...}')
    if len(samples) > MAX_SAMPLES:
        raise LinesError(
            f"{len(samples):,} samples; the page accepts {MAX_SAMPLES:,}: use fewer groups, or "
            "score the file with `reward-serve score`"
        )
    return [sample.model_dump(mode="json", exclude_unset=True) for sample in samples]


def groups_of(requests: Iterable[Mapping[str, Any]]) -> dict[str, list[int]]:
    """Sample indices by ``group``, or else by question, reference and prompt messages."""
    groups: dict[str, list[int]] = {}
    for index, request in enumerate(requests):
        prompt = request.get("messages") or []
        if request.get("response") is None:
            prompt = [*takewhile(lambda turn: turn["role"] != "assistant", prompt)]
        key = request.get("group") or json.dumps(
            [request.get("question"), request.get("reference"), prompt]
        )
        groups.setdefault(str(key), []).append(index)
    return groups


def _scaled(rewards: Sequence[float], epsilon: float) -> list[float]:
    deviation = stdev(rewards)
    return [reward / (deviation + epsilon) for reward in _centered(rewards)]


def _centered(rewards: Sequence[float]) -> list[float]:
    mean = fmean(rewards)
    return [reward - mean for reward in rewards]


def _leave_one_out(rewards: Sequence[float]) -> list[float]:
    size = len(rewards)
    return [reward * size / (size - 1) for reward in _centered(rewards)]


TRAINERS: Mapping[str, Callable[[Sequence[float]], list[float]]] = {
    "GRPO, SkyRL and verl": partial(_scaled, epsilon=1e-6),
    "GRPO, TRL": partial(_scaled, epsilon=1e-4),
    "Dr. GRPO, no deviation": _centered,
    "RLOO, leave one out": _leave_one_out,
}
"""Advantage functions by name, with sample deviations (n - 1) as in torch.std."""


def advantages(rewards: Sequence[float | None], trainer: str) -> list[float | None]:
    """The advantage of each sample of one group, as a trainer computes it.

    Samples without a score have None and are left out of the group's mean and deviation, as in
    this project's adapters. All are 0 if fewer than two samples have a score.
    """
    known = [reward for reward in rewards if reward is not None]
    if len(known) < 2:
        return [None if reward is None else 0.0 for reward in rewards]
    computed = iter(TRAINERS[trainer](known))
    return [None if reward is None else next(computed) for reward in rewards]
