"""Rule-based verifiers: they prove an answer right or wrong, or abstain."""

from __future__ import annotations

from reward_serve.verifiers.gsm8k import Verification, final_answer, verify, verify_any
from reward_serve.verifiers.strict import verify_strict_any

VERIFIER_VERSION = "4"
"""Raised when a rule decides otherwise than before; part of fingerprints."""

__all__ = [
    "VERIFIER_VERSION",
    "Verification",
    "final_answer",
    "verify",
    "verify_any",
    "verify_strict_any",
]
