from typing import Any

import pytest
from pydantic import TypeAdapter

from reward_serve.config.app import AppConfig, GatewayConfig
from reward_serve.config.base import ConfigError
from reward_serve.config.models import (
    CascadeModel,
    CompositeModel,
    JudgeModel,
    ModelConfig,
    RubricModel,
    RuleModel,
)
from tests.rows import rows

REMOTE = {"name": "e", "kind": "remote", "remote": {"model": "gpt"}}


def models(*models: Any, **others: Any) -> dict[str, Any]:
    return {"models": list(models), **others}


def args(**fields: Any) -> dict[str, Any]:
    return models({"name": "judge", "kind": "judge", **fields})


def rule(**fields: Any) -> dict[str, Any]:
    return models({"name": "r", "kind": "rule", "rule": fields})


def server(**fields: Any) -> dict[str, Any]:
    return {**args(), "server": fields}


def rubric(**fields: Any) -> dict[str, Any]:
    return models({"name": "r", "kind": "rubric", **fields})


def combined(kind: str, *members: Any, **settings: Any) -> dict[str, Any]:
    rules = [{"name": name, "kind": "rule"} for name in ("first", "second")]
    section = {"members": list(members), **settings}
    return models(*rules, {"name": "both", "kind": kind, kind: section})


def judge(**fields: Any) -> JudgeModel:
    (model,) = AppConfig.parse(args(**fields)).models
    assert isinstance(model, JudgeModel)
    return model


def fault(config: Any, of: type[AppConfig | GatewayConfig] = AppConfig) -> str:
    with pytest.raises(ConfigError) as caught:
        of.parse(config)
    text = str(caught.value)
    assert text.startswith("args: ")
    assert "\n" not in text
    return text.removeprefix("args: ")


def test_a_judge_and_a_rule_need_only_a_name_and_a_kind() -> None:
    model, of_rule = AppConfig.parse(models(*args()["models"], *rule()["models"])).models
    assert isinstance(model, JudgeModel)
    assert (model.engine.model, model.engine.device) == ("bundled", "cpu")
    assert (model.resources.num_cpus, model.resources.num_gpus) == (2.0, 0.0)
    assert model.engine.trust_remote_code is False
    assert (model.judge.template, model.judge.mode) == ("final_answer", "label")
    assert model.max_concurrent_items == 2 * model.engine.max_num_seqs
    assert (of_rule.resources.num_cpus, of_rule.resources.num_gpus) == (1.0, 0.0)
    assert judge(max_concurrent_items=7).max_concurrent_items == 7
    assert judge(resources={"num_cpus": 0.5}).resources.num_cpus == 0.5


@pytest.mark.parametrize("kind", ["teacher", "judge"])
def test_a_teachers_steps_are_short_on_a_gpu_and_its_numbers_exact_on_a_cpu(kind: str) -> None:
    own = {"teacher": True} if kind == "judge" else {}
    on_cpu, on_gpu = (
        vars(AppConfig.parse(models({"name": "t", "kind": kind, **own, **resources})).models[0])
        for resources in ({}, {"resources": {"num_gpus": 1}})
    )
    assert (on_cpu["engine"].engine_kwargs, on_cpu["engine"].max_num_batched_tokens) == (
        {"max_logprobs": 256},
        None,
    )
    assert on_cpu["engine"].dtype == "float32"
    assert (on_gpu["engine"].dtype, on_gpu["engine"].max_num_batched_tokens) == ("auto", 2048)


@pytest.mark.parametrize(("device", "size", "asked", "resolved"), rows(__file__, "devices"))
def test_the_device_and_its_gpus_must_not_contradict_each_other(
    device: str, size: int, asked: float | None, resolved: list[Any] | str
) -> None:
    engine = {"device": device, "tensor_parallel_size": size}
    fields: dict[str, Any] = {"engine": engine, "resources": {"num_gpus": asked}}
    if isinstance(resolved, str):
        assert fault(args(**fields)) == (
            f"models.0: resources.num_gpus: {asked:g} contradicts engine.device: {device} with "
            f"engine.tensor_parallel_size: {size}; remove it or {resolved}"
        )
    else:
        model = judge(**fields)
        assert (model.engine.device, model.resources.num_gpus) == tuple(resolved)
        assert model.resources.num_cpus == (1.0 if resolved[0] == "cuda" else 2.0)


@pytest.mark.parametrize(("config", "start", "remedy"), rows(__file__, "errors"))
def test_an_error_names_the_field_what_was_found_and_what_would_be_right(
    config: dict[str, Any], start: str, remedy: str
) -> None:
    text = fault(config)
    assert text.startswith(start)
    assert remedy in text


def test_a_key_in_the_file_itself_is_refused_and_not_repeated() -> None:
    text = fault(server(api_keys={"trainer": "s3cret-0123456789"}))
    assert "server.api_keys: unknown field; did you mean 'api_keys_" in text
    assert "s3cret" not in text


@pytest.mark.parametrize("model", rows(__file__, "read_back"))
def test_a_parsed_model_reads_back_as_itself_in_the_replica(model: dict[str, Any]) -> None:
    others = combined("cascade", "first", "second")["models"][:2]
    parsed = AppConfig.parse(models(*others, model)).models[2]
    adapter: TypeAdapter[ModelConfig] = TypeAdapter(ModelConfig)
    assert adapter.validate_python(parsed.model_dump(mode="json")) == parsed


def test_the_defaults_of_models_that_combine_others() -> None:
    length = {"model": "length", "weight": -1}  # a member without a model
    config = combined("composite", "first", "second", length, aggregate="sum")
    config["models"] += [
        {"name": "vote", "kind": "composite", "composite": {"members": ["first", "second"]}},
        {"name": "cascade", "kind": "cascade", "cascade": {"members": ["first", "second"]}},
    ]
    rule, _, total, vote, cascade = AppConfig.parse(config).models
    assert isinstance(rule, RuleModel)
    assert isinstance(total, CompositeModel)
    assert isinstance(vote, CompositeModel)
    assert isinstance(cascade, CascadeModel)
    assert (vote.resources.num_cpus, vote.resources.num_gpus) == (0.5, 0)
    assert vote.composite.quorum == 2
    assert total.composite.quorum == 3, "a sum needs every member"
    assert cascade.cascade.unsure == (0.2, 0.8)


def test_a_rubrics_defaults_are_its_own() -> None:
    engine, endpoint = AppConfig.parse(
        models({"name": "r", "kind": "rubric"}, {**REMOTE, "rubric": {}})
    ).models
    assert isinstance(engine, RubricModel)
    assert isinstance(endpoint, RubricModel)
    assert (engine.judge.template, engine.judge.mode) == ("rubric", "label")
    assert (endpoint.judge.template, endpoint.judge.mode) == ("rubric", "generate")
    assert engine.max_concurrent_items == engine.engine.max_num_seqs // 4


@pytest.mark.parametrize(("checkpoints", "aliases", "expected"), rows(__file__, "checkpoints"))
def test_a_checkpoint_names_the_only_model_that_serves_it(
    checkpoints: list[str], aliases: dict[str, str], expected: dict[str, str]
) -> None:
    judges = [
        {"name": f"m{n}", "kind": "judge", "engine": {"model": checkpoint}}
        for n, checkpoint in enumerate(checkpoints)
    ]
    config = AppConfig.parse(models(*judges, REMOTE, server={"aliases": aliases}))
    assert config.server.aliases == {**expected, "gpt": "e"}


def test_members_of_kinds_that_read_no_rubric_get_none() -> None:
    members: list[Any] = [
        *("rubric", "rule", "own", "endpoint", "criteria", "dull", "keen", "length"),
        {"model": "judge", "application": "other"},
        {"model": "plain", "application": "other", "rubric": False},
    ]
    config = models(
        {"name": "all", "kind": "composite", "composite": {"members": members}},
        {"name": "plain", "kind": "composite", "composite": {"members": ["rule", "length"]}},
        {"name": "rubric", "kind": "rubric"},
        {"name": "rule", "kind": "rule"},
        {"name": "own", "kind": "rule", "rule": {"verifier": "function", "function": "a:b"}},
        {**REMOTE, "name": "endpoint"},
        {**REMOTE, "name": "criteria", "rubric": {}},
        {"name": "dull", "kind": "cascade", "cascade": {"members": ["rule", "endpoint"]}},
        {"name": "keen", "kind": "cascade", "cascade": {"members": ["rule", "rubric"]}},
    )
    everything, *others = AppConfig.parse(config).models
    assert isinstance(everything, CompositeModel)
    assert [member.rubric for member in everything.composite.members] == [
        *(True, False, True, False, True, False, True, False),
        None,
        False,
    ]
    readers = [model.name for model in (everything, *others) if model.reads_rubric]
    assert readers == ["all", "rubric", "own", "criteria", "keen"]


GATEWAY: dict[str, Any] = models(
    {"name": "judge", "application": "a"}, {"name": "rule", "application": "b"}
)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (models(*GATEWAY["models"], GATEWAY["models"][0]), "two models are named 'judge'"),
        (models({"name": "judge"}), "models.0.application: is missing; add 'application: ...' to"),
        ({"server": {"aliases": {"x": "y"}}}, "no model is named 'y'"),
    ],
)
def test_a_gateway_that_leads_nowhere_is_refused(change: dict[str, Any], message: str) -> None:
    GatewayConfig.parse(GATEWAY)
    assert message in fault({**GATEWAY, **change}, GatewayConfig)
