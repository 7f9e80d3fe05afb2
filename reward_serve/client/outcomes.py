"""How requests ended: as metrics, and with ``on_failure``'s replacement of a failure."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from reward_serve.schema import ScoreRequest, ScoreResult, Status

OnFailure = Literal["raise", "none", "rule", "lexical"] | float | None

FAILURES = tuple(status.value for status in Status if status is not Status.OK)


class ScoringError(RuntimeError):
    """A request ended without a score.

    Attributes:
        result: the typed failure; of a batch or a group, the first.
        results: every result of the batch or the group, in order.
    """

    def __init__(self, result: ScoreResult, results: Sequence[ScoreResult] = ()) -> None:
        self.result = result
        self.results = list(results) or [result]
        failed = sum(result.score is None for result in self.results)
        of_all = f"; {failed} of {len(self.results)} have none" if len(self.results) > 1 else ""
        super().__init__(f"no verdict: {result.status.value}: {result.reason}{of_all}")


def error_of(outcomes: Sequence[ScoreResult | ScoringError]) -> ScoringError | None:
    """The error of a batch or a group, if one of its requests ended without a score."""
    results = [o.result if isinstance(o, ScoringError) else o for o in outcomes]
    first = next((outcome for outcome in outcomes if isinstance(outcome, ScoringError)), None)
    return first and ScoringError(first.result, results)


def check_on_failure(on_failure: object) -> OnFailure:
    """Validate ``on_failure``; a number may be given as text.

    Raises:
        ValueError: it is not a valid choice.
    """
    if on_failure in (None, "raise", "none", "rule", "lexical"):
        return on_failure
    try:
        value = float(on_failure)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(
            f"on_failure: {on_failure!r} is not raise, none, rule, lexical or a number"
        )
    return value


def settle(
    request: Mapping[str, Any], result: ScoreResult, on_failure: OnFailure
) -> ScoreResult | ScoringError:
    """What a caller gets for a result without a score, by ``on_failure``; None is ``none``."""
    if on_failure is None or on_failure == "none":
        return result
    if on_failure == "raise" or is_refusal(result):  # whose fallback would be the whole run's
        return ScoringError(result)
    by_rule = on_failure in ("rule", "lexical")
    # A place in a group is on another scale.
    if by_rule and (request.get("group_size") or result.status is Status.INVALID):
        return result
    score = _by_rule(request, on_failure == "lexical") if by_rule else float(on_failure)
    if score is None:
        return result
    failed = result.status.value
    update = {"reason": f"{failed}: {result.reason}", "details": {"failed": failed}}
    return result.model_copy(
        update={"status": Status.OK, "score": score, "source": "fallback", **update}
    )


def _by_rule(request: Mapping[str, Any], lexical: bool) -> float | None:
    """1 or 0 if the verifier proves the response right or wrong, otherwise None.

    With ``lexical``, instead of None the best token overlap, unless a reference is a number.
    """
    # Imported here because it takes a sixth of the package's import time.
    from reward_serve_answers import verify_any

    try:
        parsed = ScoreRequest.model_validate(request)
        score = verify_any(parsed.judged, parsed.references).score
        if score is not None or not lexical:
            return score
        from reward_serve_answers.values import gold_answer, parse_number

        if any(parse_number(gold_answer(reference)) for reference in parsed.references):
            return None
    except ValueError:  # an invalid request, or one without a reference
        return None
    return max(_token_f1(parsed.judged, reference) for reference in parsed.references)


def _token_f1(response: str, reference: str) -> float:
    """F1 of the texts' words, as in SQuAD (Rajpurkar et al., 2016)."""
    words, gold = (Counter(re.findall(r"\w+", text.lower())) for text in (response, reference))
    common = (words & gold).total()
    return 2 * common / (words.total() + gold.total()) if common else 0.0


def is_refusal(result: ScoreResult) -> bool:
    """Whether the service refuses all requests, as for a wrong key or a misspelt model."""
    return bool((result.details or {}).get("refused"))


_OTHER_SCALES = tuple(
    f"verifier={name};" for name in ("code", "function", "json_schema", "tool_call")
)


def is_comparison(result: ScoreResult) -> bool:
    """Whether a verdict compares with a reference's answer, as the rule ``gsm8k`` would."""
    if (result.fingerprint or "").startswith(_OTHER_SCALES):
        return False
    has_criteria = any(not name.startswith("turn_") for name in result.components or ())
    return result.source in ("judge", "remote", "rule", "cache") and not has_criteria


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
        **{f"failed_{status}": float(failed == status) for status in FAILURES},
    }


def components_of(result: ScoreResult) -> dict[str, float]:
    """The score of each component that has one."""
    parts = (result.components or {}).items()
    return {name: part.score for name, part in parts if part.score is not None}


def turns_of(result: ScoreResult) -> list[float | None]:
    """The score of each assistant turn; None where it has none."""
    parts = (result.components or {}).items()
    return [part.score for name, part in parts if name.startswith("turn_")]
