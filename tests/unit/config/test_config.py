from __future__ import annotations

import math
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from reward_serve.config.app import AppConfig, GatewayConfig
from reward_serve.config.base import ConfigError
from reward_serve.config.engine import EngineConfig
from reward_serve.config.models import (
    CascadeModel,
    CompositeModel,
    JudgeModel,
    ModelConfig,
    RemoteModel,
    RubricModel,
    RuleModel,
    reads_rubric,
)


def args(**fields: Any) -> dict[str, Any]:
    return {"models": [{"name": "judge", "kind": "judge", **fields}]}


def rule(**fields: Any) -> dict[str, Any]:
    return {"models": [{"name": "r", "kind": "rule", "rule": fields}]}


def judge(**fields: Any) -> JudgeModel:
    model = AppConfig.parse(args(**fields)).models[0]
    assert isinstance(model, JudgeModel)
    return model


def fault(config: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        AppConfig.parse(config)
    text = str(caught.value)
    assert text.startswith("args: ")
    assert "\n" not in text
    return text.removeprefix("args: ")


def test_a_judge_needs_only_a_name_and_a_kind() -> None:
    config = AppConfig.parse(args())
    model = config.models[0]
    assert isinstance(model, JudgeModel)
    assert (model.engine.model, model.engine.device) == ("bundled", "cpu")
    assert (model.resources.num_cpus, model.resources.num_gpus) == (2.0, 0.0)
    assert model.engine.trust_remote_code is False
    assert model.engine.enable_prefix_caching is True
    assert model.engine.engine_kwargs == {}
    assert (model.judge.template, model.judge.mode) == ("final_answer", "label")
    assert model.judge.rules_first is None
    assert (model.autoscaling.min_replicas, model.autoscaling.max_replicas) == (1, 1)
    assert model.max_concurrent_items == 2 * model.engine.max_num_seqs
    assert config.server.max_batch_items == 1024


def test_a_rule_needs_only_a_name_and_a_kind() -> None:
    model = AppConfig.parse({"models": [{"name": "rule", "kind": "rule"}]}).models[0]
    assert isinstance(model, RuleModel)
    assert (model.resources.num_cpus, model.resources.num_gpus) == (1.0, 0.0)
    assert model.max_concurrent_items == 64


def test_what_is_set_is_kept() -> None:
    model = judge(
        max_concurrent_items=7, resources={"num_cpus": 0.5}, engine={"trust_remote_code": True}
    )
    assert model.max_concurrent_items == 7
    assert model.resources.num_cpus == 0.5
    assert model.engine.trust_remote_code is True


@pytest.mark.parametrize(
    ("engine", "num_gpus", "expected"),
    [
        pytest.param({}, None, ("cpu", 0.0), id="auto without a gpu"),
        pytest.param({}, 0, ("cpu", 0.0), id="auto with no gpu"),
        pytest.param({}, 1, ("cuda", 1.0), id="auto with a gpu"),
        pytest.param({}, 0.1, ("cuda", 0.1), id="auto with a share"),
        pytest.param({"device": "cpu"}, None, ("cpu", 0.0), id="cpu"),
        pytest.param({"device": "cpu"}, 0, ("cpu", 0.0), id="cpu with no gpu"),
        pytest.param({"device": "cuda"}, None, ("cuda", 1.0), id="cuda"),
        pytest.param({"device": "cuda"}, 0.5, ("cuda", 0.5), id="cuda with a share"),
        pytest.param({"tensor_parallel_size": 2}, None, ("cuda", 2.0), id="auto on two"),
        pytest.param({"tensor_parallel_size": 2}, 2, ("cuda", 2.0), id="auto on two, said"),
        pytest.param(
            {"device": "cuda", "tensor_parallel_size": 4}, None, ("cuda", 4.0), id="cuda on four"
        ),
    ],
)
def test_the_device_and_its_gpus(
    engine: dict[str, Any], num_gpus: float | None, expected: tuple[str, float]
) -> None:
    model = judge(engine=engine, resources={"num_gpus": num_gpus})
    assert (model.engine.device, model.resources.num_gpus) == expected


@pytest.mark.parametrize(("device", "num_cpus"), [("cpu", 2.0), ("cuda", 1.0)])
def test_an_engine_on_the_cpu_takes_more_cores(device: str, num_cpus: float) -> None:
    assert judge(engine={"device": device}).resources.num_cpus == num_cpus


@pytest.mark.parametrize(
    ("engine", "num_gpus", "parts"),
    [
        pytest.param(
            {"device": "cpu"},
            1,
            ["resources.num_gpus: 1 ", "engine.device: cpu", "remove one"],
            id="cpu with a gpu",
        ),
        pytest.param(
            {"device": "cpu", "tensor_parallel_size": 2},
            None,
            ["engine.tensor_parallel_size: 2 ", "engine.device: cpu", "set device: cuda"],
            id="cpu on two",
        ),
        pytest.param(
            {"device": "cuda"},
            0,
            ["resources.num_gpus: 0 ", "engine.device: cuda", "remove resources.num_gpus"],
            id="cuda with none",
        ),
        pytest.param(
            {"tensor_parallel_size": 2},
            1,
            ["resources.num_gpus: 1 ", "tensor_parallel_size: 2", "set 2"],
            id="one for two",
        ),
        pytest.param(
            {"tensor_parallel_size": 2},
            0.5,
            ["resources.num_gpus: 0.5 ", "tensor_parallel_size: 2", "set 2"],
            id="a share for two",
        ),
        pytest.param(
            {"tensor_parallel_size": 2},
            0,
            ["resources.num_gpus: 0 ", "tensor_parallel_size: 2", "set 2"],
            id="none for two",
        ),
        pytest.param(
            {}, 2, ["resources.num_gpus: 2 ", "tensor_parallel_size: 1", "set 1"], id="two for one"
        ),
        pytest.param({}, 1.5, ["resources.num_gpus: 1.5 ", "set 1"], id="one and a share for one"),
    ],
)
def test_gpus_that_contradict_the_engine_are_refused(
    engine: dict[str, Any], num_gpus: float | None, parts: list[str]
) -> None:
    text = fault(args(engine=engine, resources={"num_gpus": num_gpus}))
    assert text.startswith("models.0: ")
    assert [part for part in parts if part not in text] == []


def test_a_rule_takes_no_gpu() -> None:
    text = fault({"models": [{"name": "r", "kind": "rule", "resources": {"num_gpus": 1}}]})
    assert "resources.num_gpus: a rule runs on a CPU; remove it" in text


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        pytest.param(
            args(engine={"tensor_paralel_size": 2}),
            "models.0.engine.tensor_paralel_size: unknown field; "
            "did you mean 'tensor_parallel_size'?",
            id="engine",
        ),
        pytest.param(
            args(resources={"num_gpu": 2}),
            "models.0.resources.num_gpu: unknown field; did you mean 'num_gpus'?",
            id="resources",
        ),
        pytest.param(
            args(autoscalling={}),
            "models.0.autoscalling: unknown field of kind: judge; did you mean 'autoscaling'?",
            id="model",
        ),
        pytest.param(
            {**args(), "sever": {}}, "sever: unknown field; did you mean 'server'?", id="top"
        ),
        pytest.param(
            {**args(), "zzqq": 1},
            "zzqq: unknown field; choose from models, server",
            id="like nothing",
        ),
    ],
)
def test_an_unknown_field_is_reported_with_the_nearest_one(
    config: dict[str, Any], expected: str
) -> None:
    assert fault(config) == expected


@pytest.mark.parametrize(
    ("config", "parts"),
    [
        pytest.param({}, ["models: "], id="nothing"),
        pytest.param({"models": []}, ["models: ", "found []"], id="no models"),
        pytest.param(
            {"models": {}},
            ["models: must be a list ", "(found a mapping)", "start each entry with '- '"],
            id="models as a mapping",
        ),
        pytest.param({"models": [{"kind": "judge"}]}, ["models.0.name: "], id="no name"),
        pytest.param(
            {"models": [{"name": "a"}]},
            [
                "models.0.kind: ",
                "'judge', 'rubric', 'classifier', 'remote', 'rule'",
                "found nothing",
            ],
            id="no kind",
        ),
        pytest.param(
            {"models": [{"name": "a", "judge": {}, "engine": {}, "unknown": 1}]},
            ["models.0.kind: must be one of 'judge', 'rubric' (found nothing)"],
            id="no kind, and sections of two",
        ),
        pytest.param(
            {"models": [{"name": "a", "rule": {}, "engine": {}, "kind": None}]},
            ["models.0.kind: ", "'judge', 'rubric', 'classifier', 'remote', 'rule'"],
            id="no kind, and sections of no kind",
        ),
        pytest.param(
            {"models": [{"name": "a", "kind": "jugde"}]},
            [
                "models.0.kind: ",
                "'judge', 'rubric', 'classifier', 'remote', 'rule'",
                "found 'jugde'",
            ],
            id="unknown kind",
        ),
        pytest.param(
            {"models": ["judge"]},
            ["models.0: must be a mapping (found 'judge')", "'field: value'"],
            id="text for a model",
        ),
        pytest.param(
            {"models": [{"name": "a b", "kind": "rule"}]},
            ["models.0.name: ", "A-Za-z0-9", "found 'a b'"],
            id="name with a space",
        ),
        pytest.param(
            {"models": [{"name": "judge\n", "kind": "rule"}]},
            ["models.0.name: ", r"found 'judge\n'"],
            id="name with a line's end",
        ),
        pytest.param(
            {"models": [{"name": "ingress", "kind": "rule"}]},
            ["models.0: name: 'ingress'", "choose another"],
            id="the ingress's name",
        ),
        pytest.param(
            args(engine={"max_num_seqs": 0}),
            ["models.0.engine.max_num_seqs: ", "greater than or equal to 1", "found 0"],
            id="no sequences",
        ),
        pytest.param(
            args(engine={"tensor_parallel_size": 1.5}),
            ["models.0.engine.tensor_parallel_size: ", "found 1.5"],
            id="one and a half",
        ),
        pytest.param(
            args(engine={"device": "gpu"}),
            ["models.0.engine.device: ", "'auto', 'cpu' or 'cuda'", "found 'gpu'"],
            id="device",
        ),
        pytest.param(
            args(engine={"dtype": "int4"}), ["models.0.engine.dtype: ", "found 'int4'"], id="dtype"
        ),
        pytest.param(
            args(engine={"dtype": "int8", "model": "/models/judge"}),
            ["models.0.engine: dtype: int8 is for model: bundled", "/models/judge", "dtype: auto"],
            id="int8 of another model",
        ),
        pytest.param(
            args(engine={"dtype": "int8", "device": "cuda"}),
            ["models.0: engine.dtype: int8 is for CPUs", "write dtype: auto"],
            id="int8 on a GPU",
        ),
        pytest.param(
            args(engine={"dtype": "int8"}, resources={"num_gpus": 0.1}),
            ["models.0: engine.dtype: int8 is for CPUs", "write dtype: auto"],
            id="int8 on a share of a GPU",
        ),
        pytest.param(
            args(engine={"gpu_memory_utilization": 1.1}),
            ["models.0.engine.gpu_memory_utilization: ", "less than or equal to 1", "found 1.1"],
            id="memory",
        ),
        pytest.param(
            args(engine={"stall_timeout_s": math.inf}),
            ["models.0.engine.stall_timeout_s: ", "finite", "found inf"],
            id="endless",
        ),
        pytest.param(
            args(engine=None),
            ["models.0.engine: must be a mapping ", "(found nothing)", "indented below it"],
            id="an engine without fields",
        ),
        pytest.param(
            args(judge=[{"mode": "label"}]),
            ["models.0.judge: must be a mapping ", "(found a list)", "without '- '"],
            id="a list of a section's fields",
        ),
        pytest.param(
            {**args(), "server": {"compatible_with": "openai"}},
            ["server.compatible_with: must be a list ", "found 'openai'", "'- '"],
            id="text for a list",
        ),
        pytest.param(
            args(engine={"engine_kwargs": ["enforce_eager"]}),
            ["models.0.engine.engine_kwargs: must be a mapping ", "(found a list)"],
            id="a list for a mapping of any fields",
        ),
        pytest.param(
            args(judge={"mode": "essay"}),
            ["models.0.judge.mode: ", "'label' or 'generate'", "found 'essay'"],
            id="mode",
        ),
        pytest.param(
            args(judge={"allowed_options": ["mode", "seed"]}),
            ["models.0.judge.allowed_options.1: ", "found 'seed'"],
            id="allowed option",
        ),
        pytest.param(
            args(resources={"num_cpus": 0}),
            ["models.0.resources.num_cpus: ", "greater than 0", "found 0"],
            id="no cpu",
        ),
        pytest.param(
            args(resources={"num_gpus": -1}),
            ["models.0.resources.num_gpus: ", "greater than or equal to 0", "found -1"],
            id="negative gpus",
        ),
        pytest.param(
            args(autoscaling={"min_replicas": 3}),
            ["models.0.autoscaling: max_replicas: 1 ", "min_replicas 3", "raise it"],
            id="bounds",
        ),
        pytest.param(
            args(autoscaling={"max_replicas": 2, "initial_replicas": 3}),
            ["models.0.autoscaling: initial_replicas: 3 ", "1..2", "choose a number in this range"],
            id="initial above",
        ),
        pytest.param(
            args(autoscaling={"max_replicas": 2, "initial_replicas": 0}),
            ["models.0.autoscaling: initial_replicas: 0 ", "1..2"],
            id="initial below",
        ),
        pytest.param(
            args(autoscaling={"min_replicas": 0, "max_replicas": 0}),
            ["models.0.autoscaling.max_replicas: ", "found 0"],
            id="never a replica",
        ),
        pytest.param(
            args(autoscaling={"look_back_period_s": math.nan}),
            ["models.0.autoscaling.look_back_period_s: ", "found nan"],
            id="not a number",
        ),
        pytest.param(
            {**args(), "server": {"max_batch_items": 0}},
            ["server.max_batch_items: ", "found 0"],
            id="server",
        ),
        pytest.param(
            rule(verifier="maths"),
            ["models.0.rule.verifier: ", "'gsm8k', ", "'math', ", "found 'maths'"],
            id="verifier",
        ),
        pytest.param(
            rule(verifier="regex"),
            [
                "models.0.rule: pattern: is missing",
                "verifier: regex needs it",
                "set it to a regular",
            ],
            id="regex without a pattern",
        ),
        pytest.param(
            rule(pattern="x"),
            ["models.0.rule: pattern: ", "not 'gsm8k'", "remove it, or set verifier: regex"],
            id="a pattern without regex",
        ),
        pytest.param(
            rule(verifier="regex", pattern="("),
            ["models.0.rule: pattern: '('", "is not a regular expression"],
            id="pattern",
        ),
        pytest.param(
            rule(verifier="function"),
            ["models.0.rule: function: is missing", "set it to package.module:name"],
            id="function without a path",
        ),
        pytest.param(
            rule(verifier="function", function="mine/rewards.py"),
            ["models.0.rule: function: 'mine/rewards.py'", "package.module:name"],
            id="a file for a function",
        ),
    ],
)
def test_an_error_names_the_field_what_was_found_and_what_would_be_right(
    config: dict[str, Any], parts: list[str]
) -> None:
    text = fault(config)
    assert text.startswith(parts[0])
    assert [part for part in parts if part not in text] == []


def test_all_faults_are_reported_together() -> None:
    text = fault(args(engine={"max_num_seqs": 0}, judge={"mode": "essay"}))
    assert "models.0.engine.max_num_seqs: " in text
    assert "; models.0.judge.mode: " in text


def test_the_invalid_one_of_several_models_is_named() -> None:
    models = [{"name": "a", "kind": "rule"}, {"name": "b", "kind": "rule", "rule": {"x": 1}}]
    assert fault({"models": models}).startswith("models.1.rule.x: ")


def test_a_name_is_given_once() -> None:
    model = {"name": "judge", "kind": "rule"}
    assert "models: two models are named 'judge'; rename one" in fault(
        {"models": [model, {"name": "other", "kind": "rule"}, model]}
    )


@pytest.mark.parametrize("autoscaling", [{"min_replicas": 0, "initial_replicas": 0}, {}])
def test_bounds_that_fit_are_accepted(autoscaling: dict[str, Any]) -> None:
    assert judge(autoscaling={"max_replicas": 8, **autoscaling}).autoscaling.max_replicas == 8


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(args(resources={"num_cpus": math.inf}), id="num_cpus"),
        pytest.param(args(engine={"cpu_kv_cache_gib": math.inf}), id="cpu_kv_cache_gib"),
        pytest.param(args(autoscaling={"target_items": math.inf}), id="target_items"),
        pytest.param(args(autoscaling={"upscale_delay_s": math.inf}), id="upscale_delay_s"),
    ],
)
def test_no_number_is_infinite(config: dict[str, Any]) -> None:
    assert "finite" in fault(config)


@pytest.mark.parametrize(
    ("kwargs", "expected"),
    [
        pytest.param(
            {"max_model_len": 4096},
            "engine_kwargs.max_model_len: has its own field; set engine.max_model_len instead",
            id="own field",
        ),
        pytest.param(
            {"trust_remote_code": True},
            "engine_kwargs.trust_remote_code: has its own field; "
            "set engine.trust_remote_code instead",
            id="trust by the back door",
        ),
        *(
            pytest.param(
                {name: True},
                f"engine_kwargs.{name}: a reward model is frozen while it serves; remove it",
                id=name,
            )
            for name in (
                "enable_lora",
                "enable_sleep_mode",
                "weight_transfer_config",
                "worker_extension_cls",
            )
        ),
        *(
            pytest.param(
                {name: 2},
                f"engine_kwargs.{name}: uses GPUs that the replica does not request; use more "
                "replicas or engine.tensor_parallel_size",
                id=name,
            )
            for name in ("data_parallel_size", "pipeline_parallel_size")
        ),
    ],
)
def test_an_engine_argument_that_cannot_be_passed_on_is_refused(
    kwargs: dict[str, Any], expected: str
) -> None:
    assert fault(args(engine={"engine_kwargs": kwargs})) == f"models.0.engine: {expected}"


def test_engine_arguments_of_vllms_own_are_passed_on() -> None:
    kwargs = {"enforce_eager": True, "max_logprobs": 40}
    assert judge(engine={"engine_kwargs": kwargs}).engine.engine_kwargs == kwargs


@pytest.mark.parametrize(
    "model",
    [
        {"name": "a", "kind": "rule"},
        {"name": "a", "kind": "judge"},
        {"name": "a", "kind": "judge", "resources": {"num_gpus": 0.25}},
        {"name": "a", "kind": "judge", "engine": {"tensor_parallel_size": 2}},
        {"name": "a", "kind": "judge", "engine": {"device": "cuda"}},
    ],
    ids=["rule", "cpu", "share", "two gpus", "gpu"],
)
def test_a_parsed_model_reads_back_as_itself_in_the_replica(model: dict[str, Any]) -> None:
    parsed = AppConfig.parse({"models": [model]}).models[0]
    adapter: TypeAdapter[ModelConfig] = TypeAdapter(ModelConfig)
    assert adapter.validate_python(parsed.model_dump(mode="json")) == parsed


def test_an_adapter_is_for_the_bundled_model_only() -> None:
    assert EngineConfig(adapter="/mine").adapter == "/mine"
    with pytest.raises(
        ValidationError, match="adapter: '/mine' can only be merged into model: bundled"
    ):
        EngineConfig(model="Qwen/Qwen2.5-1.5B-Instruct", adapter="/mine")


def test_a_limit_per_key_needs_keys() -> None:
    text = fault({**args(), "server": {"max_concurrent_items_per_key": 8}})
    assert text.startswith("server: max_concurrent_items_per_key: needs API keys; set ")
    server = {"max_concurrent_items_per_key": 8, "api_keys_env": "KEYS"}
    assert AppConfig.parse({**args(), "server": server}).server.max_concurrent_items_per_key == 8


def test_a_key_in_the_file_itself_is_refused_and_not_repeated() -> None:
    text = fault({**args(), "server": {"api_keys": {"trainer": "s3cret-0123456789"}}})
    assert "server.api_keys: unknown field; did you mean 'api_keys_" in text
    assert "s3cret" not in text


@pytest.mark.parametrize(
    ("judge", "said"),
    [
        pytest.param({"template_data": {}}, "template_data: only for a template file", id="data"),
        pytest.param(
            {"thinking_tokens": 512}, "leaves no room for a verdict in max_tokens: 512", id="budget"
        ),
        pytest.param({"thinking_tokens": 9}, "engine_kwargs.reasoning_parser", id="no parser"),
    ],
)
def test_a_judge_with_contradictory_settings_is_refused(judge: dict[str, Any], said: str) -> None:
    text = fault(args(judge=judge))
    assert text.startswith("models.0")
    assert said in text


def composite(members: list[Any], **settings: Any) -> dict[str, Any]:
    rules = [{"name": name, "kind": "rule"} for name in ("first", "second")]
    section = {"members": members, **settings}
    return {"models": [*rules, {"name": "both", "kind": "composite", "composite": section}]}


def test_a_composites_members_are_names_or_names_with_settings() -> None:
    members = ["first", {"model": "judge", "application": "other", "weight": 2}]
    model = AppConfig.parse(composite(members)).models[2]
    assert isinstance(model, CompositeModel)
    assert [member.model for member in model.composite.members] == ["first", "judge"]
    assert (model.composite.quorum, model.resources.num_cpus, model.resources.num_gpus) == (
        2,
        0.5,
        0,
    )
    adapter: TypeAdapter[ModelConfig] = TypeAdapter(ModelConfig)
    assert adapter.validate_python(model.model_dump(mode="json")) == model


@pytest.mark.parametrize(
    ("members", "settings", "said"),
    [
        (["first"], {}, "composite.members"),
        (["first", "first"], {}, "'first' is listed twice; set a weight"),
        (
            ["first", "third"],
            {},
            "has the member 'third', but the application's other models are: first, second",
        ),
        (
            ["first", "both"],
            {},
            "has the member 'both', but the application's other models are: first, second",
        ),
        (["first", "second"], {"quorum": 3}, "quorum: 3 is above the number of members, 2"),
        (["first", "second"], {"aggregate": "max"}, "'vote', 'mean' or 'sum'"),
        (["first", {"model": "second", "wieght": 2}], {}, "wieght: unknown field"),
        (["first", {"model": "second", "weight": -1}], {}, "must be above 0 unless aggregate: sum"),
        (["first", {"model": "second", "weight": 0}], {"aggregate": "sum"}, "above 0, or below 0"),
        (["first", {"model": "second", "clip": [1, 0]}], {}, "clip: [1.0, 0.0] is empty"),
        (
            ["first", {"model": "second", "gate": {"member": "third", "below": 1}}],
            {},
            "the gate of 'second' names 'third'; choose from first, second",
        ),
        (
            ["first", {"model": "second", "gate": {"member": "second", "below": 1}}],
            {},
            "gate.member: 'second' is this member itself",
        ),
    ],
)
def test_a_composite_that_cannot_score_is_refused(
    members: list[Any], settings: dict[str, Any], said: str
) -> None:
    assert said in fault(composite(members, **settings))


def test_length_is_a_member_without_a_model() -> None:
    config = AppConfig.parse(
        composite(["first", {"model": "length", "weight": -1}], aggregate="sum")
    )
    model = config.models[2]
    assert isinstance(model, CompositeModel)
    assert model.composite.quorum == 2, "a sum needs every member"

    taken = composite(["first", "length"])
    taken["models"].append({"name": "length", "kind": "rule"})
    assert "name: 'length' names a built-in member of composites; choose another" in fault(taken)


def test_a_rubrics_defaults_are_its_own() -> None:
    criteria = [{"name": "brief", "text": "It is brief."}]
    of_engine = {"name": "r", "kind": "rubric", "rubric": {"rubrics": {"style": criteria}}}
    remote = {"name": "e", "kind": "remote", "remote": {"model": "gpt"}, "rubric": {}}
    engine, endpoint = AppConfig.parse({"models": [of_engine, remote]}).models
    assert isinstance(engine, RubricModel)
    assert isinstance(endpoint, RemoteModel)
    assert (engine.judge.template, engine.judge.mode) == ("rubric", "label")
    assert (endpoint.judge.template, endpoint.judge.mode) == ("rubric", "generate")
    assert engine.max_concurrent_items == engine.engine.max_num_seqs // 4
    adapter: TypeAdapter[ModelConfig] = TypeAdapter(ModelConfig)
    for model in (engine, endpoint):
        assert adapter.validate_python(model.model_dump(mode="json")) == model


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"rubric": {"default": "style"}}, "default: no rubric is named 'style'"),
        (
            {"rubric": {"min_answered": 2}},
            "min_answered: 2 is not a share of the criteria; set 1.0",
        ),
        (
            {"rubric": {"rubrics": {"s": [{"name": "a"}]}}},
            "rubrics.s.0.text: is missing; add 'text: ...' to models.0.rubric.rubrics.s.0",
        ),
        (
            {"kind": "remote", "remote": {"model": "x"}, "rubric": {}, "judge": {"mode": "label"}},
            "judge.mode: an endpoint answers all criteria in one text; set generate",
        ),
    ],
)
def test_a_rubric_that_cannot_score_is_refused(fields: dict[str, Any], said: str) -> None:
    assert said in fault({"models": [{"name": "r", "kind": "rubric", **fields}]})


def cascade(members: list[Any], **settings: Any) -> dict[str, Any]:
    rules = [{"name": name, "kind": "rule"} for name in ("first", "second")]
    section = {"members": members, **settings}
    return {"models": [*rules, {"name": "both", "kind": "cascade", "cascade": section}]}


def test_a_cascades_members_are_names_or_names_with_settings() -> None:
    members = ["first", {"model": "judge", "application": "other", "template": "solution"}]
    model = AppConfig.parse(cascade(members, unsure=[0.1, 0.9])).models[2]
    assert isinstance(model, CascadeModel)
    assert model.cascade.unsure == (0.1, 0.9)
    assert (model.resources.num_cpus, model.resources.num_gpus) == (0.5, 0)
    adapter: TypeAdapter[ModelConfig] = TypeAdapter(ModelConfig)
    assert adapter.validate_python(model.model_dump(mode="json")) == model


@pytest.mark.parametrize(
    ("members", "settings", "said"),
    [
        (["first"], {}, "cascade.members"),
        (["first", "first"], {}, "'first' is listed twice; remove one"),
        (["first", "third"], {}, "has the member 'third', but the application's other models are"),
        (["first", "both"], {}, "has the member 'both'"),
        (["first", {"model": "second", "weight": 2}], {}, "'second' has weight, which a cascade"),
        (["first", "second"], {"unsure": [0.8, 0.2]}, "unsure: [0.8, 0.2] is empty"),
    ],
)
def test_a_cascade_that_cannot_ask_is_refused(
    members: list[Any], settings: dict[str, Any], said: str
) -> None:
    assert said in fault(cascade(members, **settings))


@pytest.mark.parametrize(
    ("aliases", "said"),
    [
        ({"gpt": "jugde"}, "server.aliases.gpt: no model is named 'jugde'; choose from judge"),
        ({"judge": "judge"}, "server.aliases.judge: is the name of a model"),
    ],
)
def test_an_alias_must_name_an_existing_model(aliases: dict[str, str], said: str) -> None:
    assert said in fault({**args(), "server": {"aliases": aliases}})


@pytest.mark.parametrize(
    ("checkpoints", "aliases", "expected"),
    [
        (["Qwen/Qwen3-32B", "bundled"], {}, {"Qwen/Qwen3-32B": "m0"}),
        (["Qwen/Qwen3-32B"] * 2, {}, {}),
        (["Qwen/Qwen3-32B"] * 2, {"Qwen/Qwen3-32B": "m1"}, {"Qwen/Qwen3-32B": "m1"}),
        (["/models/qwen", "./models/qwen"], {}, {}),
    ],
)
def test_a_checkpoint_names_the_only_model_that_serves_it(
    checkpoints: list[str], aliases: dict[str, str], expected: dict[str, str]
) -> None:
    models = [
        {"name": f"m{n}", "kind": "judge", "engine": {"model": checkpoint}}
        for n, checkpoint in enumerate(checkpoints)
    ]
    config = AppConfig.parse({"models": models, "server": {"aliases": aliases}})
    assert config.server.aliases == expected


def test_an_endpoints_model_is_found_by_its_own_name() -> None:
    model = {"name": "hosted", "kind": "remote", "remote": {"model": "gpt-4o-mini"}}
    assert AppConfig.parse({"models": [model]}).server.aliases == {"gpt-4o-mini": "hosted"}


def test_a_service_that_is_not_known_cannot_be_compatible_with() -> None:
    assert "'slime'" in fault({**args(), "server": {"compatible_with": ["slimy"]}})


GATEWAY: dict[str, Any] = {
    "models": [{"name": "judge", "application": "a"}, {"name": "rule", "application": "b"}]
}


def test_a_gateway_names_models_and_their_applications() -> None:
    config = GatewayConfig.parse(GATEWAY)
    assert {model.name: model.application for model in config.models} == {"judge": "a", "rule": "b"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"models": []}, "models"),
        ({"models": [*GATEWAY["models"], GATEWAY["models"][0]]}, "two models are named 'judge'"),
        (
            {"models": [{"name": "judge"}]},
            "models.0.application: is missing; add 'application: ...' to models.0",
        ),
        ({"models": [{"name": "judge", "app": "a"}]}, "models.0.app: unknown field"),
        ({"server": {"aliases": {"x": "y"}}}, "no model is named 'y'"),
        ({"modles": []}, "modles: unknown field; did you mean 'models'"),
    ],
)
def test_a_gateway_that_leads_nowhere_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match="args: ") as refusal:
        GatewayConfig.parse({**GATEWAY, **change})
    assert said in str(refusal.value)


def test_members_of_kinds_that_read_no_rubric_get_none() -> None:
    own = {"name": "own", "kind": "rule", "rule": {"verifier": "function", "function": "a:b"}}
    endpoint = {"name": "endpoint", "kind": "remote", "remote": {"model": "gpt"}}
    models = [
        {"name": "rubric", "kind": "rubric"},
        {"name": "rule", "kind": "rule"},
        own,
        endpoint,
        {**endpoint, "name": "criteria", "rubric": {}},
        {"name": "dull", "kind": "cascade", "cascade": {"members": ["rule", "endpoint"]}},
        {"name": "keen", "kind": "cascade", "cascade": {"members": ["rule", "rubric"]}},
    ]
    members: list[Any] = [
        *("rubric", "rule", "own", "endpoint", "criteria", "dull", "keen", "length"),
        {"model": "judge", "application": "other"},
        {"model": "plain", "application": "other", "rubric": False},
    ]
    both = {"name": "all", "kind": "composite", "composite": {"members": members}}
    plain = {"name": "plain", "kind": "composite", "composite": {"members": ["rule", "length"]}}
    parsed = {
        model.name: model for model in AppConfig.parse({"models": [both, plain, *models]}).models
    }
    everything = parsed["all"]
    assert isinstance(everything, CompositeModel)
    assert [member.rubric for member in everything.composite.members] == [
        *(True, False, True, False, True, False, True, False),
        None,
        False,
    ]
    assert [name for name, model in parsed.items() if reads_rubric(model)] == [
        *("all", "rubric", "own", "criteria", "keen"),
    ]
