"""A result as numbers that a trainer can average."""

from __future__ import annotations

from reward_serve.schema import ScoreResult, Status

_FAILURES = tuple(status.value for status in Status if status is not Status.OK)


def failed_status(result: ScoreResult) -> str | None:
    """The status of a failed result, also if a fallback replaced it; None if it is ok."""
    if result.source == "fallback":
        return str((result.details or {}).get("failed"))
    return None if result.status is Status.OK else result.status.value


def metrics_of(result: ScoreResult) -> dict[str, float]:
    """The outcome of a request as 0 or 1 for each metric; the keys are always the same.

    Returns:
        ``ok``: the service gave a verdict; ``by_rule``: its rules decided; ``fallback``:
        ``on_failure`` gave the score; ``undecided``: there is no score; ``failed_<status>``.
    """
    failed = failed_status(result)
    return {
        "ok": float(failed is None),
        "by_rule": float(result.source == "rule"),
        "fallback": float(result.source == "fallback"),
        "undecided": float(result.score is None),
        **{f"failed_{status}": float(failed == status) for status in _FAILURES},
    }
