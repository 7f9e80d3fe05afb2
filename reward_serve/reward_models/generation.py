"""Generation settings: request options override the deployment's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from reward_serve.config.judge import JudgeConfig
from reward_serve.engines.base import Sampling
from reward_serve.reward_models.base import InvalidRequestError
from reward_serve.schema import Mode, Options

Aggregate = Literal["vote", "mean"]


@dataclass(frozen=True, slots=True)
class Generation:
    """How the judge generates.

    Attributes:
        sampling: sampling parameters of each answer.
        enable_thinking: whether the chat template enables thinking.
        samples: number of answers.
        aggregate: how the verdicts of several answers are combined.
    """

    sampling: Sampling
    enable_thinking: bool = False
    samples: int = 1
    aggregate: Aggregate = "vote"

    @property
    def settings(self) -> str:
        """The settings, for fingerprints."""
        sampling = self.sampling
        thinking = (sampling.thinking_tokens or "on") if self.enable_thinking else "off"
        return (
            f";max_tokens={sampling.max_tokens};temperature={sampling.temperature:g};"
            f"top_p={sampling.top_p:g};thinking={thinking};samples={self.samples}-{self.aggregate}"
        )


_ONE_TOKEN = Generation(Sampling(max_tokens=1))


def generation_of(
    options: Options, config: JudgeConfig, mode: Mode, ends_thinking: bool
) -> Generation:
    """Merge a request's options with the deployment's settings; one token in label mode.

    Args:
        options: the request's options.
        config: the deployment's settings.
        mode: the mode of this request.
        ends_thinking: whether the engine can limit thinking.

    Raises:
        InvalidRequestError: the deployment does not allow an option, or it would have no effect;
            names the option and the remedy.
    """
    for name, value in options:
        if value is not None and name not in config.allowed_options:
            raise InvalidRequestError(
                f"options.{name}: not allowed by this deployment; remove it, or add it to "
                "judge.allowed_options"
            )
    if mode == "label":
        _check_label_mode(options)
        return _ONE_TOKEN
    temperature, thinking = options.temperature, options.enable_thinking
    enabled = config.enable_thinking if thinking is None else thinking
    sampling = Sampling(
        max_tokens=options.max_tokens or config.max_tokens,
        temperature=config.temperature if temperature is None else temperature,
        top_p=options.top_p or config.top_p,
        thinking_tokens=(options.thinking_tokens or config.thinking_tokens) if enabled else None,
    )
    samples = options.samples or config.samples
    generation = Generation(sampling, enabled, samples, config.aggregate)
    _check_samples(generation, config)
    if options.thinking_tokens is not None:
        _check_thinking(options.thinking_tokens, generation, ends_thinking)
    return generation


def _check_label_mode(options: Options) -> None:
    for name in ("enable_thinking", "thinking_tokens", "samples"):
        asked = getattr(options, name)
        if asked and not (name == "samples" and asked == 1):
            raise InvalidRequestError(
                f"options.{name}: has no effect in label mode; remove it, or set "
                "options.mode: generate"
            )


def _check_samples(generation: Generation, config: JudgeConfig) -> None:
    max_tokens, samples = generation.sampling.max_tokens, generation.samples
    if max_tokens > config.max_tokens:
        raise InvalidRequestError(
            f"options.max_tokens: {max_tokens} is above the deployment's maximum of "
            f"{config.max_tokens}; request fewer, or raise judge.max_tokens"
        )
    if samples > config.max_samples:
        raise InvalidRequestError(
            f"options.samples: {samples} is above the deployment's maximum of "
            f"{config.max_samples}; request fewer, or raise judge.max_samples"
        )
    if samples > 1 and generation.sampling.temperature == 0:
        raise InvalidRequestError(
            f"options.samples: {samples} samples at temperature 0 are identical; set "
            "options.temperature, such as 0.6, or samples: 1"
        )


def _check_thinking(asked: int, generation: Generation, ends_thinking: bool) -> None:
    if not generation.enable_thinking:
        raise InvalidRequestError(
            "options.thinking_tokens: thinking is off; set options.enable_thinking"
        )
    if not ends_thinking:
        raise InvalidRequestError(
            "options.thinking_tokens: this engine cannot limit thinking; remove it, or set "
            "engine.engine_kwargs.reasoning_parser, for example to qwen3"
        )
    most = generation.sampling.max_tokens
    if asked >= most:
        raise InvalidRequestError(
            f"options.thinking_tokens: {asked} leaves no room for a verdict in max_tokens: "
            f"{most}; lower it"
        )
