"""The registry of verifiers, by their names in ``rule.verifier`` and a template's ``rules``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reward_serve.config.kinds import RuleConfig, VerifierName
from reward_serve.rules import VERIFIER_VERSION, verify, verify_any, verify_strict_any
from reward_serve.rules.base import TextVerifier, Verifier
from reward_serve.rules.exact import grade_exact
from reward_serve.rules.grade import Grade
from reward_serve.rules.math_verified import MathVerifier
from reward_serve.rules.numeric import grade_numeric
from reward_serve.rules.own_function import FunctionVerifier
from reward_serve.rules.pattern import PatternVerifier
from reward_serve.rules.trainers_gsm8k import grade_strict_first, grade_strict_last
from reward_serve.templates import RulesName

Rules = Callable[[str, Sequence[str]], Grade]
_TextGrade = Callable[[str, str], Grade]

RULES: dict[RulesName, Rules] = {"gsm8k": verify_any, "gsm8k_strict": verify_strict_any}
"""The verifiers that may decide before a judge's model."""


def make_verifier(config: RuleConfig) -> Verifier:
    """The configured verifier.

    Raises:
        ConfigError: ``rule.function`` cannot be imported.
    """
    return _VERIFIERS[config.verifier](config)


def _text(grade: _TextGrade) -> Callable[[RuleConfig], Verifier]:
    return lambda config: TextVerifier(
        f"verifier={config.verifier};version={VERIFIER_VERSION}", grade
    )


_VERIFIERS: dict[VerifierName, Callable[[RuleConfig], Verifier]] = {
    "gsm8k": _text(verify),
    "gsm8k_strict": _text(lambda response, reference: verify_strict_any(response, [reference])),
    "gsm8k_strict_first": _text(grade_strict_first),
    "gsm8k_strict_last": _text(grade_strict_last),
    "numeric": _text(grade_numeric),
    "math": lambda config: MathVerifier(VERIFIER_VERSION),
    "exact": _text(grade_exact),
    "regex": lambda config: PatternVerifier(config.pattern or "", VERIFIER_VERSION),
    "function": lambda config: FunctionVerifier(config.function or ""),
}
