"""A policy's samples, grouped by prompt, and whether their answers are right."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev

from skyrl_gym.envs.gsm8k.utils import compute_score

from reward_serve_answers import final_answer

Answer = int | str | list[str]
"""The right answer, or the accepted ones."""

_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


@dataclass(slots=True)
class Sample:
    """One response.

    Attributes:
        tokens: token ids of the response, including the end of the turn.
        logprobs: the sampler's log-probabilities, one per token.
        text: the response as text.
        seed: the sampling seed.
        verdict: the environment's verdict; None if undecided.
        reward: the verdict, unless a failure was injected; None if undecided.
        metrics: the environment's metrics.
    """

    tokens: list[int]
    logprobs: list[float]
    text: str
    seed: int
    verdict: float | None = None
    reward: float | None = None
    metrics: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class Group:
    """The samples of one prompt.

    Attributes:
        problem: index of the problem in the data server.
        question: the problem's text.
        answer: the right answer, or the accepted ones.
        prompt: token ids of the prompt.
        version: optimiser steps that the policy had taken when it sampled.
        samples: the samples.
        advantages: one per sample, None if undecided; empty until computed.
        server: the policy server that sampled it; None if the endpoint did.
    """

    problem: int
    question: str
    answer: Answer
    prompt: list[int]
    version: int
    samples: list[Sample] = field(default_factory=list)
    advantages: list[float | None] = field(default_factory=list)
    server: str | None = None


def numbers(text: str) -> list[float]:
    """The numbers of the text, in order, without their signs."""
    return [float(numeral.replace(",", "")) for numeral in _NUMBER.findall(text)]


def accepted(answer: Answer) -> list[str]:
    """The accepted answers, as texts."""
    return answer if isinstance(answer, list) else [str(answer)]


def right_by_value(text: str, answer: Answer) -> bool:
    """Whether the text's last number, or what follows its last ``####``, is an accepted answer."""
    last, final = numbers(text)[-1:], final_answer(text).casefold()
    return any(last == [number(right)] or final == right.casefold() for right in accepted(answer))


def right_by_format(text: str, answer: Answer) -> bool:
    """Whether SkyRL's strict match finds an accepted answer after the first ``####``."""
    return any(compute_score(text, right) == 1.0 for right in accepted(answer))


def number(text: str) -> float | None:
    """The number that the text is; None for other texts."""
    return float(text.replace(",", "")) if _NUMBER.fullmatch(text) else None


_EPSILON = 1e-6


def group_advantages(rewards: Sequence[float | None]) -> list[float | None]:
    """``(reward - mean) / (deviation + 1e-6)`` over decided samples; None if undecided.

    Advantages are 0.0 if fewer than two samples are decided or all rewards are equal.
    """
    decided = [reward for reward in rewards if reward is not None]
    if len(decided) < 2:
        return [None if reward is None else 0.0 for reward in rewards]
    mean, deviation = fmean(decided), stdev(decided)
    return [
        None if reward is None else (reward - mean) / (deviation + _EPSILON) for reward in rewards
    ]
