"""Measure how often a judge prefers the response that a person preferred.

Pairs are JSON lines with ``question`` or ``messages``, two ``responses`` and ``preferred``, the
index of the better one (0 or 1). Each pair is asked in both orders.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field
from rich.table import Table

from reward_serve.client.transport import ServiceTransport, with_id
from reward_serve.schema import GroupResult
from reward_serve_lab.evaluation.json_lines import all_valid, json_lines
from reward_serve_lab.evaluation.metrics import wilson


@dataclass(frozen=True, slots=True)
class Pair:
    """A group request of two responses, and the index of the one that is better."""

    request: dict[str, Any]
    preferred: int


class _Line(BaseModel):
    question: Any = None
    messages: Any = None
    reference: Any = None
    responses: Annotated[list[Any], Field(min_length=2, max_length=2)]
    preferred: Annotated[int, Field(ge=0, le=1, strict=True)]


def read_pairs(path: Path) -> list[Pair]:
    """Read the file's pairs, skipping blank lines.

    Raises:
        OSError: the file cannot be read.
        LinesError: a line is not a pair.
    """
    return [
        Pair(line.model_dump(exclude={"preferred"}, exclude_unset=True), line.preferred)
        for line in all_valid(json_lines(path, _Line))
    ]


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
        comparison.orders_agree
        for result in results
        for comparison in result.comparisons
        if comparison.orders_agree is not None
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
        cell = str(value)
        if interval:
            cell = f"{value:.1%} ({interval[0]:.1%} to {interval[1]:.1%})"
        table.add_row(name.replace("_", " "), cell)
    return table


def _margin(result: GroupResult) -> float | None:
    """The first response's score less the second's; None if one has no score."""
    scores = [scored.score for scored in result.results if scored.score is not None]
    return scores[0] - scores[1] if len(scores) == 2 else None
