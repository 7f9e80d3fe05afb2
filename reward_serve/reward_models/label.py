"""Label mode: one forward pass gives the probability of each label."""

from __future__ import annotations

import math
from collections.abc import Mapping

from reward_serve.reward_models.base import InvalidRequestError
from reward_serve.reward_models.comparison import Comparison, cut_details
from reward_serve.schema import ScoreResult, Source, Status

# An endpoint returns only its likeliest tokens; a vLLM engine returns the labels themselves.
_NO_LABEL: dict[Source, tuple[Status, str]] = {
    "remote": (
        Status.UNPARSEABLE,
        "none of the labels is among the endpoint's likeliest tokens; set judge.mode: generate, or "
        "ask a model that follows the template",
    ),
    "judge": (
        Status.ERROR,
        "the engine's label probabilities are NaN or zero; check the model's weights and dtype",
    ),
}


async def label_verdict(comparison: Comparison, reference: str) -> ScoreResult:
    """Score by labels: the likelier label's value if they are binary, else the expected value.

    Two responses are compared by the expected value; a group's ranking combines many of them.

    Raises:
        InvalidRequestError: the template has no labels, or one is not a token of this model.
        EngineError: the engine failed.
    """
    template = comparison.template
    if template.label is None:
        raise InvalidRequestError(
            f"options.mode: template {template.name!r} has no labels; remove the mode, or set "
            "generate"
        )
    prompt = await comparison.render(reference)
    values = template.label.values
    output = await comparison.answer(comparison.engine.label_logprobs, prompt, list(values))
    logprobs = {label: output.logprobs[label] for label in values}
    if not math.isfinite(max(logprobs.values())) or any(map(math.isnan, logprobs.values())):
        status, reason = _NO_LABEL[comparison.source]
        return comparison.result(status, reason=reason, usage=output.usage)
    probabilities = softmax(logprobs)
    likeliest = max(probabilities, key=lambda label: (probabilities[label], -values[label]))
    expected = sum(p * values[label] for label, p in probabilities.items())
    return comparison.result(
        Status.OK,
        score=values[likeliest] if template.label.binary and not comparison.responses else expected,
        source="cache" if output.cached else comparison.source,
        label=likeliest,
        probabilities=probabilities,
        details=cut_details(prompt) | {"label_mass": sum(map(math.exp, logprobs.values()))},
        usage=output.usage,
    )


def softmax(logprobs: Mapping[str, float]) -> dict[str, float]:
    """Probabilities normalised over the labels."""
    highest = max(logprobs.values())
    weights = {label: math.exp(value - highest) for label, value in logprobs.items()}
    total = sum(weights.values())
    return {label: weight / total for label, weight in weights.items()}
