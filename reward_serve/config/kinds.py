"""The sections of single kinds: ``classifier``, ``rule``, ``panel`` and ``cascade``."""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from reward_serve.config.base import Count, Section
from reward_serve.verifier_names import VerifierName

_FUNCTION = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


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
        for field, verifier in (("pattern", "regex"), ("function", "function")):
            if (getattr(self, field) is not None) is not (self.verifier == verifier):
                remedy = f"set {field}" if self.verifier == verifier else f"remove {field}"
                raise ValueError(
                    f"{field}: is for verifier: {verifier}, and this is {self.verifier!r}; {remedy}"
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


class MemberConfig(Section):
    """A member of a panel."""

    model: str = Field(min_length=1, description="the reward model's name")
    application: str | None = Field(
        None, min_length=1, description="its Serve application; default: the panel's"
    )
    template: str | None = Field(
        None, min_length=1, description="its template; default: the request's, or the model's"
    )
    weight: Annotated[float, Field(gt=0)] = 1.0


def _named(member: Any) -> Any:
    return {"model": member} if isinstance(member, str) else member


class PanelConfig(Section):
    """The members of a panel and how their scores are combined."""

    members: list[Annotated[MemberConfig, BeforeValidator(_named)]] = Field(
        min_length=2, max_length=16, description="names, or names with settings"
    )
    aggregate: Literal["vote", "mean"] = Field(
        "vote", description="vote: 1 if more than half of the weight votes right; or weighted mean"
    )
    threshold: float = Field(0.5, description="a member with at least this score votes right")
    quorum: Count | None = Field(
        None, description="minimum number of members with a score; default: more than half"
    )
    member_deadline: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.9, description="the members' deadline, as a fraction of the request's"
    )

    @model_validator(mode="after")
    def _the_panel_can_meet(self) -> Self:
        names = [(member.application, member.model, member.template) for member in self.members]
        repeated = next((name for name in names if names.count(name) > 1), None)
        if repeated:
            raise ValueError(f"members: {repeated[1]!r} is listed twice; set a weight instead")
        if self.quorum is None:
            self.quorum = len(self.members) // 2 + 1
        if self.quorum > len(self.members):
            raise ValueError(
                f"quorum: {self.quorum} is above the number of members, {len(self.members)}; "
                "lower it or add members"
            )
        return self


class CascadeConfig(Section):
    """The members of a cascade, in the order in which they are asked."""

    members: list[Annotated[MemberConfig, BeforeValidator(_named)]] = Field(
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
        names = [(member.application, member.model, member.template) for member in self.members]
        for member, name in zip(self.members, names, strict=True):
            if names.count(name) > 1:
                raise ValueError(f"members: {member.model!r} is listed twice; remove one")
            given = member.model_dump(exclude_defaults=True)
            if unused := given.keys() - {"model", "application", "template"}:
                raise ValueError(
                    f"members: {member.model!r} has {', '.join(sorted(unused))}, which a cascade "
                    "does not use; remove it"
                )
        return self
