from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal, get_args, get_origin

import pytest
from pydantic import Field, ValidationError

from reward_serve.config.app import AppConfig, GatewayConfig, parse_config, parse_gateway
from reward_serve.config.base import ConfigError, ConfigFaults, Section

Parse = Callable[[dict[str, Any]], object]


def fault(model: dict[str, Any], parse: Parse = parse_config, **others: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        parse({"models": [{"name": "m", **model}], **others})
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
    ("model", "hint"),
    [
        pytest.param(
            {"kind": "judge", "template": "x"},
            "template: unknown field; it belongs to judge or group",
            id="a judge's",
        ),
        pytest.param(
            {"kind": "panel", "template": "x"},
            "template: unknown field; it belongs to members",
            id="a panel's",
        ),
        pytest.param(
            {"kind": "judge", "max_mib": 1},
            "max_mib: unknown field; it belongs to verdict_log or cache",
            id="two sections",
        ),
        pytest.param(
            {"kind": "judge", "judge": {"max_model_len": 1}},
            "judge.max_model_len: unknown field; it belongs to engine",
            id="the section beside it, though max_tokens looks like it",
        ),
        pytest.param(
            {"kind": "rule", "rule": {"affinity": True}},
            "rule.affinity: unknown field; it belongs to models.0",
            id="the model",
        ),
        pytest.param(
            {"kind": "rule", "server": {}},
            "server: unknown field; it belongs to args",
            id="the whole",
        ),
        pytest.param(
            {"kind": "rule", "max_body_bytes": 1},
            "max_body_bytes: unknown field; it belongs to server",
            id="the server",
        ),
        pytest.param(
            {"kind": "rule", "engine": {}}, "engine: unknown field; remove it", id="another kind's"
        ),
    ],
)
def test_a_misplaced_field_is_sent_to_the_nearest_section_that_has_it(
    model: dict[str, Any], hint: str
) -> None:
    assert fault(model).endswith(f" models.0.{hint}")


def test_a_gateway_has_no_sections_of_an_application() -> None:
    text = fault({"application": "a", "engine": {}, "aliases": {}}, parse_gateway)
    assert "models.0.engine: unknown field; remove it" in text
    assert "models.0.aliases: unknown field; it belongs to server" in text


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
        ({"colour": 1}, "colour: unknown field; it belongs to leaves or leaf"),
        ({"size": None}, "size: Input should be a valid integer (found None)"),
    ],
)
def test_a_section_is_found_through_any_annotation(content: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Branch.model_validate(content)
    assert expected in ConfigFaults(Branch).explain(caught.value)


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
    ("parse", "path", "meant", "args"),
    [
        pytest.param(parse, path[1:], meant, args, id=f"{top.__name__}{path}")
        for parse, top in ((parse_config, AppConfig), (parse_gateway, GatewayConfig))
        for path, meant, args in misspelt(top)
    ],
)
def test_no_section_is_forgotten(parse: Parse, path: str, meant: str, args: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(args)
    faults = str(caught.value).removeprefix("args: ")
    assert f"{path}: unknown field; did you mean {meant!r}?" in faults
