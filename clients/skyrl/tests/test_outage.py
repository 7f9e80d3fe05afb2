"""SkyRL 0.4.0's synchronous training loop and generator, through a service that dies in mid-run."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from clients.skyrl.tests import small_run
from clients.skyrl.tests.cpu_training import Dispatch, on_cpu
from clients.skyrl.tests.small_run import Logged
from reward_serve.client.rows import PROBED_ROWS
from reward_serve_skyrl import main
from tests.fake_service import FakeService

PROMPTS, SAMPLES = 4, 2
A_STEP = PROMPTS * SAMPLES
LIFE = PROBED_ROWS + 1 + A_STEP + SAMPLES
"""Verdicts before the service dies: the checks before training, a step, and one prompt."""


class Policy(small_run.Policy):
    """Answers each prompt rightly and wrongly in turn; in a step, all but one prompt's late."""

    def __init__(self, tokenizer: Any) -> None:
        super().__init__(tokenizer)
        self._asked: list[int] = []

    async def text(self, number: int) -> str:
        step, wrong = len(self._asked) // A_STEP, self._asked.count(number) % 2
        self._asked.append(number)
        await asyncio.sleep(0 if number == self._asked[step * A_STEP] else 1)
        return f"#### {number + 1 - wrong}"


class Experiment(main.SyncExp):
    """The entry point's experiment, its models a table on the CPU."""

    logged: Logged
    dispatch: Dispatch

    def get_inference_client(self) -> Policy:
        return Policy(self.tokenizer)

    def get_trainer(self, *args: Any, **kwargs: Any) -> Any:
        trainer = super().get_trainer(*args, **kwargs)
        trainer.build_models = lambda *_: None
        trainer.dispatch = Experiment.dispatch = Dispatch(self.cfg)
        trainer.ref_model = None
        return trainer

    def get_tracker(self) -> Logged:
        Experiment.logged = Logged()
        return Experiment.logged


def test_an_outage_is_in_the_metrics_and_not_in_the_gradient(
    tmp_path: Path, tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_run.write_rows(tmp_path)
    small_run.without_worker_classes(monkeypatch)
    monkeypatch.setattr(main, "SyncExp", Experiment)
    with FakeService() as service, on_cpu():

        def die(call: Any) -> None:
            if sum(len(c.body["requests"]) for c in service.calls) > LIFE:
                raise ConnectionAbortedError

        service.before_reply = die
        main.train(main.read_config(settings_of(tmp_path, tokenizer.name_or_path, service.url)))

    steps, dispatch = Experiment.logged.steps, Experiment.dispatch
    shares = [steps[n]["reward/undecided_share"] for n in (1, 2, 3)]
    assert shares == [0, 1 - 1 / PROMPTS, 1]
    assert [steps[n]["environment/judge_undecided_mean"] for n in (1, 2, 3)] == shares
    assert dispatch.trained == [A_STEP, SAMPLES]
    assert len(dispatch.gradients) == 2
    assert all(gradient.abs().max() > 0 for gradient in dispatch.gradients)
    read = {n: [row[:1] + row[6:7] for row in rows] for n, rows in Experiment.logged.tables.items()}
    assert read[1] == [(1, "ok")] * A_STEP
    assert read[2].count((2, "ok")) == SAMPLES
    assert {step for step, _ in read[3]} == {3}
    assert steps[2]["reward/avg_raw_reward"] == 0.5
    assert "reward/avg_raw_reward" not in steps[3]


def settings_of(data: Path, policy: str, url: str) -> list[str]:
    """A small synchronous run, whose judge alone decides."""
    return [
        *small_run.settings(data, policy, url, PROMPTS, SAMPLES),
        "environment.skyrl_gym.gsm8k_judge.on_failure=none",
        "environment.skyrl_gym.gsm8k_judge.timeout_s=2",
        "environment.skyrl_gym.gsm8k_judge.max_undecided=1",
        f"environment.skyrl_gym.gsm8k_judge.samples={data}/samples.jsonl",
        "environment.skyrl_gym.gsm8k_judge.samples_every=1",
    ]
