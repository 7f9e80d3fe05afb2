from typing import Any

import pytest
import typer

from reward_serve.cli.options import set_field
from tests.rows import rows


def file(*models: dict[str, Any]) -> dict[str, Any]:
    return {"applications": [{"name": "reward", "args": {"models": list(models)}}]}


def judge() -> dict[str, Any]:
    return {"name": "judge", "kind": "judge", "judge": {"mode": "label"}}


def test_a_path_begins_at_the_only_model_at_args_or_at_the_top_of_the_file() -> None:
    content = file(judge())
    for assignment in (
        "judge.max_tokens=64",
        "engine.engine_kwargs.reasoning_parser=qwen3",
        "verdict_log.folder=/a=b",
        "judge.template=",
        "cache={enabled: false}",
        "server.max_batch_items=64",
        "http_options.port=9000",
        "applications.0.name=other",
        "applications.0.args.models.0.autoscaling.max_replicas=2",
    ):
        set_field(content, assignment)
    model = {
        "name": "judge",
        "kind": "judge",
        "judge": {"mode": "label", "max_tokens": 64, "template": None},
        "engine": {"engine_kwargs": {"reasoning_parser": "qwen3"}},
        "verdict_log": {"folder": "/a=b"},
        "cache": {"enabled": False},
        "autoscaling": {"max_replicas": 2},
    }
    args = {"models": [model], "server": {"max_batch_items": 64}}
    assert content["http_options"] == {"port": 9000}
    assert content["applications"] == [{"name": "other", "args": args}]


@pytest.mark.parametrize(("assignment", "fault"), rows(__file__, "nowhere"))
def test_a_path_that_leads_nowhere_is_refused(assignment: str, fault: str) -> None:
    with pytest.raises(typer.BadParameter) as caught:
        set_field(file(judge()), assignment)
    assert fault in caught.value.message
    assert assignment in caught.value.message


def test_with_several_models_a_path_names_one() -> None:
    with pytest.raises(typer.BadParameter, match=r"2 models; begin the path with models\.0"):
        set_field(file(judge(), judge()), "judge.mode=generate")
    content = file(judge(), {"name": "rule", "composite": {"members": ["judge", "strict"]}})
    set_field(content, "models.1.composite.members.1=math")
    assert content["applications"][0]["args"]["models"][1]["composite"]["members"][1] == "math"
    content = {"applications": [{}, {}]}
    with pytest.raises(typer.BadParameter, match=r"2 applications; begin .* applications\.0"):
        set_field(content, "server.num_replicas=2")
