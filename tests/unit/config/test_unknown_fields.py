from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

import pytest

from reward_serve.config.app import AppConfig, GatewayConfig
from reward_serve.config.base import ConfigError, Section

Args = type[AppConfig | GatewayConfig]


@pytest.mark.parametrize(
    ("model", "remedy"),
    [
        ({"kind": "judge", "engine": {"num_gpus": 1}}, "move it to models.0.resources.num_gpus"),
        ({"kind": "rule", "gpus": 0}, "move it to models.0.resources.num_gpus"),
        ({"kind": "judge", "judge": {"model": "x"}}, "move it to models.0.engine.model"),
        (
            {"kind": "judge", "template": "x"},
            "move it to models.0.judge.template or models.0.group.template",
        ),
        (
            {"kind": "rule", "resources": {"num_replicas": 2}},
            "move it to models.0.autoscaling.min_replicas or models.0.autoscaling.max_replicas",
        ),
        (
            {"kind": "remote", "remote": {"model": "x", "url": "y"}},
            "move it to models.0.remote.base_url",
        ),
        (
            {"kind": "remote", "remote": {"model": "x", "api_keys_file": "y"}},
            "move it to models.0.remote.api_key_file",
        ),
        ({"kind": "judge", "max_batch_items": 64}, "move it to server.max_batch_items"),
        ({"kind": "judge", "port": 1}, "move it to http_options.port, at the top of the file"),
        ({"kind": "rule", "engine": {}}, "remove it, or set kind: judge or rubric or classifier"),
        ({"kind": "judge", "rubric": {}}, "remove it, or set kind: rubric or remote"),
        (
            {"kind": "rule", "rule": {"max_model_len": 1}},
            "choose from function, ordered, pattern, verifier",
        ),
    ],
)
def test_a_misplaced_field_is_answered_with_its_place(model: dict[str, Any], remedy: str) -> None:
    with pytest.raises(ConfigError) as caught:
        AppConfig.parse({"models": [{"name": "m", **model}]})
    fault, _, advice = str(caught.value).partition("; ")
    assert "unknown field" in fault
    assert advice == remedy


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


@pytest.mark.parametrize("section", [AppConfig, GatewayConfig])
def test_in_every_section_a_misspelt_field_is_answered_with_the_right_one(section: Args) -> None:
    missed = []
    for path, meant, content in misspelt(section):
        with pytest.raises(ConfigError) as caught:
            section.parse(content)
        expected = rf"{re.escape(path[1:])}: unknown field[\w :]*; did you mean '{meant}'\?"
        if not re.search(expected, str(caught.value)):
            missed.append(f"{path}: {caught.value}")
    assert missed == []
