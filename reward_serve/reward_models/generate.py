"""Generate mode: the judge writes text with a verdict; the verdicts of several samples combine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, Literal

from reward_serve.config.judge import JudgeConfig
from reward_serve.engines.base import Sampling, TextOutput
from reward_serve.judging.rendering import Mode
from reward_serve.judging.verdict import read_verdict
from reward_serve.reward_models.base import InvalidRequestError, gathered, summed_usage
from reward_serve.reward_models.comparison import Comparison, cut_details
from reward_serve.schema import Options, ScoreResult, Source


@dataclass(frozen=True, slots=True)
class Writing:
    """How the judge generates, from the request's options and the deployment's settings.

    Attributes:
        sampling: sampling parameters of each answer.
        enable_thinking: whether the chat template enables thinking.
        samples: number of answers.
    """

    sampling: Sampling
    enable_thinking: bool
    samples: int


def writing_of(options: Options, config: JudgeConfig) -> Writing:
    """Merge a request's options with the deployment's settings."""
    temperature, thinking = options.temperature, options.enable_thinking
    enabled = config.enable_thinking if thinking is None else thinking
    sampling = Sampling(
        max_tokens=options.max_tokens or config.max_tokens,
        temperature=config.temperature if temperature is None else temperature,
        top_p=options.top_p or config.top_p,
        thinking_tokens=(options.thinking_tokens or config.thinking_tokens) if enabled else None,
    )
    return Writing(sampling, enabled, options.samples or config.samples)


def settings_of(config: JudgeConfig) -> str:
    """The deployment's settings, for fingerprints."""
    thinking = (config.thinking_tokens or "on") if config.enable_thinking else "off"
    return (
        f";max_tokens={config.max_tokens};temperature={config.temperature:g};"
        f"top_p={config.top_p:g};thinking={thinking};samples={config.samples}-{config.aggregate}"
    )


def check_options(options: Options, config: JudgeConfig, mode: Mode, ends_thinking: bool) -> None:
    """Reject options that the deployment does not allow, or that would have no effect.

    Args:
        options: the request's options.
        config: the deployment's settings.
        mode: the mode of this request.
        ends_thinking: whether the engine can limit thinking.

    Raises:
        InvalidRequestError: names the option and the remedy.
    """
    for name in options.model_dump(exclude_none=True):
        if name not in config.allowed_options:
            raise InvalidRequestError(
                f"options.{name}: not allowed by this deployment; remove it, or add it to "
                "judge.allowed_options"
            )
    if mode == "label":
        for name in ("enable_thinking", "thinking_tokens", "samples"):
            asked = getattr(options, name)
            if asked and not (name == "samples" and asked == 1):
                raise InvalidRequestError(
                    f"options.{name}: has no effect in label mode; remove it, or set "
                    "options.mode: generate"
                )
        return
    writing = writing_of(options, config)
    if writing.sampling.max_tokens > config.max_tokens:
        raise InvalidRequestError(
            f"options.max_tokens: {options.max_tokens} is above the deployment's maximum of "
            f"{config.max_tokens}; request fewer, or raise judge.max_tokens"
        )
    if writing.samples > config.max_samples:
        raise InvalidRequestError(
            f"options.samples: {writing.samples} is above the deployment's maximum of "
            f"{config.max_samples}; request fewer, or raise judge.max_samples"
        )
    if writing.samples > 1 and writing.sampling.temperature == 0:
        raise InvalidRequestError(
            f"options.samples: {writing.samples} samples at temperature 0 are identical; set "
            "options.temperature, such as 0.6, or samples: 1"
        )
    if options.thinking_tokens is not None:
        _check_budget(options.thinking_tokens, writing, ends_thinking)


def _check_budget(asked: int, writing: Writing, ends_thinking: bool) -> None:
    if not writing.enable_thinking:
        raise InvalidRequestError(
            "options.thinking_tokens: thinking is off; set options.enable_thinking"
        )
    if not ends_thinking:
        raise InvalidRequestError(
            "options.thinking_tokens: this engine cannot limit thinking; remove it, or set "
            "engine.engine_kwargs.reasoning_parser, for example to qwen3"
        )
    most = writing.sampling.max_tokens
    if asked >= most:
        raise InvalidRequestError(
            f"options.thinking_tokens: {asked} leaves no room for a verdict in max_tokens: "
            f"{most}; lower it"
        )


async def generate_verdict(asked: Comparison, reference: str, config: JudgeConfig) -> ScoreResult:
    """Generate the verdict, or combine the verdicts of several samples.

    Raises:
        InvalidRequestError: the question and the reference leave no room.
        EngineError: the engine failed.
    """
    way = writing_of(asked.request.options, config)
    prompt = await asked.render(reference, way.sampling.max_tokens, way.enable_thinking)
    outputs = await gathered(
        asked.answer(asked.engine.generate(prompt, replace(way.sampling, sample=sample)))
        for sample in range(way.samples)
    )
    results = [_result(asked, output, cut_details(prompt) or None) for output in outputs]
    return aggregate(results, config.aggregate)


def _result(asked: Comparison, output: TextOutput, details: dict[str, Any] | None) -> ScoreResult:
    """The result of one generated answer."""
    source: Source = "cache" if output.cached else asked.source
    result = read_verdict(asked.template, output.text, output.cut_off)
    return result.model_copy(
        update={
            "source": None if result.score is None else source,
            "template": asked.template.name,
            "fingerprint": asked.fingerprint,
            "details": details,
            "usage": output.usage,
        }
    )


def aggregate(results: Sequence[ScoreResult], how: Literal["vote", "mean"]) -> ScoreResult:
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
