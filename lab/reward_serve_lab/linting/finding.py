"""A mistake found in a template."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Finding:
    """A mistake, or a possible one.

    Attributes:
        field: dotted path of the field.
        found: what is wrong.
        remedy: how to fix it.
        severity: "error" if the template cannot judge or can be fooled.
    """

    field: str
    found: str
    remedy: str
    severity: Literal["error", "warning"] = "error"

    def __str__(self) -> str:
        return f"{self.severity}: {self.field}: {self.found}; {self.remedy}"
