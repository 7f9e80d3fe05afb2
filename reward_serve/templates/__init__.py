"""A judging template: YAML data, checked when it is read.

>>> load_template("final_answer").label.binary
True
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from reward_serve.schema import describe_errors

FIELDS = ("question", "reference", "response")
ALIASES = {
    "PROBLEM": "question",
    "REFERENCE_SOLUTION": "reference",
    "CANDIDATE_SOLUTION": "response",
}
"""Other names of the fields, in placeholders alone."""
FILE_SUFFIXES = (".yaml", ".yml")
INSTRUCTION = "{instruction}"
PLACEHOLDER = re.compile(r"\{(" + "|".join(FIELDS) + r")\}")
_ALIAS = re.compile(r"\{(" + "|".join(ALIASES) + r")\}")


class LabelForm(BaseModel):
    """Label mode: one forward pass, the probability of each label read off."""

    model_config = ConfigDict(extra="forbid")

    instruction: str
    values: Annotated[dict[str, float], Field(min_length=2, max_length=128)]

    @property
    def binary(self) -> bool:
        """Two labels worth 0 and 1: the likelier one is the score; else the expected value."""
        return sorted(self.values.values()) == [0.0, 1.0]


class GenerateForm(BaseModel):
    """Generate mode: the judge writes, and the last verdict in its text wins."""

    model_config = ConfigDict(extra="forbid")

    instruction: str
    verdict: str = Field(description="a regular expression; its first group is the verdict")
    scale: Annotated[float, Field(gt=0)] = Field(1.0, description="the verdict worth a score of 1")
    example: str = Field(description="text in which the verdict is found")

    @model_validator(mode="after")
    def _verdict_is_found_in_the_example(self) -> Self:
        try:
            pattern = re.compile(self.verdict)
        except re.error as error:
            raise ValueError(f"verdict: is not a regular expression: {error}") from None
        if pattern.groups < 1:
            raise ValueError(f"verdict: has no group around the verdict itself: {self.verdict!r}")
        if not pattern.search(self.example):
            raise ValueError(f"example: the verdict pattern finds nothing in {self.example!r}")
        return self


class Template(BaseModel):
    """What a judge is shown and how its answer is read."""

    model_config = ConfigDict(extra="forbid")

    name: str
    description: str
    card: str = Field("", description="what counts as right, for people")
    rules: Literal["final_answer", "gsm8k_strict"] | None = Field(
        None, description="which rules may decide before the model, under rules_first"
    )
    reference: Literal["full", "final_answer"] = "full"
    numerals: Literal["canonical", "as_written"] = Field(
        "as_written", description="canonical: every field's numbers are shown in plain digits"
    )
    response_tokens: Annotated[int, Field(ge=1)]
    head_tokens: int = Field(
        0, ge=0, description="how many of them show a cut response's beginning, the rest its end"
    )
    system: str = Field(
        description="the mode's instruction goes where it says {instruction}, among what the "
        "engine caches, else to the end of the user's message"
    )
    user: str
    label: LabelForm | None = Field(None, description="none: in generate mode alone")
    generate: GenerateForm
    digest: str = Field(description="of all that a verdict depends on; part of its fingerprint")

    @model_validator(mode="after")
    def _shows_the_response(self) -> Self:
        if self.user.count("{response}") != 1:
            raise ValueError("user: must hold {response} exactly once")
        if PLACEHOLDER.search(self.system):
            raise ValueError("system: must not hold placeholders; put them in user")
        return self

    @property
    def highest(self) -> float:
        """The highest score there is."""
        return max(self.label.values.values()) if self.label else 1.0

    @property
    def fields(self) -> list[str]:
        """The request's fields that this template needs."""
        return list(dict.fromkeys(PLACEHOLDER.findall(self.user)))


def unaliased(text: str) -> str:
    """The text with the fields' own names in its placeholders."""
    return _ALIAS.sub(lambda found: f"{{{ALIASES[found[1]]}}}", text)


@functools.cache
def load_template(name: str) -> Template:
    """A shipped template by name.

    Raises:
        KeyError: there is no such template.
    """
    if name not in template_names():
        raise KeyError(name)
    return parse_template(name, yaml.safe_load((_folder() / f"{name}.yaml").read_bytes()))


def read_template_file(path: Path) -> dict[str, Any]:
    """What a template's file says.

    Raises:
        ValueError: it cannot be read, is no template, or bears a shipped one's name.
    """
    if path.stem in template_names():
        raise ValueError(f"template: {path.stem!r} is a shipped one's name; rename {path.name!r}")
    try:
        data = yaml.safe_load(path.read_bytes())
    except OSError as error:
        raise ValueError(
            f"template: {str(path)!r} cannot be read ({error.strerror}); give a path that is "
            "there where Serve builds the application"
        ) from None
    except (yaml.YAMLError, UnicodeError) as error:
        raise ValueError(f"template: {str(path)!r} is not YAML: {_in_one_line(error)}") from None
    if not isinstance(data, dict):
        raise ValueError(
            f"template: {str(path)!r} holds {type(data).__name__}; write fields such as system, "
            "user and generate"
        )
    try:
        parse_template(path.stem, data)
    except ValidationError as error:
        raise ValueError(
            f"template: {str(path)!r}: {describe_errors(error)}; `python -m reward_serve template "
            "check` says more"
        ) from None
    return data


def parse_template(name: str, data: dict[str, Any]) -> Template:
    """A template from what its file says.

    Raises:
        ValidationError: a field is missing, unknown or wrong.
    """
    told = {key: value for key, value in data.items() if key not in ("description", "card")}
    digest = hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()
    fields = {"name": name, "digest": digest[:12], **data}
    if isinstance(data.get("user"), str):
        fields["user"] = unaliased(data["user"])
    return Template.model_validate(fields)


@functools.cache
def template_names() -> tuple[str, ...]:
    """Names of the shipped templates."""
    files = (entry.name for entry in _folder().iterdir())
    return tuple(sorted(name.removesuffix(".yaml") for name in files if name.endswith(".yaml")))


def _folder() -> resources.abc.Traversable:
    return resources.files("reward_serve.templates")


def _in_one_line(error: Exception) -> str:
    return " ".join(str(error).split())
