"""One result as the numbers that a trainer averages."""

from __future__ import annotations

from reward_serve.schema import ScoreResult, Status

_FAILURES = tuple(status.value for status in Status if status is not Status.OK)


def failed_status(result: ScoreResult) -> str | None:
    """The status in whose place the result's score stands, or the result's own; None if ok."""
    if result.source == "fallback":
        return str((result.details or {}).get("failed"))
    return None if result.status is Status.OK else result.status.value


def metrics_of(result: ScoreResult) -> dict[str, float]:
    """What became of a request, each 1 or 0, the same keys every time.

    Returns:
        ``ok``: the service gave a verdict; ``by_rule``: its rules did; ``fallback``: it gave none
        and ``on_failure`` decided; ``undecided``: nobody did; ``failed_<status>`` of each status.
    """
    failed = failed_status(result)
    return {
        "ok": float(failed is None),
        "by_rule": float(result.source == "rule"),
        "fallback": float(result.source == "fallback"),
        "undecided": float(result.score is None),
        **{f"failed_{status}": float(failed == status) for status in _FAILURES},
    }
