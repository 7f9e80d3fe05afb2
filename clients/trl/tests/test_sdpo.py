"""Critiques in TRL 1.16's own SDPOTrainer: which teacher prompts they reach, and no policy's."""

from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, TrainerCallback
from trl.experimental.sdpo import SDPOConfig

from clients.trl.tests.test_tools import tokenizer
from reward_serve_trl import judge_reward
from reward_serve_trl.sdpo import CritiqueTrainer
from tests.fake_service import FakeService, Reply, dead_url

CRITIQUE = "The second step adds."
PROMPT = "How many?"


class Watch(TrainerCallback):  # type: ignore[misc]  # transformers is untyped here
    """The prompts that the policy and the teacher were given."""

    def __init__(self) -> None:
        self.policy: list[str] = []
        self.teacher: list[str] = []

    def on_self_distillation_batch_prepared(self, *_: Any, **batch: Any) -> None:
        words = tokenizer()
        self.policy = words.batch_decode(batch["prompt_ids"], skip_special_tokens=True)
        self.teacher = words.batch_decode(batch["teacher_input_ids"], skip_special_tokens=True)


def trained(out: Path, reward: Any, **settings: Any) -> tuple[Watch, CritiqueTrainer]:
    """A step of a tiny policy on the CPU; the teacher reads the same weights."""
    words, watch = tokenizer(), Watch()
    shape = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    args = SDPOConfig(
        output_dir=str(out), use_cpu=True, bf16=False, max_steps=1, report_to="none",
        num_generations=3, per_device_train_batch_size=3, save_strategy="no",
        max_completion_length=4, teacher_model_kind="live", use_successful_as_teacher=False,
        learning_rate=0.01,
        **{"include_environment_feedback": True, **settings},
    )  # fmt: skip
    row = {"prompt": PROMPT, "answer": "18", "privileged_context": "Of the data set."}
    trainer = CritiqueTrainer(
        model=LlamaForCausalLM(LlamaConfig(vocab_size=len(words), num_attention_heads=1, **shape)),
        reward_funcs=reward,
        args=args,
        train_dataset=Dataset.from_list([row] * 2),
        processing_class=words,
        callbacks=[watch],
    )
    trainer.train()
    return watch, trainer


def test_the_teacher_reads_the_critique_of_an_unsuccessful_sample_and_the_policy_does_not(
    tmp_path: Path,
) -> None:
    wrong = {"status": "ok", "score": 0.0, "critique": CRITIQUE}
    right = {"status": "ok", "score": 1.0, "critique": "It is right."}
    failed = {"status": "unparseable", "score": None, "reason": "no verdict"}
    with FakeService() as service:
        service.replies["/v1/score/batch"] = Reply({"results": [wrong, right, failed]})
        judge = judge_reward(url=service.url, template="critique")
        watch, trainer = trained(tmp_path, judge)
        (call,) = service.calls

    assert {request["template"] for request in call.body["requests"]} == {"critique"}
    keys = [request["metadata"] for request in call.body["requests"]]
    assert keys == [
        {"run": tmp_path.name, "step": 0, "sample": f"0-0-{place}"} for place in range(3)
    ]
    assert [CRITIQUE in text for text in watch.teacher] == [True, False, False]
    assert ["Of the data set." in text for text in watch.teacher] == [False, True, True]
    assert not any("It is right." in text for text in watch.teacher)
    assert watch.policy == [PROMPT] * 3
    used = trainer.state.log_history[0]["self_distillation/feedback_used_fraction"]
    assert used == 1.0


def test_a_run_without_a_judge_or_that_counts_failures_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="distillation_weight: must be 1"):
        trained(tmp_path, judge_reward(url=dead_url()), distillation_weight=0.5)
    with pytest.raises(ValueError, match="reward_funcs: needs a judge_reward"):
        trained(tmp_path, lambda prompts, **_: [0.0] * len(prompts))


def test_critiques_are_shown_to_no_teacher_unless_asked_for(tmp_path: Path) -> None:
    wrong = {"status": "ok", "score": 0.0, "critique": CRITIQUE}
    with FakeService() as service:
        service.replies["/v1/score/batch"] = Reply({"results": [wrong] * 3})
        judge = judge_reward(url=service.url, template="critique")
        watch, _ = trained(tmp_path, judge, include_environment_feedback=False)
    assert watch.teacher and not any(CRITIQUE in text for text in watch.teacher)
