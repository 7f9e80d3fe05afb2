"""The ``rule`` section of a deployments file."""

import re
from typing import Literal, Self

from pydantic import Field, model_validator

from reward_serve.config_base import Section

VerifierName = Literal[
    "gsm8k",
    "gsm8k_strict_first",
    "gsm8k_strict_last",
    "numeric",
    "math",
    "exact",
    "regex",
    "function",
]

_FUNCTION = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


class RuleConfig(Section):
    """Which verifier decides."""

    verifier: VerifierName = "gsm8k"
    pattern: str | None = Field(
        None, min_length=1, description="of regex: the first group of its last match is the answer"
    )
    function: str | None = Field(
        None, description="of function: package.module:name, imported when a replica starts"
    )

    @model_validator(mode="after")
    def _settings_are_the_verifiers(self) -> Self:
        for field, verifier in (("pattern", "regex"), ("function", "function")):
            if (getattr(self, field) is not None) is not (self.verifier == verifier):
                remedy = f"set {field}" if self.verifier == verifier else f"leave {field} out"
                raise ValueError(
                    f"{field}: belongs to verifier: {verifier}, and this is {self.verifier!r}; "
                    f"{remedy}"
                )
        if self.pattern is not None:
            try:
                re.compile(self.pattern)
            except re.error as error:
                raise ValueError(
                    f"pattern: {self.pattern!r} is not a regular expression: {error}"
                ) from None
        if self.function is not None and not _FUNCTION.fullmatch(self.function):
            raise ValueError(
                f"function: {self.function!r} is no import path; write package.module:name"
            )
        return self
