"""A policy's samples, grouped by prompt, and whether their answers are right."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from skyrl_gym.envs.gsm8k.utils import compute_score

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
        answer: the right answer.
        prompt: token ids of the prompt.
        version: optimiser steps that the policy had taken when it sampled.
        samples: the samples.
        advantages: one per sample, None if undecided; empty until computed.
    """

    problem: int
    question: str
    answer: int
    prompt: list[int]
    version: int
    samples: list[Sample] = field(default_factory=list)
    advantages: list[float | None] = field(default_factory=list)


def numbers(text: str) -> list[float]:
    """The numbers of the text, in order, without their signs."""
    return [float(found.replace(",", "")) for found in _NUMBER.findall(text)]


def right_by_value(text: str, answer: int) -> bool:
    """Whether the last number of the text is the answer."""
    return numbers(text)[-1:] == [answer]


def right_by_format(text: str, answer: int) -> bool:
    """Whether SkyRL's strict match finds the answer after the first ``####``."""
    return bool(compute_score(text, str(answer)) == 1.0)
