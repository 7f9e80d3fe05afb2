"""Compares verdicts with the known answers."""

from __future__ import annotations

from collections import Counter
from typing import Any

from examples.grpo.samples import Answer, accepted, number, numbers


def verdicts(groups: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts of a run's verdicts.

    ``undecided`` counts samples without a verdict. ``rewarded_wrongly`` counts rewards that differ
    from the known answer, whether by a wrong verdict or by a failure counted as 0.0.
    """
    samples = [sample for group in groups for sample in group["samples"]]
    decided = [sample for sample in samples if sample["verdict"] is not None]
    wrong = [sample for sample in decided if _differs(sample["verdict"], sample)]
    return {
        "samples": len(samples),
        "undecided": len(samples) - len(decided),
        "agreement": 1 - len(wrong) / len(decided) if decided else None,
        "false_accepts": sum(not sample["by_value"] for sample in wrong),
        "false_rejects": sum(sample["by_value"] for sample in wrong),
        "unrewarded": sum(sample["reward"] is None for sample in samples),
        "rewarded_wrongly": sum(_differs(sample["reward"], sample) for sample in samples),
    }


def mistakes(groups: list[dict[str, Any]], max_tokens: int) -> list[dict[str, Any]]:
    """Every sample whose verdict differs from the known answer, with its question and kind."""
    return [
        {
            "step": group["step"],
            "kind": _kind(sample, group["answer"], max_tokens),
            "question": group["question"],
            "response": sample["text"],
            "answer": group["answer"],
            "verdict": sample["verdict"],
        }
        for group in groups
        for sample in group["samples"]
        if _differs(sample["verdict"], sample)
    ]


def by_step(found: list[dict[str, Any]], steps: int) -> dict[str, list[int]]:
    """The number of false accepts and false rejects at each step."""
    counted = Counter((one["verdict"] > 0.5, one["step"]) for one in found)
    return {
        "false_accepts_by_step": [counted[True, step] for step in range(steps)],
        "false_rejects_by_step": [counted[False, step] for step in range(steps)],
    }


def _differs(score: float | None, sample: dict[str, Any]) -> bool:
    return score is not None and (score > 0.5) != sample["by_value"]


def _kind(sample: dict[str, Any], answer: Answer, max_tokens: int) -> str:
    cut = " (response cut off)" if sample["tokens"] >= max_tokens else ""
    found = numbers(sample["text"])
    if sample["by_value"]:
        alone = "alone" if len(set(found)) == 1 else "among other numbers"
        return f"false reject: the answer, {alone}{cut}"
    if not found:
        return f"false accept: no number{cut}"
    if any(number(one) in found for one in accepted(answer)):
        return f"false accept: another number follows the answer{cut}"
    return f"false accept: another number{cut}"
