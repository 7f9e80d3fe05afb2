"""Measure how often a judge prefers the response that a person preferred.

Pairs are JSON lines with ``question`` or ``messages``, two ``responses`` and ``preferred``, the
index of the better one (0 or 1). Each pair is asked in both orders.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from reward_serve.client.transport import ServiceTransport, with_id
from reward_serve.groups.schema import GroupResult
from reward_serve_lab.evaluation.metrics import wilson

_SENT = ("question", "messages", "responses", "reference")


@dataclass(frozen=True, slots=True)
class Pair:
    """A group request of two responses, and the index of the one that is better."""

    request: dict[str, Any]
    preferred: int


def read_pairs(path: Path) -> list[Pair]:
    """Read the file's pairs, skipping blank lines.

    Raises:
        OSError: the file cannot be read.
        ValueError: a line is not a pair; the message names line, field and value.
    """
    lines = enumerate(path.read_bytes().split(b"\n"), 1)
    return [_pair(number, line) for number, line in lines if line.strip()]


async def score_pairs(
    client: ServiceTransport,
    pairs: Sequence[Pair],
    settings: dict[str, Any],
    in_flight: int,
    scored: Callable[[int], None],
) -> list[GroupResult]:
    """The judge's result for each pair.

    Args:
        client: the service's transport.
        pairs: the pairs.
        settings: fields added to every request.
        in_flight: concurrent pairs.
        scored: called after each pair with 1.

    Raises:
        ServiceUnavailableError: the service cannot be reached.
    """
    slots = asyncio.Semaphore(in_flight)

    async def ask(pair: Pair) -> GroupResult:
        async with slots:
            asked = {**pair.request, "strategy": "all_pairs", **settings}
            result = await client.ascore_group(with_id(asked))
        scored(1)
        return result

    return await asyncio.gather(*map(ask, pairs))


def report_of_pairs(pairs: Sequence[Pair], results: Sequence[GroupResult]) -> dict[str, Any]:
    """Accuracy and consistency, as JSON data.

    A pair without scores is ``unscored``, one with equal scores a ``tie``; neither counts as right.
    ``flips`` are pairs of which the two orders prefer different responses.
    """
    margins = [_margin(result) for result in results]
    right = sum(
        margin is not None and margin != 0 and (margin < 0) == pair.preferred
        for pair, margin in zip(pairs, margins, strict=True)
    )
    agreed = [
        one.orders_agree
        for result in results
        for one in result.comparisons
        if one.orders_agree is not None
    ]
    failed = [result for result, margin in zip(results, margins, strict=True) if margin is None]
    return {
        "n": len(pairs),
        "accuracy": right / len(pairs),
        "accuracy_interval": wilson(right, len(pairs)),
        "ties": margins.count(0.0),
        "unscored": len(failed),
        "flips": agreed.count(False),
        "order_agreement": sum(agreed) / len(agreed) if agreed else None,
        "order_agreement_interval": wilson(sum(agreed), len(agreed)),
        "statuses": dict(Counter(result.status.value for result in results)),
        "reasons": {result.status.value: result.reason for result in reversed(failed)},
    }


def pairs_table(report: dict[str, Any]) -> Table:
    """The report for the terminal."""
    table = Table(show_header=False, caption="Intervals: 95% Wilson.", caption_justify="left")
    for name in ("n", "accuracy", "ties", "unscored", "order_agreement", "flips"):
        value, interval = report[name], report.get(f"{name}_interval")
        shown = str(value)
        if interval:
            shown = f"{value:.1%} ({interval[0]:.1%} to {interval[1]:.1%})"
        table.add_row(name.replace("_", " "), shown)
    return table


def _margin(result: GroupResult) -> float | None:
    """The first response's score less the second's; None if one has no score."""
    scores = [one.score for one in result.results if one.score is not None]
    return scores[0] - scores[1] if len(scores) == 2 else None


def _pair(number: int, line: bytes) -> Pair:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"line {number}: is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise ValueError(f"line {number}: must be an object (found {type(data).__name__})")
    responses, preferred = data.get("responses"), data.get("preferred")
    if not isinstance(responses, list) or len(responses) != 2:
        raise ValueError(f"line {number}: responses: must be two texts (found {responses!r:.80})")
    if preferred not in (0, 1) or isinstance(preferred, bool):
        raise ValueError(
            f"line {number}: preferred: must be 0 or 1, an index of responses (found {preferred!r})"
        )
    return Pair({name: data[name] for name in _SENT if name in data}, preferred)
