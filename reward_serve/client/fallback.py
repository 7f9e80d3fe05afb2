"""What a request without a verdict comes to, as its caller chose."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from reward_serve.schema import ScoreRequest, ScoreResult, Status

OnFailure = Literal["raise", "none", "rule"] | float


class ScoringError(RuntimeError):
    """A request has no verdict.

    Attributes:
        result: the typed failure.
    """

    def __init__(self, result: ScoreResult) -> None:
        super().__init__(f"no verdict: {result.status.value}: {result.reason}")
        self.result = result


def check_on_failure(on_failure: object) -> OnFailure:
    """The setting as it is, or as the number that its text says.

    Raises:
        ValueError: it is none of the choices.
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
    """The result where it has a score, else what ``on_failure`` makes of it.

    Raises:
        ScoringError: there is no score, and ``on_failure`` is ``raise``.
    """
    if result.status is Status.OK or on_failure == "none":
        return result
    if on_failure == "raise":
        raise ScoringError(result)
    score = _by_rule(request) if on_failure == "rule" else float(on_failure)
    if score is None:
        return result
    failed = result.status.value
    told = {"reason": f"{failed}: {result.reason}", "details": {"failed": failed}}
    return result.model_copy(
        update={"status": Status.OK, "score": score, "source": "fallback", **told}
    )


def _by_rule(request: Mapping[str, Any]) -> float | None:
    """1 or 0 where the verifier proves it, else None."""
    # A sixth of what importing the library takes, for the one setting that needs it.
    from reward_serve.verifiers import verify_any

    try:
        asked = ScoreRequest.model_validate(request)
        outcome = verify_any(asked.response, asked.references).outcome
    except ValueError:  # no request, or no reference in it
        return None
    return {"right": 1.0, "wrong": 0.0}.get(outcome)
