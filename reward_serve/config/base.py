"""What the sections of a deployments file share: strictness, units, and how a fault is told."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

INGRESS_NAME = "ingress"
"""The HTTP deployment's name, which no reward model may have."""

Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0)]


class ConfigError(ValueError):
    """A deployments file says something that cannot be served; names the field and the remedy."""


class Section(BaseModel):
    """A part of the file: a field that does not exist is refused, and no number is infinite."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=(), allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class ConfigFaults:
    """Says what is wrong: the field, what was found, what would be right or where it belongs.

    Attributes:
        top: the whole of ``args``.
        kinds: a reward model's kind to its section.
        sections: a field's name to the section under it.
    """

    top: type[BaseModel]
    kinds: Mapping[str, type[BaseModel]]
    sections: Mapping[str, type[BaseModel]]

    def explain(self, error: ValidationError) -> str:
        """Every fault of the file, in one line."""
        return "; ".join(self._explain(fault) for fault in error.errors(include_url=False))

    def _explain(self, fault: ErrorDetails) -> str:
        loc = [str(part) for part in fault["loc"]]
        if self.kinds and loc[:1] == ["models"] and len(loc) > 2:
            del loc[2]  # pydantic's tag of the union, not a field
        path = ".".join(loc)
        message = fault["msg"].removeprefix("Value error, ")
        if not path:
            return message
        if fault["type"] == "extra_forbidden":
            return f"{path}: unknown field{self._nearest(fault)}"
        if fault["type"] in ("union_tag_invalid", "union_tag_not_found"):
            model = fault["input"]
            found = model.get("kind") if isinstance(model, dict) else model
            known = ", ".join(map(repr, self.kinds))
            return f"{path}.kind: must be one of {known} (found {found!r})"
        if fault["type"] in ("missing", "value_error"):
            return f"{path}: {message}"
        return f"{path}: {message} (found {fault['input']!r})"

    def _nearest(self, fault: ErrorDetails) -> str:
        """What an unknown field may have been meant to be, or where it belongs."""
        *parents, name = fault["loc"]
        section = self.top
        if self.kinds and len(parents) == 3:  # models, its index, its kind
            section = self.kinds[str(parents[2])]
        elif parents:
            named = [str(parent) for parent in parents if isinstance(parent, str)]
            section = self.sections.get(named[-1], self.top)
        for owner, known in self.sections.items():
            if name in known.model_fields:
                return f"; it belongs to {owner}"
        near = difflib.get_close_matches(str(name), sorted(section.model_fields), n=1)
        return f"; did you mean {near[0]!r}?" if near else "; remove it"
