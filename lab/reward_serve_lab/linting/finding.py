"""A mistake found in a template."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


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


def text_at(data: dict[str, Any], *path: str) -> str:
    """The text of a field; "" if it is missing or not text."""
    value: Any = data
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, str) else ""
