import re
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

import pytest

from reward_serve.config.app import AppConfig, GatewayConfig
from reward_serve.config.base import ConfigError, Section
from tests.rows import rows

Args = type[AppConfig | GatewayConfig]


@pytest.mark.parametrize(("model", "remedy"), rows(__file__, "misplaced"))
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
            if get_origin(field.annotation) is Literal and name == "kind"
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
