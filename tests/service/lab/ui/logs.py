"""Verdict logs as replicas write them, for the tests of what reads them."""

import json
from pathlib import Path
from typing import Any

BEGAN = 1_800_000_000.0


def verdict(number: int, **fields: Any) -> dict[str, Any]:
    """A line of the log; every third is wrong, and every seventh has no verdict."""
    undecided = number % 7 == 6
    score = None if undecided else float(number % 3 != 0)
    return {
        "time": BEGAN + number,
        "request": f"{number:016x}",
        "group": f"problem-{number // 8}",
        "response_characters": 40 + number % 500,
        "response_tail": f"She has {number} left.\n#### {number}",
        "reference": str(number),
        "id": None,
        "score": score,
        "status": "unparseable" if undecided else "ok",
        "source": None if undecided else ("rule" if number % 2 else "judge"),
        "label": None,
        "probabilities": None,
        "details": {"rule": "marker"} if number % 2 else None,
        "template": "final_answer",
        "fingerprint": "0123456789abcdef",
        "model": "judge",
        "step": number // 100,
        **fields,
    }


def of_teacher(
    number: int, tokens: int | None, mean: float | None, **fields: Any
) -> dict[str, Any]:
    """A teacher's line; without ``tokens``, of a sequence that has no log-probabilities."""
    return {
        **{"time": BEGAN + number, "request": f"{number:016x}", "id": None, "model": "judge"},
        **{"status": "ok" if tokens else "timeout", "source": "teacher", "run": "grpo", "step": 3},
        **{"tokens": tokens, "mean_logprob": mean, **fields},
    }


def append(path: Path, *rows: dict[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as lines:
        lines.writelines(json.dumps(row) + "\n" for row in rows)
