from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from examples.grpo import learner
from examples.grpo.data_server import DataServer, Item
from examples.grpo.learner import Learner, Parts
from examples.grpo.policy import Policy
from examples.grpo.record import Record
from examples.grpo.replay_buffer import ReplayBuffer
from examples.grpo.samples import Group, Sample
from examples.grpo.settings import Settings

SHORT = Settings(steps=3, prompts=2, group=4, evaluate_every=2)


class FakeActor:
    """Runs a call at once, where an actor would later."""

    def __init__(self, part: Any) -> None:
        self._part = part

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._part, name)
        return type("Method", (), {"remote": staticmethod(method)})


class FakeRay:
    """Gives back what is there already."""

    @staticmethod
    def get(reference: Any) -> Any:
        return reference


class FakePolicy:
    """Counts its optimiser steps, and says what was asked of it."""

    def __init__(self, events: list[str]) -> None:
        self.events = events
        self.kept: set[str] = set()

    def train(self, groups: list[Group], learning_rate: float) -> dict[str, float]:
        self.events.append(f"train on {sorted(group.version for group in groups)}")
        return {}

    def save_for_sampler(self, name: str) -> str:
        self.kept.add(f"sampler/{name}")
        return f"sampler/{name}"

    def save_state(self, name: str) -> str:
        self.kept.add(f"state/{name}")
        return f"state/{name}"

    def delete(self, path: str) -> None:
        self.kept.discard(path)


class FakeWorker:
    """Samples of which every other one is right."""

    def __init__(self, events: list[str]) -> None:
        self.events = events

    def sample(
        self, items: list[Item], weights: str, version: int, seeds: list[int], group: int, _: int
    ) -> list[Group]:
        self.events.append(f"sample {group} by {weights}")
        return [
            Group(index, "", one.answer, [1], version, [
                Sample([2], [0.0], str(one.answer if place % 2 else "none"), seed + place)
                for place in range(group)
            ])
            for (index, one), seed in zip(items, seeds, strict=True)
        ]  # fmt: skip

    def judge(self, groups: list[Group]) -> list[Group]:
        groups = copy.deepcopy(groups)
        for sample in (sample for group in groups for sample in group.samples):
            sample.verdict = sample.reward = float(sample.text != "none")
        return groups


@pytest.fixture(autouse=True)
def no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learner, "ray", FakeRay)


def run(settings: Settings, folder: Path) -> tuple[list[str], FakePolicy, Record]:
    events: list[str] = []
    policy, record = FakePolicy(events), Record(folder, settings)
    parts = Parts(
        FakeActor(DataServer(settings.seed)),
        FakeActor(ReplayBuffer(settings.priority, settings.max_staleness)),
        [FakeActor(FakeWorker(events))],
    )
    Learner(settings, cast(Policy, policy), parts, record, lambda _: None).run()
    return events, policy, record


def test_a_synchronous_step_trains_on_what_its_own_weights_sampled(tmp_path: Path) -> None:
    events, _, _ = run(SHORT, tmp_path)

    assert [event for event in events if "sample 1 " not in event] == [
        "sample 4 by sampler/step-0", "train on [0, 0]",
        "sample 4 by sampler/step-1", "train on [1, 1]",
        "sample 4 by sampler/step-2", "train on [2, 2]",
    ]  # fmt: skip


def test_one_step_ahead_the_next_batch_is_sampled_before_this_one_is_trained_on(
    tmp_path: Path,
) -> None:
    events, _, record = run(replace(SHORT, ahead=True), tmp_path)

    assert [event for event in events if "sample 1 " not in event] == [
        "sample 4 by sampler/step-0",
        "sample 4 by sampler/step-0", "train on [0, 0]",
        "sample 4 by sampler/step-1", "train on [0, 0]",
        "train on [1, 1]",
    ]  # fmt: skip
    assert [line["staleness"] for line in record.steps] == [[0, 0], [1, 1], [1, 1]]


def test_only_the_last_checkpoints_are_kept(tmp_path: Path) -> None:
    _, policy, _ = run(SHORT, tmp_path)

    assert policy.kept == {"sampler/step-3", "state/step-3"}


def test_a_resumed_run_takes_the_missing_steps_alone(tmp_path: Path) -> None:
    run(SHORT, tmp_path)
    events, _, record = run(replace(SHORT, steps=4), tmp_path)

    assert [event for event in events if "sample 4 " in event] == ["sample 4 by sampler/step-3"]
    assert [line["step"] for line in record.steps] == [0, 1, 2, 3]
    assert record.evaluated(0) and record.evaluated(2) and record.evaluated(4)


def test_a_finished_run_is_left_as_it_is(tmp_path: Path) -> None:
    run(SHORT, tmp_path)

    assert run(SHORT, tmp_path)[0] == []
