"""The ``judge`` section of a deployments file."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Field, model_validator

from reward_serve.config.base import Count, Section
from reward_serve.templates import (
    FILE_SUFFIXES,
    Template,
    load_template,
    parse_template,
    read_template_file,
    template_names,
)

OptionName = Literal[
    "mode",
    "temperature",
    "top_p",
    "max_tokens",
    "enable_thinking",
    "thinking_tokens",
    "samples",
    "cache",
]


class JudgeConfig(Section):
    """How a judge judges."""

    template: str = Field(
        "final_answer",
        description="a shipped one's name, or the path of a .yaml file, which is read once, where "
        "Serve builds the application",
    )
    template_data: dict[str, Any] | None = Field(
        None, description="what that file says; filled in as it is read"
    )
    mode: Literal["label", "generate"] = "label"
    rules_first: bool = Field(True, description="what a rule can prove is not asked of the model")
    response_tokens: Count | None = Field(
        None, description="judge the last so many tokens of a response; default the template's"
    )
    inline_templates: bool = Field(
        False, description="whether a request's template may be a template itself"
    )
    max_tokens: Count = Field(512, description="most tokens written in generate mode")
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    enable_thinking: bool = Field(
        False, description="in generate mode, for chat templates that know it (Qwen3)"
    )
    thinking_tokens: Count | None = Field(
        None,
        description="of max_tokens, the most for thinking, which the engine then ends; needs "
        "engine.engine_kwargs.reasoning_parser",
    )
    samples: Count = Field(1, description="answers written for a verdict, in generate mode")
    max_samples: Count = Field(8, description="most that a request may ask for")
    aggregate: Literal["vote", "mean"] = Field(
        "vote", description="of several samples: the score that most gave (of equals the lower)"
    )
    audit_rate: Annotated[float, Field(ge=0, le=1)] = Field(
        0.01,
        description="share of the requests that rules and model are both asked, off their path; "
        "reward_serve_audits_total tells how often they agree",
    )
    allowed_options: list[OptionName] = Field(
        list(get_args(OptionName)), description="what a request's options may set"
    )

    @model_validator(mode="after")
    def _template_is_there(self) -> Self:
        if self.template.endswith(FILE_SUFFIXES):
            if self.template_data is None:
                self.template_data = read_template_file(Path(self.template))
        elif self.template_data is not None:
            raise ValueError("template_data: belongs to a template file; leave it out")
        elif self.template not in template_names():
            raise ValueError(
                f"template: there is no {self.template!r}; choose of {', '.join(template_names())} "
                "or give the path of a .yaml file"
            )
        if self.mode == "label" and self.default_template.label is None:
            raise ValueError(
                f"mode: template {self.default_template.name!r} has no labels; set mode: generate"
            )
        return self

    @model_validator(mode="after")
    def _samples_can_differ(self) -> Self:
        if self.samples > self.max_samples:
            raise ValueError(
                f"samples: {self.samples} is above max_samples: {self.max_samples}; "
                "raise the latter"
            )
        if self.samples > 1 and self.temperature == 0:
            raise ValueError(
                f"samples: {self.samples} at temperature: 0 are all alike; set a temperature, "
                "such as 0.6"
            )
        if self.thinking_tokens is not None and self.thinking_tokens >= self.max_tokens:
            raise ValueError(
                f"thinking_tokens: {self.thinking_tokens} leaves nothing of max_tokens: "
                f"{self.max_tokens} for a verdict; raise the latter"
            )
        return self

    @property
    def own_template(self) -> Template | None:
        """The template of the deployer's file, by the file's name; None for a shipped one."""
        if self.template_data is None:
            return None
        return parse_template(Path(self.template).stem, self.template_data)

    @property
    def default_template(self) -> Template:
        """What judges where a request names no template."""
        return self.own_template or load_template(self.template)
