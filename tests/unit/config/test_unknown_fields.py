from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal, get_args, get_origin

import pytest
from pydantic import Field, ValidationError

from reward_serve.config.app import AppConfig, GatewayConfig
from reward_serve.config.base import ConfigError, Section, faults_of

Args = type[AppConfig | GatewayConfig]


def fault(model: dict[str, Any], section: Args = AppConfig, **others: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        section.parse({"models": [{"name": "m", **model}], **others})
    return str(caught.value)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        pytest.param(
            {"kind": "classifier", "classifier": {"normalization": "raw"}},
            "models.0.classifier.normalization: unknown field; did you mean 'normalisation'?",
            id="classifier",
        ),
        pytest.param(
            {"kind": "rule", "verdict_log": {"redac": True}},
            "models.0.verdict_log.redac: unknown field; did you mean 'redact'?",
            id="verdict log",
        ),
        pytest.param(
            {"kind": "remote", "remote": {"model": "x", "base_ulr": "y"}},
            "models.0.remote.base_ulr: unknown field; did you mean 'base_url'?",
            id="remote",
        ),
        pytest.param(
            {"kind": "remote", "remote": {"model": "x", "modle": "y"}},
            "models.0.remote.modle: unknown field; did you mean 'model'?",
            id="remote, like a field of args",
        ),
    ],
)
def test_an_unknown_field_is_compared_with_those_of_its_section(
    model: dict[str, Any], expected: str
) -> None:
    assert fault(model) == f"args: {expected}"


@pytest.mark.parametrize(
    ("model", "start", "known"),
    [
        (
            {"kind": "judge", "prompt": "x"},
            "prompt: unknown field of kind: judge; choose from",
            "judge",
        ),
        ({"kind": "judge", "judge": {"colour": 1}}, "judge.colour:", "max_tokens"),
        ({"kind": "rule", "rule": {"max_model_len": 1}}, "rule.max_model_len:", "verifier"),
    ],
)
def test_a_field_like_no_other_is_answered_with_the_fields_of_its_section(
    model: dict[str, Any], start: str, known: str
) -> None:
    text = fault(model)
    assert f"models.0.{start}" in text
    assert known in text.partition("choose from ")[2].split(", ")


@pytest.mark.parametrize(
    ("model", "remedy"),
    [
        ({"kind": "judge", "engine": {"num_gpus": 1}}, "move it to models.0.resources.num_gpus"),
        ({"kind": "judge", "num_gpus": 1}, "move it to models.0.resources.num_gpus"),
        ({"kind": "rule", "gpus": 0}, "write models.0.resources.num_gpus"),
        ({"kind": "rule", "rule": {"affinity": True}}, "move it to models.0.affinity"),
        ({"kind": "judge", "judge": {"model": "x"}}, "move it to models.0.engine.model"),
        (
            {"kind": "judge", "template": "x"},
            "move it to models.0.judge.template or models.0.group.template",
        ),
        (
            {"kind": "rule", "resources": {"num_replicas": 2}},
            "write models.0.autoscaling.min_replicas or models.0.autoscaling.max_replicas",
        ),
        (
            {"kind": "remote", "remote": {"model": "x", "url": "y"}},
            "write models.0.remote.base_url",
        ),
        (
            {"kind": "remote", "remote": {"model": "x", "api_keys_file": "y"}},
            "write models.0.remote.api_key_file",
        ),
        (
            {"kind": "composite", "composite": {"members": ["a", "b"], "combine": "sum"}},
            "write models.0.composite.aggregate",
        ),
        ({"kind": "rubric", "rubric": {"combine": "all"}}, "write models.0.rubric.aggregate"),
        ({"kind": "judge", "max_batch_items": 64}, "move it to server.max_batch_items"),
        ({"kind": "judge", "server": {}}, "move it to server"),
        ({"kind": "judge", "port": 1}, "move it to http_options.port, at the top of the file"),
        ({"kind": "rule", "engine": {}}, "remove it, or set kind: judge, rubric or classifier"),
        ({"kind": "judge", "rubric": {}}, "remove it, or set kind: rubric or remote"),
        ({"kind": "judge", "composite": {}}, "remove it, or set kind: composite"),
    ],
)
def test_a_field_of_another_section_or_kind_is_answered_with_its_place(
    model: dict[str, Any], remedy: str
) -> None:
    found, _, said = fault(model).partition("; ")
    assert "unknown field" in found
    assert said == remedy


@pytest.mark.parametrize(
    ("server", "remedy"),
    [
        ({"port": 8001}, "move it to http_options.port, at the top of the file"),
        ({"host": "0.0.0.0"}, "move it to http_options.host, at the top of the file"),
        ({"max_replicas": 2}, "did you mean 'num_replicas'?"),
    ],
)
def test_a_servers_address_is_serves_own(server: dict[str, Any], remedy: str) -> None:
    assert fault({"kind": "rule"}, server=server).partition("; ")[2] == remedy


def test_a_gateway_has_no_sections_of_an_application() -> None:
    text = fault({"application": "a", "engine": {}}, GatewayConfig)
    assert "models.0.engine: unknown field; choose from application, name" in text


class Leaf(Section):
    colour: str = ""


class Branch(Section):
    leaves: dict[str, list[Annotated[Leaf, Field()]]] | None = None
    leaf: Leaf | None = None
    size: int | str = 0


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"leaf": {"color": 1}}, "leaf.color: unknown field; did you mean 'colour'?"),
        (
            {"leaves": {"a": [{}, {"color": 1}]}},
            "leaves.a.1.color: unknown field; did you mean 'colour'?",
        ),
        ({"colour": 1}, "colour: unknown field; move it to leaf.colour"),
        ({"zzqq": 1}, "zzqq: unknown field; choose from leaf, leaves, size"),
        ({"size": None}, "size: Input should be a valid integer (found None)"),
    ],
)
def test_a_section_is_found_through_any_annotation(content: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Branch.model_validate(content)
    assert expected in faults_of(caught.value, Branch)


def misspelt(annotation: Any) -> Iterator[tuple[str, str, Any]]:
    """Every field below an annotation: the path of its misspelling, its name, faulty content."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        fields = annotation.model_fields
        tags = {
            name: get_args(field.annotation)[0]
            for name, field in fields.items()
            if get_origin(field.annotation) is Literal and len(get_args(field.annotation)) == 1
        }
        for name, field in fields.items():
            wrong = name[0] + name
            yield f".{wrong}", name, {**tags, wrong: 1}
            for path, meant, content in misspelt(field.annotation):
                yield f".{name}{path}", meant, {**tags, name: content}
    elif get_origin(annotation) is list:
        for path, meant, content in misspelt(get_args(annotation)[0]):
            yield f".0{path}", meant, [content]
    elif get_origin(annotation) is dict:
        for path, meant, content in misspelt(get_args(annotation)[1]):
            yield f".key{path}", meant, {"key": content}
    else:
        for inner in get_args(annotation):
            yield from misspelt(inner)


@pytest.mark.parametrize(
    ("section", "path", "meant", "args"),
    [
        pytest.param(section, path[1:], meant, args, id=f"{section.__name__}{path}")
        for section in (AppConfig, GatewayConfig)
        for path, meant, args in misspelt(section)
    ],
)
def test_no_section_is_forgotten(
    section: Args, path: str, meant: str, args: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError) as caught:
        section.parse(args)
    faults = str(caught.value).removeprefix("args: ")
    expected = rf"{re.escape(path)}: unknown field( of kind: \w+)?; did you mean '{meant}'\?"
    assert re.search(expected, faults)
