"""Rule-based verifiers, which prove an answer right or wrong or abstain."""

from __future__ import annotations

from reward_serve.rules.grade import Grade
from reward_serve.rules.gsm8k import verify, verify_any
from reward_serve.rules.strict import verify_strict_any
from reward_serve.rules.texts import final_answer

VERIFIER_VERSION = "14"
"""Incremented when a rule's decisions change; part of fingerprints."""

__all__ = [
    "VERIFIER_VERSION",
    "Grade",
    "final_answer",
    "verify",
    "verify_any",
    "verify_strict_any",
]
