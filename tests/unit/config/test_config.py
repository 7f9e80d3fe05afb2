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
    RemoteModel,
    RubricModel,
    reads_rubric,
)

REMOTE = {"name": "e", "kind": "remote", "remote": {"model": "gpt"}}


def args(**fields: Any) -> dict[str, Any]:
    return {"models": [{"name": "judge", "kind": "judge", **fields}]}


def rule(**fields: Any) -> dict[str, Any]:
    return {"models": [{"name": "r", "kind": "rule", "rule": fields}]}


def server(**fields: Any) -> dict[str, Any]:
    return {**args(), "server": fields}


def combined(kind: str, members: list[Any], **settings: Any) -> dict[str, Any]:
    rules = [{"name": name, "kind": "rule"} for name in ("first", "second")]
    section = {"members": members, **settings}
    return {"models": [*rules, {"name": "both", "kind": kind, kind: section}]}


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


def test_a_judge_and_a_rule_need_only_a_name_and_a_kind() -> None:
    config = AppConfig.parse({"models": [*args()["models"], {"name": "rule", "kind": "rule"}]})
    model, of_rule = config.models
    assert isinstance(model, JudgeModel)
    assert (model.engine.model, model.engine.device) == ("bundled", "cpu")
    assert (model.resources.num_cpus, model.resources.num_gpus) == (2.0, 0.0)
    assert model.engine.trust_remote_code is False
    assert (model.judge.template, model.judge.mode) == ("final_answer", "label")
    assert model.max_concurrent_items == 2 * model.engine.max_num_seqs
    assert (of_rule.resources.num_cpus, of_rule.resources.num_gpus) == (1.0, 0.0)
    assert of_rule.max_concurrent_items == 64


def test_what_is_set_is_kept() -> None:
    engine = {"trust_remote_code": True, "engine_kwargs": {"enforce_eager": True}}
    model = judge(max_concurrent_items=7, resources={"num_cpus": 0.5}, engine=engine)
    assert (model.max_concurrent_items, model.resources.num_cpus) == (7, 0.5)
    assert model.engine.trust_remote_code is True
    assert model.engine.engine_kwargs == {"enforce_eager": True}


@pytest.mark.parametrize(
    ("engine", "num_gpus", "expected"),
    [
        pytest.param({}, None, ("cpu", 0.0), id="auto without a gpu"),
        pytest.param({}, 0, ("cpu", 0.0), id="auto with no gpu"),
        pytest.param({}, 1, ("cuda", 1.0), id="auto with a gpu"),
        pytest.param({}, 0.1, ("cuda", 0.1), id="auto with a share"),
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
    assert model.resources.num_cpus == (1.0 if expected[0] == "cuda" else 2.0)


@pytest.mark.parametrize(
    ("engine", "num_gpus", "remedy"),
    [
        pytest.param({"device": "cpu"}, 1, "set 0", id="cpu with a gpu"),
        pytest.param({"device": "cuda"}, 0, "set 1", id="cuda with none"),
        pytest.param({"tensor_parallel_size": 2}, 1, "set 2", id="one for two"),
        pytest.param({"tensor_parallel_size": 2}, 0.5, "set 2", id="a share for two"),
        pytest.param({"tensor_parallel_size": 2}, 0, "set 2", id="none for two"),
        pytest.param({}, 2, "set 1", id="two for one"),
        pytest.param({}, 1.5, "set 1", id="one and a share for one"),
    ],
)
def test_gpus_that_contradict_the_engine_are_refused(
    engine: dict[str, Any], num_gpus: float, remedy: str
) -> None:
    text = fault(args(engine=engine, resources={"num_gpus": num_gpus}))
    size = engine.get("tensor_parallel_size", 1)
    assert text == (
        f"models.0: resources.num_gpus: {num_gpus:g} contradicts engine.device: "
        f"{engine.get('device', 'auto')} with engine.tensor_parallel_size: {size}; remove it or "
        f"{remedy}"
    )


@pytest.mark.parametrize(
    ("config", "parts"),
    [
        pytest.param({}, ["models: is missing"], id="nothing"),
        pytest.param({"models": []}, ["models: ", "found []"], id="no models"),
        pytest.param(
            {"models": {}},
            ["models: must be a list ", "(found a mapping)", "start each entry with '- '"],
            id="models as a mapping",
        ),
        pytest.param({"models": [{"kind": "judge"}]}, ["models.0.name: is missing"], id="no name"),
        pytest.param(
            {"models": [{"name": "a"}]},
            ["models.0.kind: ", "'judge', 'rubric', 'classifier', 'remote', 'rule'", "nothing"],
            id="no kind",
        ),
        pytest.param(
            {"models": [{"name": "a", "kind": "jugde"}]},
            ["models.0.kind: ", "'judge', 'rubric', 'classifier'", "found 'jugde'"],
            id="unknown kind",
        ),
        pytest.param(
            {"models": ["judge"]},
            ["models.0: must be a mapping (found 'judge')", "'field: value'"],
            id="text for a model",
        ),
        pytest.param(
            {"models": [{"name": "judge\n", "kind": "rule"}]},
            ["models.0.name: ", "A-Za-z0-9", r"found 'judge\n'"],
            id="name with a line's end",
        ),
        pytest.param(
            {"models": [{"name": "ingress", "kind": "rule"}]},
            ["models.0: name: 'ingress'", "choose another"],
            id="the ingress's name",
        ),
        pytest.param(
            {"models": [{"name": "length", "kind": "rule"}]},
            ["models.0: name: 'length' names a built-in member"],
            id="a built-in member's name",
        ),
        pytest.param(
            {"models": [*rule()["models"], *args()["models"], *rule()["models"]]},
            ["models: two models are named 'r'; rename one"],
            id="a name twice",
        ),
        pytest.param(
            args(engine={"tensor_parallel_size": 1.5}),
            ["models.0.engine.tensor_parallel_size: ", "found 1.5"],
            id="one and a half",
        ),
        pytest.param(
            args(engine={"device": "cpu", "tensor_parallel_size": 2}),
            ["models.0: engine.tensor_parallel_size: 2 needs GPUs", "set device: cuda"],
            id="tensor parallelism on cores",
        ),
        pytest.param(
            args(engine={"device": "gpu"}),
            ["models.0.engine.device: ", "'auto', 'cpu' or 'cuda'", "found 'gpu'"],
            id="device",
        ),
        pytest.param(
            args(engine={"dtype": "int8", "model": "/models/judge"}),
            ["models.0.engine: dtype: int8 is for model: bundled", "/models/judge", "dtype: auto"],
            id="int8 of another model",
        ),
        pytest.param(
            args(engine={"dtype": "int8"}, resources={"num_gpus": 0.1}),
            ["models.0: engine.dtype: int8 is for CPUs", "write dtype: auto"],
            id="int8 on a share of a GPU",
        ),
        pytest.param(
            args(engine={"model": "a/b", "adapter": "/mine"}),
            ["models.0.engine: adapter: '/mine' can only be merged into model: bundled"],
            id="an adapter for another model",
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
            server(compatible_with="openai"),
            ["server.compatible_with: must be a list ", "found 'openai'", "'- '"],
            id="text for a list",
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
            args(autoscaling={"min_replicas": 3}),
            ["models.0.autoscaling: max_replicas: 1 ", "min_replicas 3", "raise it"],
            id="bounds",
        ),
        pytest.param(
            args(engine={"max_num_seqs": 0}, judge={"mode": "essay"}),
            ["models.0.engine.max_num_seqs: ", "found 0", "; models.0.judge.mode: ", "'essay'"],
            id="two faults",
        ),
        pytest.param(
            args(judge={"samples": 2}), ["models.0.judge: samples: 2 samples at temp"], id="alike"
        ),
        pytest.param(
            args(judge={"samples": 9, "temperature": 1}),
            ["models.0.judge: samples: 9 is above max_samples: 8; raise max_samples"],
            id="many samples",
        ),
        pytest.param(
            args(judge={"thinking_tokens": 512}),
            ["models.0.judge: thinking_tokens: 512 leaves no room", "in max_tokens: 512"],
            id="nothing but thoughts",
        ),
        pytest.param(
            args(judge={"thinking_tokens": 9}),
            ["models.0: judge.thinking_tokens: 9", "engine_kwargs.reasoning_parser"],
            id="no reasoning parser",
        ),
        pytest.param(
            args(judge={"mode": "generate", "max_tokens": 4096}),
            ["models.0: judge.max_tokens: 4096 leaves no room", "raise engine.max_model_len"],
            id="no room for a prompt",
        ),
        pytest.param(
            rule(verifier="maths"),
            ["models.0.rule.verifier: ", "'gsm8k', ", "'math', ", "found 'maths'"],
            id="verifier",
        ),
        pytest.param(
            rule(verifier="regex"),
            ["models.0.rule: pattern: ", "needs it", "(found verifier: regex)"],
            id="regex without a pattern",
        ),
        pytest.param(
            rule(pattern="x"),
            ["models.0.rule: pattern: verifier: regex needs it", "(found verifier: gsm8k)"],
            id="a pattern without regex",
        ),
        pytest.param(
            rule(verifier="regex", pattern="("),
            ["models.0.rule: pattern: '('", "is not a regular expression"],
            id="pattern",
        ),
        pytest.param(
            rule(verifier="function", function="mine/rewards.py"),
            ["models.0.rule: function: 'mine/rewards.py'", "package.module:name"],
            id="a file for a function",
        ),
        pytest.param(
            {"models": [{"name": "r", "kind": "rule", "resources": {"num_gpus": 1}}]},
            ["models.0: resources.num_gpus: a rule runs on a CPU; remove it"],
            id="a rule on a gpu",
        ),
        pytest.param(
            {"models": [{"name": "c", "kind": "classifier"}]},
            ["models.0: engine.model: the bundled model is a judge; set"],
            id="no classifier",
        ),
        pytest.param(
            {
                "models": [
                    {
                        "name": "c",
                        "kind": "classifier",
                        "engine": {"model": "a/b"},
                        "classifier": {"scale": 2},
                    }
                ]
            },
            ["models.0.classifier: scale, shift: not used", "set normalisation: affine"],
            id="a scale that is not used",
        ),
        pytest.param(
            server(max_concurrent_items_per_key=8),
            ["server: max_concurrent_items_per_key: needs API keys; set "],
            id="a limit without keys",
        ),
        pytest.param(
            server(aliases={"gpt": "jugde"}),
            ["server.aliases.gpt: no model is named 'jugde'; choose from judge"],
            id="alias",
        ),
    ],
)
def test_an_error_names_the_field_what_was_found_and_what_would_be_right(
    config: dict[str, Any], parts: list[str]
) -> None:
    text = fault(config)
    assert text.startswith(parts[0])
    assert [part for part in parts if part not in text] == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("trust_remote_code", "has its own field; set engine.trust_remote_code"),
        *(
            (name, "a reward model is frozen while it serves; remove it")
            for name in ("enable_lora", "enable_sleep_mode", "weight_transfer_config")
        ),
        ("pipeline_parallel_size", "uses GPUs that the replica does not request; use more "),
    ],
)
def test_an_engine_argument_that_cannot_be_passed_on_is_refused(name: str, expected: str) -> None:
    text = fault(args(engine={"engine_kwargs": {name: True}}))
    assert text.startswith(f"models.0.engine: engine_kwargs.{name}: {expected}")


@pytest.mark.parametrize(
    "model",
    [
        {"name": "a", "kind": "rule"},
        {"name": "a", "kind": "judge"},
        {"name": "a", "kind": "judge", "resources": {"num_gpus": 0.25}},
        {"name": "a", "kind": "judge", "engine": {"tensor_parallel_size": 2}},
        {"name": "a", "kind": "rubric", "rubric": {"rubrics": {"s": [{"name": "b", "text": "c"}]}}},
        {**REMOTE, "rubric": {}},
        combined("composite", ["first", {"model": "judge", "application": "other"}])["models"][2],
        combined("cascade", ["first", "second"], unsure=[0.1, 0.9])["models"][2],
    ],
    ids=["rule", "cpu", "share", "two gpus", "rubric", "endpoint", "composite", "cascade"],
)
def test_a_parsed_model_reads_back_as_itself_in_the_replica(model: dict[str, Any]) -> None:
    others = combined("cascade", ["first", "second"])["models"][:2]
    parsed = AppConfig.parse({"models": [*others, model]}).models[2]
    adapter: TypeAdapter[ModelConfig] = TypeAdapter(ModelConfig)
    assert adapter.validate_python(parsed.model_dump(mode="json")) == parsed


def test_a_key_in_the_file_itself_is_refused_and_not_repeated() -> None:
    text = fault(server(api_keys={"trainer": "s3cret-0123456789"}))
    assert "server.api_keys: unknown field; did you mean 'api_keys_" in text
    assert "s3cret" not in text


def test_a_composites_defaults() -> None:
    vote = AppConfig.parse(combined("composite", ["first", "second"])).models[2]
    assert isinstance(vote, CompositeModel)
    assert (vote.composite.quorum, vote.resources.num_cpus, vote.resources.num_gpus) == (2, 0.5, 0)
    length = {"model": "length", "weight": -1}  # a member without a model
    total = AppConfig.parse(combined("composite", ["first", "second", length], aggregate="sum"))
    assert isinstance(total.models[2], CompositeModel)
    assert total.models[2].composite.quorum == 3, "a sum needs every member"
    cascade = AppConfig.parse(combined("cascade", ["first", "second"])).models[2]
    assert isinstance(cascade, CascadeModel)
    assert cascade.cascade.unsure == (0.2, 0.8)


@pytest.mark.parametrize(
    ("members", "settings", "said"),
    [
        (["first"], {}, "composite.members"),
        (["first", "first"], {}, "composite.members: 'first' is listed twice; remove one"),
        (
            ["first", "third"],
            {},
            "has the member 'third', but the application's other models are: first, second",
        ),
        (["first", "both"], {}, "has the member 'both', but"),
        (["first", "second"], {"quorum": 3}, "quorum: 3 is above the number of members, 2"),
        (["first", {"model": "second", "wieght": 2}], {}, "wieght: unknown field"),
        (["first", {"model": "second", "weight": -1}], {}, "'second' has weight -1"),
        (["first", {"model": "second", "weight": 0}], {"aggregate": "sum"}, "'second' has weight"),
        (["first", {"model": "second", "clip": [1, 0]}], {}, "clip: [1.0, 0.0] is empty"),
        *(
            (
                ["first", {"model": "second", "gate": {"member": name, "below": 1}}],
                {},
                f"the gate of 'second' names '{name}'; choose from first",
            )
            for name in ("third", "second")
        ),
    ],
)
def test_a_composite_that_cannot_score_is_refused(
    members: list[Any], settings: dict[str, Any], said: str
) -> None:
    assert said in fault(combined("composite", members, **settings))


@pytest.mark.parametrize(
    ("members", "settings", "said"),
    [
        (["first", "third"], {}, "has the member 'third', but the application's other models are"),
        (["first", "length"], {}, "has the member 'length'"),
        (["first", {"model": "second", "weight": 2}], {}, "'second' has weight, which a cascade"),
        (["first", "second"], {"unsure": [0.8, 0.2]}, "unsure: [0.8, 0.2] is empty"),
    ],
)
def test_a_cascade_that_cannot_ask_is_refused(
    members: list[Any], settings: dict[str, Any], said: str
) -> None:
    assert said in fault(combined("cascade", members, **settings))


def test_a_rubrics_defaults_are_its_own() -> None:
    models = [{"name": "r", "kind": "rubric"}, {**REMOTE, "rubric": {}}]
    engine, endpoint = AppConfig.parse({"models": models}).models
    assert isinstance(engine, RubricModel)
    assert isinstance(endpoint, RemoteModel)
    assert (engine.judge.template, engine.judge.mode) == ("rubric", "label")
    assert (endpoint.judge.template, endpoint.judge.mode) == ("rubric", "generate")
    assert engine.max_concurrent_items == engine.engine.max_num_seqs // 4


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"rubric": {"default": "style"}}, "default: no rubric is named 'style'"),
        ({"rubric": {"min_answered": 2}}, "models.0.rubric.min_answered: "),
        (
            {"rubric": {"rubrics": {"s": [{"name": "a"}]}}},
            "rubrics.s.0.text: is missing; add 'text: ...' to models.0.rubric.rubrics.s.0",
        ),
        ({"judge": {"samples": 2, "temperature": 1}}, "judge: samples: 2, but criteria"),
        (
            {**REMOTE, "rubric": {}, "judge": {"mode": "label"}},
            "judge.mode: an endpoint answers all criteria in one text; set generate",
        ),
    ],
)
def test_a_rubric_that_cannot_score_is_refused(fields: dict[str, Any], said: str) -> None:
    assert said in fault({"models": [{"name": "r", "kind": "rubric", **fields}]})


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
    config = AppConfig.parse({"models": [*models, REMOTE], "server": {"aliases": aliases}})
    assert config.server.aliases == {**expected, "gpt": "e"}


def test_members_of_kinds_that_read_no_rubric_get_none() -> None:
    own = {"name": "own", "kind": "rule", "rule": {"verifier": "function", "function": "a:b"}}
    models = [
        {"name": "rubric", "kind": "rubric"},
        {"name": "rule", "kind": "rule"},
        own,
        {**REMOTE, "name": "endpoint"},
        {**REMOTE, "name": "criteria", "rubric": {}},
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


GATEWAY: dict[str, Any] = {
    "models": [{"name": "judge", "application": "a"}, {"name": "rule", "application": "b"}]
}


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
    ],
)
def test_a_gateway_that_leads_nowhere_is_refused(change: dict[str, Any], said: str) -> None:
    GatewayConfig.parse(GATEWAY)
    with pytest.raises(ConfigError, match="args: ") as refusal:
        GatewayConfig.parse({**GATEWAY, **change})
    assert said in str(refusal.value)
