"""From the name in a deployments file to the verifier."""

from __future__ import annotations

from collections.abc import Callable

from reward_serve.config.kinds import RuleConfig, VerifierName
from reward_serve.verifiers import VERIFIER_VERSION
from reward_serve.verifiers.base import Grade, TextVerifier, Verifier, gold_answer
from reward_serve.verifiers.exact import grade_exact
from reward_serve.verifiers.gsm8k import verify
from reward_serve.verifiers.math_verified import MathVerifier
from reward_serve.verifiers.numeric import grade_numeric
from reward_serve.verifiers.own_function import FunctionVerifier
from reward_serve.verifiers.pattern import PatternVerifier
from reward_serve.verifiers.trainers_gsm8k import grade_strict_first, grade_strict_last

_SCORES = {"right": 1.0, "wrong": 0.0, "abstain": None}


def make_verifier(config: RuleConfig) -> Verifier:
    """The verifier that a configuration names.

    Raises:
        ConfigError: ``rule.function`` cannot be imported.
    """
    if config.verifier == "function":
        return FunctionVerifier(config.function or "")
    if config.verifier == "regex":
        return PatternVerifier(config.pattern or "", VERIFIER_VERSION)
    if config.verifier == "math":
        return MathVerifier(VERIFIER_VERSION)
    fingerprint = f"verifier={config.verifier};version={VERIFIER_VERSION}"
    return TextVerifier(fingerprint, _TEXT_GRADES[config.verifier])


def _grade_gsm8k(response: str, reference: str) -> Grade:
    gold_answer(reference)
    verification = verify(response, reference)
    return Grade(_SCORES[verification.outcome], verification.rule, verification.answer)


_TEXT_GRADES: dict[VerifierName, Callable[[str, str], Grade]] = {
    "gsm8k": _grade_gsm8k,
    "gsm8k_strict_first": grade_strict_first,
    "gsm8k_strict_last": grade_strict_last,
    "numeric": grade_numeric,
    "exact": grade_exact,
}
