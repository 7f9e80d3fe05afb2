"""Generate mode: the judge writes text with a verdict; the verdicts of several samples combine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any, Literal

from reward_serve.engines.base import TextOutput
from reward_serve.judging.verdict import read_verdict
from reward_serve.reward_models.base import gathered, summed_usage
from reward_serve.reward_models.comparison import Comparison, cut_details
from reward_serve.schema import ScoreResult, Source

Aggregate = Literal["vote", "mean"]


async def generate_verdict(comparison: Comparison, reference: str, how: Aggregate) -> ScoreResult:
    """Generate the verdict, or combine the verdicts of several samples.

    Raises:
        InvalidRequestError: the question and the reference leave no room.
        EngineError: the engine failed.
    """
    writing = comparison.writing
    prompt = await comparison.render(reference)
    outputs = await gathered(
        comparison.answer(
            comparison.engine.generate, prompt, replace(writing.sampling, sample=sample)
        )
        for sample in range(writing.samples)
    )
    results = [_result(comparison, output, cut_details(prompt) or None) for output in outputs]
    return aggregate(results, how)


def _result(
    comparison: Comparison, output: TextOutput, details: dict[str, Any] | None
) -> ScoreResult:
    """The result of one generated answer."""
    source: Source = "cache" if output.cached else comparison.source
    result = read_verdict(comparison.template, output.text, output.cut_off)
    return result.model_copy(
        update={
            "source": None if result.score is None else source,
            "template": comparison.template.name,
            "fingerprint": comparison.fingerprint,
            "details": details,
            "usage": output.usage,
        }
    )


def aggregate(results: Sequence[ScoreResult], how: Aggregate) -> ScoreResult:
    """Combine the verdicts of several samples.

    If at most half of them have a score, the result is the first failure. ``vote`` takes the most
    frequent score, in a tie the lowest; ``mean`` takes the mean. The text is that of a sample with
    this score, or with the nearest; ``details.samples`` lists every score.
    """
    if len(results) == 1:
        return results[0]
    scores = [result.score for result in results if result.score is not None]
    details = (results[0].details or {}) | {"samples": [result.score for result in results]}
    combined: dict[str, Any] = {"details": details, "usage": summed_usage(results)}
    if 2 * len(scores) <= len(results):
        failed = next(result for result in results if result.score is None)
        reason = f"{len(results) - len(scores)} of {len(results)} samples: {failed.reason}"
        return failed.model_copy(update={**combined, "reason": reason})
    counts = Counter(scores)
    score = fmean(scores) if how == "mean" else min(scores, key=lambda s: (-counts[s], s))
    scored = [result for result in results if result.score is not None]
    nearest = min(scored, key=lambda result: abs((result.score or 0.0) - score))
    label = nearest.label if nearest.score == score else None
    return nearest.model_copy(update={**combined, "score": score, "label": label})
