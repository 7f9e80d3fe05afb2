"""The environments in SkyRL 0.4.0's real generator, with a policy that answers from a list."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from skyrl.train.generators.skyrl_gym_generator import SkyRLGymGenerator

from reward_serve.client.rows import RefusedRowError
from reward_serve_skyrl import register_envs
from reward_serve_skyrl.config import (
    JudgedTrainConfig,
    check_groups_meet,
    check_judging_overlaps,
)
from reward_serve_skyrl.main import check_first_rows
from tests.fake_rubric import containing, fake_rubric
from tests.fake_service import FakeService

RESPONSES = ["9 * 2 = 18\n#### 18", "#### 17", "The answer is 18.", "#### 21"]
REWARDS = [1.0, 0.0, 1.0, 0.0]


class Policy:
    """Says the response that belongs to each prompt, after a pause."""

    def __init__(
        self,
        tokenizer: Any,
        pause_s: Callable[[int], float] = lambda n: 0.0,
        responses: Sequence[str] = RESPONSES,
    ) -> None:
        self._tokenizer = tokenizer
        self._responses = responses
        self._pause_s = pause_s

    async def generate(self, engine_input: dict[str, Any], model: str | None = None) -> Any:
        (ids,) = engine_input["prompt_token_ids"]
        number = int(self._tokenizer.decode(ids).partition("row ")[2].partition(":")[0])
        await asyncio.sleep(self._pause_s(number))
        text = self._responses[number % len(self._responses)]
        tokens = self._tokenizer.encode(text, add_special_tokens=False)
        return {
            "responses": [text],
            "response_ids": [tokens],
            "stop_reasons": ["stop"],
            "response_logprobs": None,
        }

    async def finish_session(self, session_id: Any) -> None: ...


def configured(url: str, *overrides: str) -> JudgedTrainConfig:
    return JudgedTrainConfig.from_cli_overrides(
        [
            "environment.env_class=gsm8k_judge",
            f"environment.skyrl_gym.gsm8k_judge.url={url}",
            "environment.skyrl_gym.gsm8k_judge.timeout_s=10",
            "generator.batched=false",
            *overrides,
        ]
    )


def extras(number: int, truth: Any = "18", **info: Any) -> dict[str, Any]:
    """The columns of a row beside its prompt."""
    return {
        "reward_spec": {"method": "rule", "ground_truth": truth},
        "extra_info": {"split": "train", "index": number, "question": "How much?", **info},
    }


def rollout(
    config: JudgedTrainConfig,
    policy: Policy,
    tokenizer: Any,
    samples: int = 4,
    truth: Any = "18",
    of_one_row: bool = False,
    **info: Any,
) -> Any:
    """The generator's output for some samples, each of its own row by default."""
    register_envs()
    generator = SkyRLGymGenerator(
        generator_cfg=config.generator,
        skyrl_gym_cfg=config.environment.skyrl_gym,
        inference_engine_client=policy,
        tokenizer=tokenizer,
    )
    batch = {
        "prompts": [[{"role": "user", "content": f"row {n}: How much?"}] for n in range(samples)],
        "env_classes": [config.environment.env_class] * samples,
        "env_extras": [extras(0 if of_one_row else n, truth, **info) for n in range(samples)],
        "sampling_params": None,
        "trajectory_ids": None,
        "batch_metadata": None,
    }
    return asyncio.run(generator.generate(batch, disable_tqdm=True))


def totals(output: Any) -> list[float]:
    return [sum(r) if isinstance(r, list) else r for r in output["rewards"]]


def test_the_generator_gets_the_services_rewards(tokenizer: Any) -> None:
    with FakeService() as service:
        output = rollout(configured(service.url), Policy(tokenizer), tokenizer)

    assert totals(output) == REWARDS
    metrics = output["rollout_metrics"]
    assert metrics["environment/judge_ok_mean"] == 1.0
    assert metrics["environment/judge_fallback_mean"] == 0.0


def test_a_row_with_a_rubric_and_no_reference_is_judged_by_its_components(tokenizer: Any) -> None:
    rubric = containing(right="18", marked="####, unless 17")
    with FakeService(model=fake_rubric()) as service:
        output = rollout(
            configured(service.url), Policy(tokenizer), tokenizer, truth=None, rubric=rubric
        )

    assert totals(output) == [1.0, 0.0, 0.5, 0.5]  # of both criteria, or of the one answered
    metrics = output["rollout_metrics"]
    assert metrics["environment/judge_component_right_mean"] == 2 / 4
    assert metrics["environment/judge_component_marked_mean"] == pytest.approx(2 / 3)
    assert metrics["environment/judge_undecided_mean"] == 0.0


def test_the_samples_of_a_prompt_are_rewarded_with_their_places_in_the_group(
    tokenizer: Any,
) -> None:
    responses = ["short", "a longer one", "the longest of all", "   "]
    settings = ("group_size=4", "on_failure=none")
    with FakeService() as service:
        config = configured(
            service.url,
            "generator.n_samples_per_prompt=4",
            "trainer.train_batch_size=1",
            *(f"environment.skyrl_gym.gsm8k_judge.{setting}" for setting in settings),
        )
        check_groups_meet(config)
        policy = Policy(tokenizer, lambda n: 0.1 * n, responses)
        output = rollout(config, policy, tokenizer, truth=None, of_one_row=True)

    lengths = list(map(len, responses[:3]))
    undecided = [metrics["judge_undecided"] for metrics in output["env_metrics"]]
    assert totals(output)[:3] == [length / lengths[2] for length in lengths]
    assert undecided == [0.0, 0.0, 0.0, 1.0]  # DecidedOnly leaves it out; SkyRL needs a number


def test_a_run_is_refused_at_its_first_rows(tokenizer: Any) -> None:
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


def test_the_generator_ends_at_a_run_without_gold_answers(tokenizer: Any) -> None:
    with FakeService() as service:
        config = configured(service.url)
        with pytest.raises(RefusedRowError, match="reference: is missing"):
            rollout(config, Policy(tokenizer), tokenizer, truth=None)
        rollout(config, Policy(tokenizer), tokenizer)
        later = rollout(config, Policy(tokenizer), tokenizer, truth=None)

    assert [metrics["judge_undecided"] for metrics in later["env_metrics"]] == [1.0] * 4


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
