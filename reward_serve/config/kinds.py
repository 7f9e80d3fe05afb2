"""The sections of single kinds: ``classifier``, ``rule``, ``composite`` and ``cascade``."""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from reward_serve.config.base import Count, Section
from reward_serve.templates import RulesName

_FUNCTION = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")

VerifierName = Literal[
    RulesName,
    "gsm8k_strict_first",
    "gsm8k_strict_last",
    "numeric",
    "math",
    "exact",
    "choice",
    "regex",
    "function",
]
"""All verifiers; ``reward_serve.reward_models.rule`` makes them."""


class ClassifierConfig(Section):
    """How the logits of a sequence-classification model become a score."""

    normalisation: Literal["raw", "sigmoid", "affine"] = Field(
        "raw", description="affine: scale * logit + shift"
    )
    scale: Annotated[float, Field(allow_inf_nan=False)] = 1.0
    shift: Annotated[float, Field(allow_inf_nan=False)] = 0.0
    label: Annotated[int, Field(ge=0)] | None = Field(
        None, description="index of the logit that is the reward; required if there are several"
    )

    @model_validator(mode="after")
    def _scale_and_shift_are_used(self) -> Self:
        if self.normalisation != "affine" and (self.scale, self.shift) != (1.0, 0.0):
            raise ValueError(
                f"scale, shift: not used with normalisation: {self.normalisation}; "
                "set normalisation: affine"
            )
        return self


class RuleConfig(Section):
    """The verifier of a rule."""

    verifier: VerifierName = "gsm8k"
    pattern: str | None = Field(
        None,
        min_length=1,
        description="verifier: regex; the first group of its last match is the answer",
    )
    function: str | None = Field(
        None, description="verifier: function; package.module:name, imported at replica start"
    )

    @model_validator(mode="after")
    def _settings_are_the_verifiers(self) -> Self:
        for field, verifier, value in (
            ("pattern", "regex", "a regular expression"),
            ("function", "function", "package.module:name"),
        ):
            is_set = getattr(self, field) is not None
            if self.verifier == verifier and not is_set:
                raise ValueError(
                    f"{field}: is missing, and verifier: {verifier} needs it; set it to {value}"
                )
            if is_set and self.verifier != verifier:
                raise ValueError(
                    f"{field}: is for verifier: {verifier}, not {self.verifier!r}; remove it, or "
                    f"set verifier: {verifier}"
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
                f"function: {self.function!r} is not an import path; write package.module:name"
            )
        return self


LENGTH = "length"
"""Built-in member of a composite: the response's length in characters."""


class GateConfig(Section):
    """A condition on another member's score."""

    member: str = Field(min_length=1, description="the other member's name in results")
    below: float = Field(description="if the other's score is below this, the gated score is 0")


class MemberConfig(Section):
    """A member of a composite. Its score is clipped first, then gated, then weighted."""

    model: str = Field(min_length=1, description="the reward model's name, or length")
    application: str | None = Field(
        None, min_length=1, description="its Serve application; default: the composite's"
    )
    template: str | None = Field(
        None, min_length=1, description="its template; default: the request's, or the model's"
    )
    rubric: bool | None = Field(
        None,
        description="send it the request's rubric; default: whether its kind reads one, or true in "
        "another application",
    )
    weight: float = Field(1.0, description="may be negative with aggregate: sum")
    clip: tuple[float, float] | None = Field(None, description="lowest and highest score")
    gate: GateConfig | None = None

    @property
    def name(self) -> str:
        """The member's unique name in results: application, model and template."""
        name = f"{self.application}/{self.model}" if self.application else self.model
        return f"{name}:{self.template}" if self.template else name

    @model_validator(mode="after")
    def _bounds_are_in_order(self) -> Self:
        if self.clip is not None and self.clip[0] > self.clip[1]:
            raise ValueError(f"clip: {list(self.clip)} is empty; write [low, high]")
        if self.gate is not None and self.gate.member == self.name:
            raise ValueError(f"gate.member: {self.name!r} is this member itself; name another")
        return self


def _named(member: Any) -> Any:
    return {"model": member} if isinstance(member, str) else member


_Member = Annotated[
    MemberConfig, BeforeValidator(_named, json_schema_input_type=str | MemberConfig)
]


class CompositeConfig(Section):
    """The members of a composite and how their scores are combined."""

    members: list[_Member] = Field(
        min_length=2, max_length=16, description="names, or names with settings"
    )
    aggregate: Literal["vote", "mean", "sum"] = Field(
        "vote",
        description="vote: 1 if more than half of the weight votes right; mean: weighted mean; "
        "sum: weighted sum",
    )
    threshold: float = Field(0.5, description="a member with at least this score votes right")
    quorum: Count | None = Field(
        None,
        description="minimum number of members with a score; default: more than half, or all for "
        "a sum",
    )
    member_deadline: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.9, description="the members' deadline, as a fraction of the request's"
    )

    @model_validator(mode="after")
    def _the_members_fit(self) -> Self:
        names = [member.name for member in self.members]
        repeated = next((name for name in names if names.count(name) > 1), None)
        if repeated:
            raise ValueError(f"members: {repeated!r} is listed twice; set a weight instead")
        for member in self.members:
            if member.weight == 0 or (member.weight < 0 and self.aggregate != "sum"):
                raise ValueError(
                    f"members: {member.name!r} has weight {member.weight:g}, which must be above 0"
                    + (", or below 0" if self.aggregate == "sum" else " unless aggregate: sum")
                )
            if member.gate is not None and member.gate.member not in names:
                raise ValueError(
                    f"members: the gate of {member.name!r} names {member.gate.member!r}; choose "
                    f"from {', '.join(names)}"
                )
        if self.quorum is None:
            self.quorum = len(names) if self.aggregate == "sum" else len(names) // 2 + 1
        if self.quorum > len(names):
            raise ValueError(
                f"quorum: {self.quorum} is above the number of members, {len(names)}; "
                "lower it or add members"
            )
        return self


class CascadeConfig(Section):
    """The members of a cascade, in the order in which they are asked."""

    members: list[_Member] = Field(
        min_length=2, max_length=4, description="names, or names with settings; the smallest first"
    )
    unsure: tuple[float, float] = Field(
        (0.2, 0.8),
        description="the next member is asked if the probability of right (without probabilities "
        "of two labels: the score) is within",
    )
    member_deadline: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.5, description="the deadline of all members but the last, as a fraction of the time left"
    )

    @model_validator(mode="after")
    def _members_take_turns(self) -> Self:
        if self.unsure[0] > self.unsure[1]:
            raise ValueError(f"unsure: {list(self.unsure)} is empty; write [low, high]")
        names = [member.name for member in self.members]
        for member in self.members:
            if names.count(member.name) > 1:
                raise ValueError(f"members: {member.model!r} is listed twice; remove one")
            given = member.model_dump(exclude_defaults=True)
            if unused := given.keys() - {"model", "application", "template", "rubric"}:
                raise ValueError(
                    f"members: {member.model!r} has {', '.join(sorted(unused))}, which a cascade "
                    "does not use; remove it"
                )
        return self
