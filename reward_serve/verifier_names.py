"""The verifiers' names, used by ``rule.verifier`` and by a template's ``rules``."""

from typing import Literal

RulesName = Literal["gsm8k", "gsm8k_strict"]
"""Verifiers that abstain unless they prove an answer right or wrong, so may precede a judge."""

VerifierName = Literal[
    RulesName,
    "gsm8k_strict_first",
    "gsm8k_strict_last",
    "numeric",
    "math",
    "exact",
    "regex",
    "function",
]
"""All verifiers; ``reward_serve.rules.registry`` maps the names to implementations."""
