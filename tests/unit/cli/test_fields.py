from __future__ import annotations

from typing import Any

import pytest
import typer

from reward_serve.cli.options import set_field


def file(*models: dict[str, Any]) -> dict[str, Any]:
    return {"applications": [{"name": "reward", "args": {"models": list(models)}}]}


def judge() -> dict[str, Any]:
    return {"name": "judge", "kind": "judge", "judge": {"mode": "label"}}


@pytest.mark.parametrize(
    ("assignment", "section", "value"),
    [
        ("judge.max_tokens=64", "judge", {"mode": "label", "max_tokens": 64}),
        ("judge={mode: generate}", "judge", {"mode": "generate"}),
        ("engine.engine_kwargs.reasoning_parser=qwen3", "engine",
         {"engine_kwargs": {"reasoning_parser": "qwen3"}}),
        ("verdict_log.folder=/a=b", "verdict_log", {"folder": "/a=b"}),
        ("judge.template=", "judge", {"mode": "label", "template": None}),
    ],
)  # fmt: skip
def test_a_path_begins_at_the_only_model(assignment: str, section: str, value: object) -> None:
    content = file(judge())
    set_field(content, assignment)
    assert content["applications"][0]["args"]["models"][0][section] == value


def test_a_path_may_begin_at_args_or_at_the_top_of_the_file() -> None:
    members = {"members": ["judge", "strict"]}
    content = file(judge(), {"name": "rule", "kind": "rule", "composite": members})
    for assignment in (
        "server.max_batch_items=64",
        "models.1.rule.verifier=math",
        "http_options.port=9000",
        "applications.0.name=other",
        "applications.0.args.models.0.autoscaling.max_replicas=2",
        "models.1.composite.members.1=math",
    ):
        set_field(content, assignment)
    assert content["http_options"] == {"port": 9000}
    (application,) = content["applications"]
    assert application["name"] == "other"
    assert application["args"]["server"] == {"max_batch_items": 64}
    first, second = application["args"]["models"]
    assert first["autoscaling"] == {"max_replicas": 2}
    assert second["rule"] == {"verifier": "math"}
    assert second["composite"] == {"members": ["judge", "math"]}  # an entry of a list


@pytest.mark.parametrize(
    ("assignment", "fault"),
    [
        ("judge.max_tokens", "write PATH=VALUE"),
        ("=64", "write PATH=VALUE"),
        ("judge..mode=label", "write PATH=VALUE"),
        ("judge.mode=[", "is not YAML"),
        ("judge.mode.label=1", "'label' is not in a section"),
        ("models.1.kind=rule", "'1' is not in a section, or not an entry of the list"),
        ("models.1=x", "'1' is not"),
    ],
)
def test_a_path_that_leads_nowhere_is_refused(assignment: str, fault: str) -> None:
    with pytest.raises(typer.BadParameter) as caught:
        set_field(file(judge()), assignment)
    assert fault in caught.value.message
    assert assignment in caught.value.message


def test_with_several_models_a_path_names_one() -> None:
    with pytest.raises(typer.BadParameter, match=r"2 models; begin the path with models\.0"):
        set_field(file(judge(), judge()), "judge.mode=generate")
    content: dict[str, Any] = {"applications": [{}, {}]}
    with pytest.raises(typer.BadParameter, match=r"2 applications; begin .* applications\.0"):
        set_field(content, "server.num_replicas=2")
