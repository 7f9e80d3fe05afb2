"""The ``classifier`` section of a deployments file."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from reward_serve.config_base import Section


class ClassifierConfig(Section):
    """What a sequence-classification model's logits come to."""

    normalisation: Literal["raw", "sigmoid", "affine"] = Field(
        "raw", description="affine: scale * logit + shift"
    )
    scale: Annotated[float, Field(allow_inf_nan=False)] = 1.0
    shift: Annotated[float, Field(allow_inf_nan=False)] = 0.0
    label: Annotated[int, Field(ge=0)] | None = Field(
        None, description="which logit is the reward, where the model has several"
    )

    @model_validator(mode="after")
    def _scale_and_shift_are_used(self) -> Self:
        if self.normalisation != "affine" and (self.scale, self.shift) != (1.0, 0.0):
            raise ValueError(
                f"scale, shift: not used with normalisation: {self.normalisation}; "
                "say normalisation: affine"
            )
        return self
