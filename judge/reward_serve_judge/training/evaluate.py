"""Evaluates the trained judge on examples from held-out problems."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from random import Random
from typing import Any

from reward_serve_judge.training.responses import Material, make
from reward_serve_judge.training.train import Trainer


def evaluate(trainer: Trainer, material: Material, count: int) -> dict[str, Any]:
    """Agreement on ``count`` new examples, in total, by family and by kind of answer.

    The training generator writes the examples, so they are easier than policies' responses. For
    those, use ``reward-serve eval``; for what training never shows, ``unseen.py``.
    """
    rng = Random(f"{trainer.recipe.seed}/held-out")
    examples = [rng.choice(make(material, rng)) for _ in range(count)]
    # Sorted by length, so that batches have little padding.
    pairs = sorted(
        ((trainer.prompts.of(e), e) for e in examples), key=lambda pair: len(pair[0].ids)
    )
    agreed: dict[str, list[bool]] = defaultdict(list)
    by_kind: dict[str, list[bool]] = defaultdict(list)
    accepted: dict[bool, list[bool]] = {True: [], False: []}
    right = trainer.probabilities([prompt for prompt, _ in pairs])
    for (_, example), probability in zip(pairs, right, strict=True):
        verdict = probability > 0.5
        agreed[example.family].append(verdict is example.correct)
        by_kind[example.kind].append(verdict is example.correct)
        accepted[example.correct].append(verdict)
    return {
        "n": count,
        "agreement": _mean([a for family in agreed.values() for a in family]),
        "false_accept_rate": _mean(accepted[False]),
        "false_reject_rate": _mean([not a for a in accepted[True]]),
        "by_family": {family: _mean(agreed[family]) for family in sorted(agreed)},
        "by_kind": {kind: _mean(by_kind[kind]) for kind in sorted(by_kind)},
    }


def _mean(values: Sequence[bool]) -> float | None:
    return sum(values) / len(values) if values else None
