"""Rubrics: the criteria by which a response is judged, each on its own.

>>> rubric = Rubric.validate_python([{"name": "cites", "text": "It names a source."}])
>>> rubric[0].weight
1.0
"""

from typing import Annotated, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    Discriminator,
    Field,
    Tag,
    TypeAdapter,
    model_validator,
)

YES_OR_NO = {"yes": 1.0, "no": 0.0}  # the choices of a criterion without its own
MAX_CRITERIA = 64
MAX_CRITERION_CHARACTERS = 4096

# Both are listed in prompts, and written and read as JSON.
_CriterionName = Annotated[str, Field(pattern=r"^\w([\w .-]{0,62}\w)?$")]
_Label = Annotated[str, Field(pattern=r"^[\w+-]([\w .+-]{0,30}[\w+])?$")]


class Criterion(BaseModel, extra="forbid", allow_inf_nan=False):
    """One criterion of a rubric."""

    name: _CriterionName = Field(description="Unique in the rubric; the component's name.")
    text: str = Field(
        max_length=MAX_CRITERION_CHARACTERS,
        pattern=r"\S",
        description="What is asked of the response.",
    )
    weight: float = Field(
        1.0,
        ge=-1e6,
        le=1e6,
        strict=True,
        description="Share in the aggregate; negative if the criterion names a fault. At least "
        "1e-6 in magnitude.",
    )
    choices: dict[_Label, Annotated[float, Field(ge=0, le=1, strict=True)]] | None = Field(
        None,
        min_length=2,
        max_length=16,
        description="Label to score; default: the template's, yes 1 and no 0.",
    )
    required: bool = Field(
        False,
        strict=True,
        description="Whether the rubric has no score if this criterion has none, and scores 0 if "
        "this one, of a weight above 0, does.",
    )

    @model_validator(mode="after")
    def _weight_and_choices_matter(self) -> Self:
        if abs(self.weight) < 1e-6:
            raise ValueError(f"weight: {self.weight:g} has no effect; remove the criterion")
        choices = self.choices or YES_OR_NO
        if len({label.casefold() for label in choices}) < len(choices):
            raise ValueError("choices: two labels differ only in case; rename one")
        if len(set(choices.values())) == 1:
            raise ValueError("choices: every label has the same score; give them different ones")
        return self


def _complement_each_other(criteria: list[Criterion]) -> list[Criterion]:
    names = [criterion.name for criterion in criteria]
    if len(set(names)) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"two criteria are named {repeated!r}; rename one")
    if all(criterion.weight < 0 for criterion in criteria):
        raise ValueError("every weight is negative, so no response earns anything; add one above 0")
    return criteria


Criteria = Annotated[
    list[Criterion],
    Field(min_length=1, max_length=MAX_CRITERIA),
    AfterValidator(_complement_each_other),
]
Rubric: TypeAdapter[list[Criterion]] = TypeAdapter(Criteria)
"""Validates the content of a rubric file."""
CriteriaOrName = Annotated[
    Annotated[Criteria, Tag("criteria")]
    | Annotated[str, Field(min_length=1, max_length=1024), Tag("name")],
    Discriminator(lambda value: "name" if isinstance(value, str) else "criteria"),
]
