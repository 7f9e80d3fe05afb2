"""The sections ``judge``, ``group`` and ``rubric`` of a deployments file."""

from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import Field, model_validator

from reward_serve.config.base import Count, Section
from reward_serve.criteria import CriteriaOrName
from reward_serve.schema import Mode, Strategy
from reward_serve.templates import (
    GROUPS,
    RUBRICS,
    Template,
    load_template,
    parse_template,
    template_names,
)

OptionName = Literal[
    "mode", "temperature", "top_p", "max_tokens", "enable_thinking", "thinking_tokens", "cache"
]

MIN_LABEL_MASS = 0.001
"""With ``judge.min_probability``, the labels' least share of the probability of all tokens."""

TemplateName = Annotated[
    str,
    Field(
        description="name of a shipped template, or path of a .yaml file, which is read once, "
        "where Serve builds the application"
    ),
]


class Templated(Section):
    """A section with a judging template."""

    shipped: ClassVar[str] = ""  # folder of the shipped templates
    shows: ClassVar[tuple[str, ...]] = ("response", "conversation")
    """What templates of this section may show: values of ``Template.shows``."""

    template: TemplateName
    template_data: dict[str, Any] | None = Field(
        None, description="the template file's content; filled in by resolve()"
    )

    @cached_property
    def default_template(self) -> Template:
        """The template of requests without ``template``: the file's, or a shipped one."""
        if self.template_data is None:
            return load_template(self.template, self.shipped)
        return parse_template(Path(self.template).stem, self.template_data)

    @property
    def known_templates(self) -> list[str]:
        """The names of the templates that requests may use."""
        file = [] if self.template_data is None else [self.default_template.name]
        return [*file, *template_names(self.shipped)]

    def find_template(self, name: str) -> Template:
        """A template by name; raises ``ValueError``, which lists the names, if it is unknown."""
        if name == self.default_template.name:
            return self.default_template
        try:
            return load_template(name, self.shipped)
        except KeyError:
            raise ValueError(
                f"template: no template is named {name[:64]!r}; choose from "
                f"{', '.join(self.known_templates)}"
            ) from None


class JudgeConfig(Templated):
    """How a judge judges."""

    # Of the bundled judge with this default template, in label mode.
    bundled_min_probability: ClassVar[float] = 0.8

    template: TemplateName = "final_answer"
    mode: Mode = "label"
    rules_first: bool | None = Field(
        None,
        description="use the model only if no rule decides; default: for every template with rules",
    )
    response_tokens: Count | None = Field(
        None, description="maximum tokens of a response to show; default: the template's"
    )
    min_probability: Annotated[float, Field(ge=0, lt=1)] | None = Field(
        None,
        description="label mode: no score where the likeliest label has less, or all labels less "
        f"than {MIN_LABEL_MASS:g} of all tokens' probability; default: "
        f"{bundled_min_probability:g} for the bundled judge, else 0",
    )
    inline_templates: bool = Field(False, description="whether requests may send inline templates")
    max_tokens: Count = Field(512, description="maximum tokens to generate, in generate mode")
    attempts: Count | None = Field(
        None,
        description="generate mode: how often to ask for a reply with a verdict; default: 2 at an "
        "endpoint, else 1. An engine of our own is asked once at temperature 0",
    )
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    enable_thinking: bool = Field(
        False, description="generate mode, for chat templates with this setting (Qwen3)"
    )
    thinking_tokens: Count | None = Field(
        None,
        description="maximum tokens of max_tokens for thinking, which the engine then ends; needs "
        "engine.engine_kwargs.reasoning_parser",
    )
    audit_rate: Annotated[float, Field(ge=0, le=1)] = Field(
        0.01,
        description="fraction of requests for which rules and model are compared in the "
        "background; reward_serve_audits_total counts how often they agree",
    )
    allowed_options: list[OptionName] = Field(
        list(get_args(OptionName)), description="the options that requests may set"
    )

    @model_validator(mode="after")
    def _settings_fit_the_mode(self) -> Self:
        if self.min_probability and self.mode != "label":
            raise ValueError(
                f"min_probability: {self.min_probability:g} has no effect in mode: {self.mode}; "
                "remove it, or set mode: label"
            )
        if self.thinking_tokens is not None and self.thinking_tokens >= self.max_tokens:
            raise ValueError(
                f"thinking_tokens: {self.thinking_tokens} leaves no room for a verdict in "
                f"max_tokens: {self.max_tokens}; raise max_tokens"
            )
        return self


class GroupConfig(Templated):
    """How a judge compares the responses of a group with each other."""

    shipped = GROUPS
    shows = ("pair",)

    template: TemplateName = "pairwise"
    mode: Literal["label", "generate"] = "label"
    strategy: Strategy = Field("swiss", description="which pairs to compare")
    wait: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.5,
        description="requests with group_size: how long to wait for the rest of their group, as a "
        "fraction of their deadline",
    )


class CriteriaConfig(JudgeConfig):
    """How a judge evaluates criteria."""

    shipped = RUBRICS
    shows = ("criterion",)

    template: TemplateName = "rubric"


RubricAggregate = Literal["weighted", "all", "min", "mean"]


class RubricConfig(Section):
    """The rubrics of a deployment, and how the scores of their criteria are combined."""

    rubrics: dict[str, CriteriaOrName] = Field(
        default_factory=dict,
        description="name to criteria, or to the path of a .yaml file of criteria, which is read "
        "once, where Serve builds the application",
    )
    default: str | None = Field(
        None, description="name of the rubric of requests without one; null: they are invalid"
    )
    aggregate: RubricAggregate = Field(
        "weighted",
        description="weighted: points earned as a share of points possible; all: 1 if every "
        "criterion is met, else 0; min, mean: lowest and average of how well criteria are met",
    )
    min_answered: Annotated[float, Field(gt=0, le=1)] = Field(
        1.0,
        description="minimum share of criteria with a score, above 0 and at most 1; below it the "
        "rubric has no score. all and min, unless 0, need every criterion",
    )

    @model_validator(mode="after")
    def _the_default_exists(self) -> Self:
        if self.default is not None and self.default not in self.rubrics:
            raise ValueError(
                f"default: no rubric is named {self.default!r}; choose from "
                f"{', '.join(self.rubrics) or 'none, so add it to rubrics'}"
            )
        return self
