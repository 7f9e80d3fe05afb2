from __future__ import annotations

import math
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


@pytest.mark.parametrize(
    ("device", "size", "asked", "resolved"),
    [
        ("auto", 1, None, ("cpu", 0.0)),
        ("auto", 1, 0, ("cpu", 0.0)),
        ("auto", 1, 1, ("cuda", 1.0)),
        ("auto", 1, 0.1, ("cuda", 0.1)),
        ("cpu", 1, 0, ("cpu", 0.0)),
        ("cuda", 1, None, ("cuda", 1.0)),
        ("cuda", 1, 0.5, ("cuda", 0.5)),
        ("auto", 2, None, ("cuda", 2.0)),
        ("auto", 2, 2, ("cuda", 2.0)),
        ("cuda", 4, None, ("cuda", 4.0)),
        ("cpu", 1, 1, "set 0"),
        ("cuda", 1, 0, "set 1"),
        ("auto", 1, 2, "set 1"),
        ("auto", 1, 1.5, "set 1"),
        ("auto", 2, 1, "set 2"),
        ("auto", 2, 0.5, "set 2"),
        ("auto", 2, 0, "set 2"),
    ],
)
def test_the_device_and_its_gpus_must_not_contradict_each_other(
    device: str, size: int, asked: float | None, resolved: tuple[str, float] | str
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
        assert (model.engine.device, model.resources.num_gpus) == resolved
        assert model.resources.num_cpus == (1.0 if resolved[0] == "cuda" else 2.0)


AFFINE = {"engine": {"model": "a/b"}, "classifier": {"scale": 2}}
SECOND = {"model": "second"}


@pytest.mark.parametrize(
    ("config", "start", "remedy"),
    [
        ({}, "models: is missing", ""),
        (models(), "models: ", "found []"),
        ({"models": {}}, "models: must be a list (found a mapping)", "start each entry with '- '"),
        (models({"kind": "judge"}), "models.0.name: is missing", "add 'name: ...' to models.0"),
        (models({"name": "a"}), "models.0.kind: must be one of 'judge', 'remote', 'r", "nothing"),
        (models({"name": "a", "kind": "jugde"}), "models.0.kind: must be one", "found 'jugde'"),
        (models("judge"), "models.0: must be a mapping (found 'judge')", "'field: value'"),
        (models({"name": "r\n", "kind": "rule"}), "models.0.name: ", r"found 'r\n'"),
        (models({"name": "ingress", "kind": "rule"}), "models.0: name: 'ingress'", "choose anoth"),
        (models({"name": "length", "kind": "rule"}), "models.0: name: 'length'", "choose another"),
        (models(*rule()["models"] * 2), "models: two models are named 'r'", "rename one"),
        (
            args(engine={"device": "cpu", "tensor_parallel_size": 2}),
            "models.0: engine.tensor_parallel_size: 2 needs GPUs",
            "set device: cuda",
        ),
        (args(engine={"device": "gpu"}), "models.0.engine.device: ", "'auto', 'cpu' or 'cuda'"),
        (
            args(engine={"dtype": "int8", "model": "/models/judge"}),
            "models.0.engine: dtype: int8 is for model: bundled, not '/models/judge'",
            "dtype: auto",
        ),
        (
            args(engine={"dtype": "int8"}, resources={"num_gpus": 0.1}),
            "models.0: engine.dtype: int8 is for CPUs",
            "write dtype: auto",
        ),
        (
            args(engine={"model": "a/b", "adapter": "/mine"}),
            "models.0.engine: adapter: '/mine' can only be merged into model: bundled",
            "serve the merged folder",
        ),
        (args(engine={"stall_timeout_s": math.inf}), "models.0.engine.stall_tim", "found inf"),
        (args(engine=None), "models.0.engine: must be a mapping (found nothing)", "indented below"),
        (
            args(engine={"engine_kwargs": {"trust_remote_code": True}}),
            "models.0.engine: engine_kwargs.trust_remote_code: has its own field",
            "set engine.trust_remote_code",
        ),
        *(
            (args(engine={"engine_kwargs": {name: True}}), f"models.0.engine: engine_k{end}", why)
            for name, end, why in (
                ("enable_lora", "wargs.enable_lora: ", "is frozen while it serves; remove it"),
                ("weight_transfer_config", "wargs.weight_transfer_config: ", "is frozen"),
                ("pipeline_parallel_size", "wargs.pipeline_p", "use more replicas or engine.t"),
            )
        ),
        (server(compatible_with="openai"), "server.compatible_with: must be a list ", "'openai'"),
        (args(resources={"num_cpus": 0}), "models.0.resources.num_cpus: ", "greater than 0"),
        (args(autoscaling={"min_replicas": 3}), "models.0.autoscaling: max_replicas: 1", "raise"),
        (
            args(engine={"max_num_seqs": 0}, judge={"mode": "essay"}),
            "models.0.engine.max_num_seqs: ",
            "(found 0); models.0.judge.mode: ",
        ),
        (
            args(judge={"thinking_tokens": 512}),
            "models.0.judge: thinking_tokens: 512 leaves no room",
            "raise max_tokens",
        ),
        (
            args(judge={"mode": "generate", "min_probability": 0.8}),
            "models.0.judge: min_probability: 0.8 has no effect in mode: generate",
            "set mode: label",
        ),
        (args(judge={"min_probability": 1}), "models.0.judge.min_probability: ", "less than 1"),
        (
            args(judge={"thinking_tokens": 9}),
            "models.0: judge.thinking_tokens: 9",
            "set engine.engine_kwargs.reasoning_parser",
        ),
        (
            args(judge={"mode": "generate", "max_tokens": 4096}),
            "models.0: judge.max_tokens: 4096 leaves no room",
            "raise engine.max_model_len",
        ),
        (rule(verifier="regex"), "models.0.rule: pattern: ", "(found verifier: regex)"),
        (rule(pattern="x"), "models.0.rule: pattern: verifier: regex needs it", "gsm8k)"),
        (rule(verifier="regex", pattern="("), "models.0.rule.pattern: ", "regular expression"),
        (rule(ordered=True), "models.0.rule: ordered: only verifier: tool_call", "remove it"),
        (
            rule(verifier="function", function="mine/rewards.py"),
            "models.0.rule: function: 'mine/rewards.py'",
            "package.module:name",
        ),
        (
            models({"name": "r", "kind": "rule", "resources": {"num_gpus": 1}}),
            "models.0: resources.num_gpus: a rule runs on a CPU",
            "remove it",
        ),
        (
            models({"name": "c", "kind": "classifier"}),
            "models.0: engine.model: the bundled model is a judge",
            "set a sequence-classification model",
        ),
        (
            models({"name": "c", "kind": "classifier", **AFFINE}),
            "models.0.classifier: scale, shift: not used",
            "set normalisation: affine",
        ),
        (
            server(max_concurrent_items_per_key=8),
            "server: max_concurrent_items_per_key: needs API keys",
            "set api_keys_file",
        ),
        (server(aliases={"gpt": "x"}), "server.aliases.gpt: no model is named 'x'", "from judge"),
        (server(aliases={"judge": "judge"}), "server.aliases.judge: is a model's name", "remove"),
        (combined("composite", "first"), "models.2.composite.members: ", "at least 2"),
        (combined("composite", "first", "first"), "models.2.composite.members: 'first'", "twice"),
        *(
            (combined(kind, "first", other), f"models: {kind} 'both' has the member", "first, sec")
            for kind, other in (
                ("composite", "third"),
                ("composite", "both"),
                ("cascade", "third"),
                ("cascade", "length"),
            )
        ),
        (
            combined("composite", "first", "second", quorum=3),
            "models.2.composite: quorum: 3 is above the number of members, 2",
            "lower it",
        ),
        *(
            (combined("composite", "first", SECOND | settings, **others), "models.2.compos", text)
            for settings, others, text in (
                ({"weight": -1}, {}, "'second' has weight -1"),
                ({"weight": 0}, {"aggregate": "sum"}, "'second' has weight 0"),
                ({"clip": [1, 0]}, {}, "clip: [1.0, 0.0] is empty; write [low, high]"),
                ({"gate": {"member": "third", "below": 1}}, {}, "names 'third'; choose from first"),
                ({"gate": {"member": "second", "below": 1}}, {}, "'second'; choose from first"),
            )
        ),
        (
            combined("cascade", "first", SECOND | {"weight": 2}),
            "models.2.cascade: members: 'second' has weight, which a cascade",
            "remove it",
        ),
        (combined("cascade", "first", "second", unsure=[0.8, 0.2]), "models.2.casc", "is empty"),
        (rubric(rubric={"default": "a"}), "models.0.rubric: default: no rubric is named 'a'", "so"),
        (
            rubric(rubric={"rubrics": {"s": [{"name": "a"}]}}),
            "models.0.rubric.rubrics.s.0.text: is missing",
            "add 'text: ...' to models.0.rubric.rubrics.s.0",
        ),
        (
            models({"name": "e", "kind": "remote"}),
            "models.0.remote.model: is missing",
            "add 'model: ...' to models.0.remote",
        ),
        (
            models({**REMOTE, "kind": "judge", "engine": {"model": "a/b"}}),
            "models.0: engine: is not used beside remote",
            "remove one of the two",
        ),
        (
            models({**REMOTE, "rubric": {}, "judge": {"mode": "label"}}),
            "models.0: judge.mode: an endpoint answers all criteria in one text",
            "set generate",
        ),
    ],
)
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


@pytest.mark.parametrize(
    "model",
    [
        {"name": "a", "kind": "rule", "rule": {"verifier": "regex", "pattern": "is (.*)"}},
        {"name": "a", "kind": "judge"},
        {"name": "a", "kind": "judge", "resources": {"num_gpus": 0.25}},
        {"name": "a", "kind": "judge", "engine": {"tensor_parallel_size": 2}},
        {"name": "a", "kind": "rubric", "rubric": {"rubrics": {"s": [{"name": "b", "text": "c"}]}}},
        REMOTE,
        {**REMOTE, "rubric": {}},
        combined("composite", "first", {"model": "judge", "application": "other"})["models"][2],
        combined("cascade", "first", "second", unsure=[0.1, 0.9])["models"][2],
    ],
    ids=[
        "rule",
        "cpu",
        "share",
        "two gpus",
        "rubric",
        "endpoint",
        "criteria",
        "composite",
        "cascade",
    ],
)
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


def test_remote_is_another_name_of_a_judge_or_a_rubric_at_an_endpoint() -> None:
    kinds: dict[str, dict[str, Any]] = {"judge": {}, "rubric": {"rubric": {}}}
    for kind, sections in kinds.items():
        older, newer = AppConfig.parse(
            models({**REMOTE, **sections}, {**REMOTE, **sections, "kind": kind, "name": "f"})
        ).models
        assert older == newer.model_copy(update={"name": "e", "kind": older.kind})
        assert (newer.vllm, newer.resources.num_cpus, newer.max_concurrent_items) == (None, 1, 256)


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
