"""Replaces failed results as the caller's ``on_failure`` says."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from reward_serve.schema import ScoreRequest, ScoreResult, Status

OnFailure = Literal["raise", "none", "rule"] | float


class ScoringError(RuntimeError):
    """A request ended without a score.

    Attributes:
        result: the typed failure.
    """

    def __init__(self, result: ScoreResult) -> None:
        super().__init__(f"no verdict: {result.status.value}: {result.reason}")
        self.result = result


def check_on_failure(on_failure: object) -> OnFailure:
    """Validate ``on_failure``; a number may be given as text.

    Raises:
        ValueError: it is not a valid choice.
    """
    if on_failure in ("raise", "none", "rule"):
        return on_failure
    try:
        value = float(on_failure)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"on_failure: {on_failure!r} is not raise, none, rule or a number")
    return value


def settle(request: Mapping[str, Any], result: ScoreResult, on_failure: OnFailure) -> ScoreResult:
    """The result if it has a score, or else the replacement by ``on_failure``.

    Raises:
        ScoringError: the result has no score and ``on_failure`` is ``raise``.
    """
    if result.status is Status.OK or on_failure == "none":
        return result
    if on_failure == "raise":
        raise ScoringError(result)
    score = _by_rule(request) if on_failure == "rule" else float(on_failure)
    if score is None:
        return result
    failed = result.status.value
    update = {"reason": f"{failed}: {result.reason}", "details": {"failed": failed}}
    return result.model_copy(
        update={"status": Status.OK, "score": score, "source": "fallback", **update}
    )


def _by_rule(request: Mapping[str, Any]) -> float | None:
    """1 or 0 if the verifier proves the response right or wrong, else None."""
    # Imported here because it takes a sixth of the package's import time.
    from reward_serve.rules import verify_any

    try:
        asked = ScoreRequest.model_validate(request)
        outcome = verify_any(asked.response, asked.references).outcome
    except ValueError:  # an invalid request, or one without a reference
        return None
    return {"right": 1.0, "wrong": 0.0}.get(outcome)
