"""Samples of a policy, in groups of one prompt, and what is known of their answers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from skyrl_gym.envs.gsm8k.utils import compute_score

_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


@dataclass(slots=True)
class Sample:
    """One response.

    Attributes:
        tokens: of the response, with the end of the turn.
        logprobs: the sampler's, one a token.
        text: of the response.
        seed: with which it was sampled.
        verdict: what the environment said; None where nobody decided.
        reward: the verdict, unless a failure was injected; None: undecided.
        metrics: the environment's.
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
        problem: index in the data server's problems.
        question: in words.
        answer: the right one.
        prompt: its tokens.
        version: optimiser steps that the policy had taken when it sampled.
        samples: of the group.
        advantages: one a sample, None where undecided; empty until computed.
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
    """Whether SkyRL's strict match finds the answer: behind the first ``####``."""
    return bool(compute_score(text, str(answer)) == 1.0)
