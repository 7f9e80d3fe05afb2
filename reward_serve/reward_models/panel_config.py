"""The ``panel`` section of a deployments file."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from reward_serve.config_base import Count, Section


class MemberConfig(Section):
    """A reward model that the panel asks."""

    model: str = Field(min_length=1, description="its name")
    application: str | None = Field(
        None, min_length=1, description="the Serve application it is in; default the panel's own"
    )
    template: str | None = Field(
        None, min_length=1, description="what it judges by; default the request's, or its own"
    )
    weight: Annotated[float, Field(gt=0)] = 1.0


def _named(member: Any) -> Any:
    return {"model": member} if isinstance(member, str) else member


class PanelConfig(Section):
    """Who is asked, and what their scores come to."""

    members: list[Annotated[MemberConfig, BeforeValidator(_named)]] = Field(
        min_length=2, max_length=16, description="names, or names with settings"
    )
    aggregate: Literal["vote", "mean"] = Field(
        "vote", description="right where more than half of the weight says so, or the weighted mean"
    )
    threshold: float = Field(0.5, description="of a vote: a member says right from this score on")
    quorum: Count | None = Field(
        None, description="members that must have a score; default more than half of them"
    )
    member_deadline: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.9, description="the share of a request's deadline that its members have"
    )

    @model_validator(mode="after")
    def _the_panel_can_meet(self) -> Self:
        names = [(member.application, member.model, member.template) for member in self.members]
        repeated = next((name for name in names if names.count(name) > 1), None)
        if repeated:
            raise ValueError(f"members: {repeated[1]!r} is there twice; give it a weight instead")
        if self.quorum is None:
            self.quorum = len(self.members) // 2 + 1
        if self.quorum > len(self.members):
            raise ValueError(
                f"quorum: {self.quorum} of {len(self.members)} members; lower it, or add members"
            )
        return self
