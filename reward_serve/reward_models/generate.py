"""Generate mode: the judge writes, and its last verdict is read; several answers become one."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

from reward_serve.config.judge import JudgeConfig
from reward_serve.engines.base import Engine, Sampling, TextOutput
from reward_serve.judging.rendering import Mode
from reward_serve.judging.verdict import read_verdict
from reward_serve.reward_models.base import InvalidRequestError, Verdict, summed_usage
from reward_serve.reward_models.comparison import Comparison, PromptRenderer, cut_details
from reward_serve.schema import Options, Source, Status
from reward_serve.templates import Template


@dataclass(frozen=True, slots=True)
class Writing:
    """What a request's options and the deployment's settings come to.

    Attributes:
        sampling: of each answer.
        enable_thinking: whether the chat template lets the judge think.
        samples: answers written.
    """

    sampling: Sampling
    enable_thinking: bool
    samples: int


def writing_of(options: Options, config: JudgeConfig) -> Writing:
    """How the judge writes for a request."""
    temperature, thinking = options.temperature, options.enable_thinking
    enabled = config.enable_thinking if thinking is None else thinking
    sampling = Sampling(
        max_tokens=min(options.max_tokens or config.max_tokens, config.max_tokens),
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
    """Refuse options that the deployment does not allow, or that would say nothing.

    Args:
        options: the request's.
        config: the deployment's.
        mode: how the request will be judged.
        ends_thinking: whether the engine can end thinking after a budget.

    Raises:
        InvalidRequestError: names the option and the remedy.
    """
    for name in options.model_dump(exclude_none=True):
        if name not in config.allowed_options:
            raise InvalidRequestError(
                f"options.{name}: this deployment does not allow it; leave it out, "
                "or add it to judge.allowed_options"
            )
    if mode == "label":
        for name in ("enable_thinking", "thinking_tokens", "samples"):
            asked = getattr(options, name)
            if asked and not (name == "samples" and asked == 1):
                raise InvalidRequestError(
                    f"options.{name}: label mode writes nothing; leave it out, or set "
                    "options.mode: generate"
                )
        return
    writing = writing_of(options, config)
    if writing.samples > config.max_samples:
        raise InvalidRequestError(
            f"options.samples: {writing.samples} is above the deployment's {config.max_samples}; "
            "ask for fewer, or raise judge.max_samples"
        )
    if writing.samples > 1 and writing.sampling.temperature == 0:
        raise InvalidRequestError(
            f"options.samples: {writing.samples} at temperature 0 are all alike; set "
            "options.temperature, such as 0.6, or samples to 1"
        )
    if options.thinking_tokens is not None:
        _check_budget(options.thinking_tokens, writing, ends_thinking)


def _check_budget(asked: int, writing: Writing, ends_thinking: bool) -> None:
    if not writing.enable_thinking:
        raise InvalidRequestError(
            "options.thinking_tokens: the judge does not think; set options.enable_thinking"
        )
    if not ends_thinking:
        raise InvalidRequestError(
            "options.thinking_tokens: this engine cannot end thinking; leave it out, or set "
            "engine.engine_kwargs.reasoning_parser (qwen3, say)"
        )
    most = writing.sampling.max_tokens
    if asked >= most:
        raise InvalidRequestError(
            f"options.thinking_tokens: {asked} leaves nothing of max_tokens: {most} "
            "for a verdict; lower it"
        )


async def generate_verdict(
    asked: Comparison,
    engine: Engine,
    renderer: PromptRenderer,
    source: Source,
    config: JudgeConfig,
) -> Verdict:
    """The verdict that the judge writes, or that several of its answers come to.

    Args:
        asked: what is judged.
        engine: what is asked.
        renderer: for that engine.
        source: of the verdict, where the engine gave it and no cache.
        config: the deployment's.

    Raises:
        InvalidRequestError: the question and the reference leave no room.
        EngineError: the engine failed.
    """
    way = writing_of(asked.request.options, config)
    prompt = asked.render(renderer, "generate", way.sampling.max_tokens, way.enable_thinking)
    outputs = await asyncio.gather(
        *(
            engine.generate(prompt, replace(way.sampling, sample=sample))
            for sample in range(way.samples)
        )
    )
    base = Verdict(
        template=asked.template.name,
        fingerprint=asked.fingerprint,
        details=cut_details(prompt) or None,
    )
    verdicts = [_written(output, asked.template, base, source) for output in outputs]
    return aggregate(verdicts, config.aggregate)


def _written(output: TextOutput, template: Template, base: Verdict, own: Source) -> Verdict:
    """The verdict of one written answer."""
    written = read_verdict(template, output.text, output.cut_off)
    source: Source = "cache" if output.cached else own
    return replace(
        base,
        status=written.status,
        score=written.score,
        source=source if written.status is Status.OK else None,
        label=written.label,
        text=output.text,
        reason=written.reason,
        usage=output.usage,
    )


def aggregate(verdicts: Sequence[Verdict], how: Literal["vote", "mean"]) -> Verdict:
    """What several samples of one question come to.

    More than half of them must have come to a verdict, else the first failure stands. ``vote``
    takes the score that most gave, of equals the lower; ``mean`` their mean. The text is of a
    sample with that score, or the nearest; ``details.samples`` has every score.
    """
    if len(verdicts) == 1:
        return verdicts[0]
    told = [verdict.score for verdict in verdicts if verdict.score is not None]
    details = (verdicts[0].details or {}) | {"samples": [verdict.score for verdict in verdicts]}
    usage = summed_usage(verdicts)
    if 2 * len(told) <= len(verdicts):
        failed = next(verdict for verdict in verdicts if verdict.score is None)
        reason = f"{len(verdicts) - len(told)} of {len(verdicts)} samples: {failed.reason}"
        return replace(failed, reason=reason, details=details, usage=usage)
    counts = Counter(told)
    score = fmean(told) if how == "mean" else min(told, key=lambda s: (-counts[s], s))
    scored = [verdict for verdict in verdicts if verdict.score is not None]
    nearest = min(scored, key=lambda verdict: abs((verdict.score or 0.0) - score))
    label = nearest.label if nearest.score == score else None
    return replace(nearest, score=score, label=label, details=details, usage=usage)
