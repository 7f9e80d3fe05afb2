"""The environments in SkyRL 0.4.0's real generator, with a policy that answers from a list."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from skyrl.train.generators.base import TrajectoryID
from skyrl.train.generators.skyrl_gym_generator import SkyRLGymGenerator

from reward_serve.client.rows import RefusedRowError
from reward_serve_skyrl import register_envs
from reward_serve_skyrl.config import (
    JudgedTrainConfig,
    check_groups_meet,
    check_judging_overlaps,
)
from reward_serve_skyrl.main import check_first_rows, check_judge_answers
from tests.fake_service import FakeService, Reply

SECTION = "environment.skyrl_gym.gsm8k_judge"


class Policy:
    """Says the response that belongs to each prompt, each later than the one before.

    Of a list, it says the text of its turn.
    """

    def __init__(self, tokenizer: Any, responses: Sequence[str | list[str]]) -> None:
        self._tokenizer, self._responses = tokenizer, responses

    async def generate(self, engine_input: dict[str, Any], model: str | None = None) -> Any:
        (ids,) = engine_input["prompt_token_ids"]
        conversation = self._tokenizer.decode(ids)
        number = int(conversation.partition("row ")[2].partition(":")[0])
        await asyncio.sleep(0.1 * number)
        text = self._responses[number]
        if isinstance(text, list):
            text = text[conversation.count("<|im_start|>assistant") - 1]
        tokens = self._tokenizer.encode(text, add_special_tokens=False)
        return {
            "responses": [text],
            "response_ids": [tokens],
            "stop_reasons": ["stop"],
            "response_logprobs": [[0.0] * len(tokens)],
        }

    async def finish_session(self, session_id: Any) -> None: ...


def configured(url: str, *overrides: str) -> JudgedTrainConfig:
    settings = ["environment.env_class=gsm8k_judge", f"{SECTION}.url={url}"]
    settings += [f"{SECTION}.timeout_s=10", "generator.batched=false", *overrides]
    return JudgedTrainConfig.from_cli_overrides(settings)


def extras(number: int, truth: Any = "18") -> dict[str, Any]:
    """The columns of a row beside its prompt."""
    return {
        "reward_spec": {"method": "rule", "ground_truth": truth},
        "extra_info": {"split": "train", "index": number, "question": "How much?"},
    }


def rollout(
    config: JudgedTrainConfig, tokenizer: Any, responses: Sequence[str | list[str]], columns: Any
) -> tuple[list[float], dict[str, Any]]:
    """The rewards and the output of SkyRL's generator for samples with these columns."""
    register_envs()
    generator = SkyRLGymGenerator(
        generator_cfg=config.generator,
        skyrl_gym_cfg=config.environment.skyrl_gym,
        inference_engine_client=Policy(tokenizer, responses),
        tokenizer=tokenizer,
    )
    prompts = [f"row {number}: How much?" for number in range(len(responses))]
    batch = {
        "prompts": [[{"role": "user", "content": prompt}] for prompt in prompts],
        "env_classes": [config.environment.env_class] * len(responses),
        "env_extras": columns,
        "sampling_params": None,
        "trajectory_ids": [TrajectoryID(prompt, 0) for prompt in prompts],
        "batch_metadata": None,
    }
    output = asyncio.run(generator.generate(batch, disable_tqdm=True))
    return [sum(r) if isinstance(r, list) else r for r in output["rewards"]], output


def test_the_generator_gets_the_services_rewards(tokenizer: Any) -> None:
    responses = ["9 * 2 = 18\n#### 18", "#### 17", "The answer is 18.", "#### 21"]
    with FakeService() as service:
        config = configured(service.url)
        rewards, output = rollout(config, tokenizer, responses, [extras(n) for n in range(4)])

    assert rewards == [1.0, 0.0, 1.0, 0.0]
    metrics = output["rollout_metrics"]
    assert metrics["environment/judge_ok_mean"] == 1.0
    assert metrics["environment/judge_fallback_mean"] == 0.0


def test_the_samples_of_a_prompt_are_rewarded_with_their_places_in_the_group(
    tokenizer: Any,
) -> None:
    responses = ["short", "a longer one", "the longest of all", "   "]
    samples = ("generator.n_samples_per_prompt=4", "trainer.train_batch_size=1")
    with FakeService() as service:
        settings = (f"{SECTION}.group_size=4", f"{SECTION}.on_failure=none")
        config = configured(service.url, *samples, *settings)
        check_groups_meet(config)
        rewards, output = rollout(config, tokenizer, responses, [extras(0, None)] * 4)

    lengths = list(map(len, responses[:3]))
    undecided = [metrics["judge_undecided"] for metrics in output["env_metrics"]]
    assert rewards[:3] == [length / lengths[2] for length in lengths]
    assert undecided == [0.0, 0.0, 0.0, 1.0]  # DecidedOnly leaves it out; SkyRL needs a number


def test_a_critique_is_an_extra_field_of_its_sample_and_not_shown_to_the_policy(
    tokenizer: Any,
) -> None:
    verdict = {"status": "ok", "score": 0.0, "critique": "It adds."}
    with FakeService() as service:
        service.replies["/v1/score/batch"] = Reply({"results": [verdict]})
        config = configured(service.url, f"{SECTION}.critique=true", f"{SECTION}.template=critique")
        _, output = rollout(config, tokenizer, ["#### 17"], [extras(0)])

    assert [episode["judge_critique"] for episode in output["env_metrics"]] == ["It adds."]
    assert "environment/judge_ok_mean" in output["rollout_metrics"]
    assert not any("critique" in name for name in output["rollout_metrics"])
    assert "It adds." not in tokenizer.decode(output["response_ids"][0])
    assert service.calls[0].body["requests"][0]["template"] == "critique"


def test_a_run_is_refused_at_its_first_rows() -> None:
    def dataset(*truths: Any) -> list[tuple[Any, ...]]:  # rows of SkyRL's PromptDataset
        return [([], None, extras(n, truth), str(n)) for n, truth in enumerate(truths)]

    with FakeService() as service:
        register_envs()
        config = configured(service.url)
        row = ([], "llm_as_a_judge_local", extras(0), "0")  # as SkyRL's example does
        with pytest.raises(ValueError, match=r"row 0 .*'llm_as.*local'; choose from .*gsm8k_judge"):
            check_first_rows(config, [row])
        check_first_rows(config, dataset("18", "19"))
        with pytest.raises(RefusedRowError, match=r"row 1 .*: reference: is missing"):
            check_first_rows(config, dataset("18", None))


@pytest.mark.parametrize(
    ("mistake", "error"),
    [(f"{SECTION}.model=jugde", "no model is named 'jugde'"), (None, "HTTP 401: unknown API key")],
)
def test_a_typo_ends_a_run_that_a_rule_would_have_rewarded(
    tokenizer: Any, mistake: str | None, error: str
) -> None:
    with FakeService() as service:
        config = configured(service.url, *filter(None, [mistake]))
        if mistake is None:
            service.replies["/v1/score/batch"] = Reply({"detail": "unknown API key"}, 401)
        with pytest.raises(RuntimeError, match=f"no verdict: invalid: .*{error}"):
            check_judge_answers(config)
        with pytest.raises(RefusedRowError, match=error):
            rollout(config, tokenizer, ["#### 18", "#### 17"], [extras(n) for n in range(2)])


@pytest.mark.parametrize(
    ("override", "reason"),
    [
        ("generator.batched=true", "generator.batched=true steps environments one by one"),
        ("environment.skyrl_gym.max_env_workers=0", "max_env_workers=0 steps environments on the"),
    ],
)
def test_settings_that_serialise_judging_are_refused(override: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        check_judging_overlaps(configured("http://x", override))
