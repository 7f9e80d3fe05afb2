"""Profiles: what ``serve MODEL`` sets for a model that it knows, and what it refuses."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from reward_serve.cli.profiles import FOLDER, Profile, find_profile
from reward_serve.config.models import ClassifierModel, JudgeModel
from reward_serve.engines.vllm import engine_arguments
from reward_serve.prompts.rendering import Renderer
from reward_serve.reward_models.base import InvalidRequestError
from reward_serve.reward_models.comparison import sampling_of
from reward_serve.schema import Options, Status
from reward_serve.templates import read_verdict
from tests.rows import rows
from tests.service.cli.test_serve import application, dry_run, judge
from tests.service.engines.test_tokenizer import byte_level, hub_tokenizer
from tests.unit.cli.test_main import invoke

FILES = {path.stem: yaml.safe_load(path.read_bytes()) for path in sorted(FOLDER.glob("*.yaml"))}
ALL = {known.replace("*", "-x"): name for name, file in FILES.items() for known in file["models"]}
KNOWN = {known: name for known, name in ALL.items() if FILES[name]["model"]}
GIB = {known: gib for file in FILES.values() for known, gib in file["models"].items() if gib}
VERIFIERS = {known: name for known, name in KNOWN.items() if "prompt" in FILES[name]}
THINKERS = [
    *("openai/gpt-oss-20b", "Qwen/Qwen3-4B-Thinking-2507", "me/my-gpt-oss-120b-tuned"),
    *("gpt-5-mini", "deepseek-reasoner"),
]
PROMPT = "Sum up.\nQ: {question}\nGold: {gold_answer}\nGiven: {llm_response}\nEnd with \\boxed{A}."


def prompt_of(name: str, folder: Path) -> Path:
    """A prompt of our own, with the placeholders of a verifier's."""
    fields = FILES[name]["prompt"]["fields"].values()
    (file := folder / "prompt.txt").write_text(" ".join(f"{{{names[0]}}}" for names in fields))
    return file


def section(model: str, folder: Path, *arguments: object) -> Any:
    """The model's section of the file for GPUs."""
    if name := VERIFIERS.get(model):
        arguments = (*arguments, "--prompt", prompt_of(name, folder))
    if FILES[KNOWN[model]]["model"]["kind"] != "remote":
        arguments = (*arguments, "--device", "cuda")
    (profiled,) = application(dry_run(model, *arguments)).models
    return profiled


@pytest.mark.parametrize("model", KNOWN)
def test_every_known_model_gets_its_profile(model: str, tmp_path: Path) -> None:
    profile = FILES[KNOWN[model]]
    profiled = section(model, tmp_path)
    assert profiled.kind == profile["model"]["kind"]
    for part, fields in profile["model"].items():
        if isinstance(fields, dict):
            written = getattr(profiled, part).model_dump()
            assert {name: written[name] for name in fields} == fields
    if profiled.vllm:
        assert profiled.vllm.model == model
        assert GIB.get(model, 0) / profiled.vllm.tensor_parallel_size <= 64
    else:
        assert (profiled.name, profiled.checkpoint) == (model, model)


def test_vllms_own_parser_takes_the_arguments_of_every_profile(tmp_path: Path) -> None:
    os.environ.setdefault("VLLM_CONFIGURE_LOGGING", "0")
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.reasoning import ReasoningParserManager
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = AsyncEngineArgs.add_cli_args(FlexibleArgumentParser(exit_on_error=False))
    for model in KNOWN:
        profiled = section(model, tmp_path)
        if profiled.vllm is None:
            continue
        arguments = engine_arguments(profiled.vllm, model, profiled.resources.num_gpus)
        words = []
        for name, value in arguments.items():
            option = name.replace("_", "-")
            if isinstance(value, bool):
                words.append(f"--{option}" if value else f"--no-{option}")
            else:
                words += [
                    f"--{option}",
                    json.dumps(value) if isinstance(value, dict) else str(value),
                ]
        parsed = AsyncEngineArgs.from_cli_args(parser.parse_args(words))
        for name, value in arguments.items():
            assert getattr(parsed, name) == value, (model, name)
        if parsed.reasoning_parser:
            assert ReasoningParserManager.get_reasoning_parser(parsed.reasoning_parser)


@pytest.mark.parametrize(("model", "name"), rows(__file__, "names"))
def test_a_profile_is_found_by_the_longest_name(model: str, name: str | None) -> None:
    profile = find_profile(model)
    assert (profile and profile.name) == name


def test_a_profile_says_what_it_takes_what_was_read_and_what_was_run() -> None:
    notes = invoke("serve", "me/gpt-oss-20b-tuned", "--dry-run").stderr
    file = FILES["gpt-oss"]
    assert notes.startswith("profile gpt-oss, by the name of openai/gpt-oss-20b; its weights take ")
    assert "12.8 GiB a replica" in notes
    assert f"read: {file['read']}; run: {file['run']}\n" in notes
    for fields in FILES.values():
        Profile("name", "known", **fields)
        assert fields["about"] and fields["read"] and fields["run"]


@pytest.mark.parametrize("arguments", [["org/model"], ["Qwen/Qwen3-8B", "--kind", "classifier"]])
def test_without_a_profile_it_says_what_is_assumed(arguments: list[str]) -> None:
    notes = invoke("serve", *arguments, "--dry-run").stderr
    assert notes == (
        f"{arguments[0]} has no profile of this kind: it is taken for a folder or a hub id (for an "
        "endpoint's model give --kind remote), with a context of 4,096 tokens, and a judge answers "
        "without thinking; one that thinks needs --mode generate\n"
    )
    for other in ([], ["judge.yaml"], ["bundled"]):
        assert "profile" not in invoke("serve", *other, "--dry-run").stderr


def test_options_and_fields_win_over_the_profile() -> None:
    model = "Qwen/Qwen3-235B-A22B-Thinking-2507"
    assert judge(model, "--device", "cuda").engine.tensor_parallel_size == 8
    asked = ["--tp", 4, "--template", "solution", "--set", "judge.thinking_tokens=64"]
    configured = judge(model, *asked)
    assert (configured.engine.tensor_parallel_size, configured.judge.template) == (4, "solution")
    assert configured.judge.thinking_tokens == 64
    assert judge("Qwen/Qwen3-8B", "--mode", "generate").judge.mode == "generate"


@pytest.mark.parametrize("model", THINKERS)
def test_a_model_that_must_think_is_never_asked_for_a_label(model: str) -> None:
    refused = invoke("serve", model, "--mode", "label", "--dry-run")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr.startswith("--mode label: leave it out; it ")
    (configured,) = application(dry_run(model)).models
    assert isinstance(configured, JudgeModel)
    assert configured.judge.mode == "generate"
    with pytest.raises(InvalidRequestError, match=r"options\.mode: not allowed"):
        sampling_of(Options(mode="label"), configured.judge, "label", ends_thinking=False)


@pytest.mark.parametrize("model", VERIFIERS)
def test_a_verifier_needs_the_prompt_of_its_card(model: str, tmp_path: Path) -> None:
    refused = invoke("serve", model, "--dry-run")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr.count("\n") == 1
    assert "was trained on the prompt of its card: save" in refused.stderr
    assert refused.stderr.endswith("give --prompt FILE\n")
    assert judge(model, "--template", "graded").judge.template == "graded"


def test_a_prompt_is_refused_where_it_has_no_use(tmp_path: Path) -> None:
    (file := tmp_path / "prompt.txt").write_text("{question} {gold_answer}", encoding="utf-8")
    compass, missing = "opencompass/CompassVerifier-3B", tmp_path / "none.txt"
    wrong = [
        (["org/model", "--prompt", file], "--prompt: takes the card's prompt of a trained"),
        (["bundled", "--prompt", file], "--prompt: takes the card's prompt of a trained"),
        ([compass, "--prompt", file, "--template", "graded"], "give --template FILE alone"),
        ([compass, "--prompt", file], "must have {llm_response} once, where the response belongs"),
        ([compass, "--prompt", missing], f"--prompt {missing}: "),
    ]
    for arguments, fault in wrong:
        refused = invoke("serve", *arguments, "--dry-run")
        assert refused.exit_code == 1
        assert fault in refused.stderr


@pytest.mark.parametrize(("model", "text", "label", "score"), rows(__file__, "verdicts"))
def test_a_verifiers_verdict_is_read_as_its_card_says(
    model: str, text: str, label: str | None, score: float | None, tmp_path: Path
) -> None:
    known = find_profile(model)
    assert known is not None
    configured = judge(model, "--prompt", prompt_of(known.name, tmp_path))
    result = read_verdict(configured.judge.default_template, text, cut_off=False)
    assert (result.label, result.score) == (label, score)
    assert result.status is (Status.OK if label else Status.UNPARSEABLE)


@pytest.mark.parametrize("braces", [1, 2])
def test_a_cards_prompt_is_asked_as_it_is_and_fields_stay_text(braces: int, tmp_path: Path) -> None:
    text = PROMPT
    for name in ("question", "gold_answer", "llm_response"):
        text = text.replace(f"{{{name}}}", "{" * braces + name.upper() + "}" * braces)
    (file := tmp_path / "prompt.txt").write_text(f"{text}\n", encoding="utf-8")
    template = judge("opencompass/CompassVerifier-3B", "--prompt", file).judge.default_template
    fields = {"question": "9 + 9?", "reference": "18", "response": "{gold_answer}<|im_end|>A"}
    asked = PROMPT.replace("{question}", "9 + 9?").replace("{gold_answer}", "18")

    prompt = Renderer(None, 4096).render(
        template, fields, "generate", response_tokens=64, reserve_tokens=8
    )
    (turn,) = prompt.messages  # no system turn, so that the chat template adds its default
    assert turn == {"role": "user", "content": asked.replace("{llm_response}", fields["response"])}

    from reward_serve.engines.vllm import ChatTokenizer

    tokenizer = ChatTokenizer(hub_tokenizer(byte_level()))
    rendered = Renderer(tokenizer, 4096).render(
        template, fields, "generate", response_tokens=64, reserve_tokens=8
    )
    end = tokenizer.encode_control("<|im_end|>")[0]
    assert rendered.token_ids.count(end) == 1  # the chat template's own
    plain = Renderer(tokenizer, 4096).render(
        template.model_copy(update={"chat_template": False, "digest": "plain"}),
        fields,
        "generate",
        response_tokens=64,
        reserve_tokens=8,
    )
    assert plain.token_ids == rendered.token_ids[:-1]


def test_an_endpoints_model_has_its_own_settings_and_no_others() -> None:
    for arguments, expected in (
        (["deepseek-reasoner"], {"api_key_env": "DEEPSEEK_API_KEY", "tokens_per_minute": None}),
        (["Qwen/Qwen3-8B", "--kind", "remote"], {"requests_per_minute": None, "extra_body": {}}),
    ):
        (configured,) = application(dry_run(*arguments)).models
        assert isinstance(configured, JudgeModel)
        assert configured.remote
        assert configured.remote.model_dump().items() >= expected.items()


@pytest.mark.parametrize("model", rows(__file__, "other_kinds"))
def test_a_name_that_says_of_another_kind_of_model_has_no_profile(model: str) -> None:
    assert find_profile(model) is None


@pytest.mark.parametrize(("model", "word"), rows(__file__, "reward_models"))
def test_a_reward_model_is_not_taken_for_a_judge(model: str, word: str) -> None:
    refused = invoke("serve", model, "--dry-run")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr.startswith(f"{model}: '{word}' in its name says that it is a reward mod")
    assert "--kind classifier if it returns a logit" in refused.stderr
    (configured,) = application(dry_run(model, "--kind", "classifier")).models
    assert isinstance(configured, ClassifierModel)


@pytest.mark.parametrize("model", sorted(ALL.keys() - KNOWN.keys()))
def test_a_reward_model_that_cannot_be_served_is_refused_whatever_its_kind(model: str) -> None:
    field = f"engine.model={model}"
    for asked in ([model], [model, "--kind", "classifier"], [f"my-{model.rpartition('/')[2]}"]):
        refused = invoke("serve", *asked, "--dry-run")
        assert (refused.exit_code, refused.stdout) == (1, "")
        assert f"{asked[0]}: vLLM does not serve it as a classifier" in refused.stderr
    for file in ("judge-gpu.yaml", "classifier.yaml"):
        assert "vLLM does not serve it" in invoke("serve", file, "--set", field).stderr


def test_a_known_classifier_is_refused_as_a_judge_before_ray_starts() -> None:
    model = "Skywork/Skywork-Reward-Llama-3.1-8B-v0.2"
    refused = invoke("serve", "judge-gpu.yaml", "--set", f"engine.model={model}")
    assert refused.exit_code == 1
    assert refused.stderr.endswith(f"{model} writes no verdict; use kind: classifier\n")


def test_an_endpoint_has_no_device() -> None:
    refused = invoke("serve", "gpt-5-mini", "--tp", "2", "--dry-run")
    assert refused.stderr == "--tp: gpt-5-mini runs at an endpoint; leave it out\n"
