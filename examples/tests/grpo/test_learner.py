import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from examples.grpo import learner
from examples.grpo.data_server import DataServer, Item, read_data
from examples.grpo.learner import Learner, NoVerdictError, Parts
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

    @staticmethod
    def wait(references: list[Any], **_: Any) -> tuple[list[Any], list[Any]]:
        return references, []


class FakePolicy:
    """Counts its optimiser steps, and says what was asked of it."""

    def __init__(self, events: list[str]) -> None:
        self.events = events
        self.kept: set[str] = set()

    def train(self, groups: list[Group], learning_rate: float) -> dict[str, float]:
        self.events.append(f"train {' '.join(str(group.version) for group in groups)}")
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
    """Samples of which every other one is right; without a judge, undecided."""

    def __init__(self, events: list[str], judge: bool) -> None:
        self.events = events
        self.judges = judge

    def sample(
        self, items: list[Item], weights: str, version: int, seeds: list[int], group: int, _: int
    ) -> list[Group]:
        what = "sample" if group > 1 else "evaluate"
        self.events.append(f"{what} {weights.removeprefix('sampler/step-')}")
        return [
            Group(index, "", problem.answer, [1], version, [
                Sample([2], [0.0], str(problem.answer if place % 2 else "none"), seed + place)
                for place in range(group)
            ])
            for (index, problem), seed in zip(items, seeds, strict=True)
        ]  # fmt: skip

    def judge(self, groups: list[Group], step: int) -> list[Group]:
        groups = copy.deepcopy(groups)
        for sample in (sample for group in groups for sample in group.samples):
            if self.judges:
                sample.verdict = sample.reward = float(sample.text != "none")
        return groups


@pytest.fixture(autouse=True)
def no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learner, "ray", FakeRay)


def run(
    settings: Settings, folder: Path, policy: FakePolicy | None = None, judge: bool = True
) -> tuple[list[str], FakePolicy, Record]:
    policy = policy or FakePolicy([])
    events, record = policy.events, Record(folder, settings)
    parts = Parts(
        FakeActor(DataServer(settings.seed, read_data(""))),
        FakeActor(ReplayBuffer(settings)),
        [FakeActor(FakeWorker(events, judge))],
    )
    Learner(settings, cast(Policy, policy), parts, record, at_once, lambda _: None).run()
    return events, policy, record


def at_once(done: Callable[[float], bool]) -> None:
    assert done(0.0)


@pytest.mark.parametrize(
    ("changes", "steps"),
    [
        ({}, ["sample 0, train 0 0", "sample 1, train 1 1", "sample 2, train 2 2"]),
        ({"ahead": True}, ["sample 0, sample 0, train 0 0", "sample 1, train 0 0", "train 1 1"]),
        (
            {"replay_updates": 2, "replay_staleness": 1},
            [
                "sample 0, train 0 0",
                "sample 1, train 1 1, train 0 0, train 0 0",
                "sample 2, train 2 2, train 1 1, train 1 1",
            ],
        ),
    ],
    ids=["synchronous", "ahead", "replay"],
)
def test_a_mode_determines_whose_samples_a_step_trains_on(
    changes: dict[str, Any], steps: list[str], tmp_path: Path
) -> None:
    events, _, record = run(replace(SHORT, **changes), tmp_path)

    assert ", ".join(event for event in events if "evaluate" not in event) == ", ".join(steps)
    stale = [0, 1, 1] if "ahead" in changes else [0, 0, 0]
    assert [line["staleness"] for line in record.steps] == [[age] * 2 for age in stale]


def test_a_resumed_run_takes_the_missing_steps_alone(tmp_path: Path) -> None:
    _, policy, _ = run(SHORT, tmp_path)
    assert policy.kept == {"sampler/step-3", "state/step-3"}  # the last checkpoints
    assert run(SHORT, tmp_path)[0] == []
    events, _, record = run(replace(SHORT, steps=4), tmp_path)

    assert [event for event in events if "sample" in event] == ["sample 3"]
    assert [line["step"] for line in record.steps] == [0, 1, 2, 3]
    assert record.evaluated(0) and record.evaluated(2) and record.evaluated(4)
    assert not record.evaluated(3)


def test_a_run_ends_where_the_judge_stays_away_and_trains_on_nothing(tmp_path: Path) -> None:
    policy = FakePolicy([])
    with pytest.raises(NoVerdictError, match="no verdict in 3 steps: check the reward service"):
        run(replace(SHORT, steps=9), tmp_path, policy, judge=False)

    lines = Record(tmp_path, replace(SHORT, steps=9)).steps
    assert [(line["reward"], line["undecided"]) for line in lines] == [(None, 8)] * 2
    assert [event for event in policy.events if "train" in event] == ["train "] * 2


class FullDisk(FakePolicy):
    """Saves two states, and then no more."""

    def save_state(self, name: str) -> str:
        if name == "step-3":
            self.kept.add(f"state/{name}")  # in part
            raise ValueError("No space left on device")
        return super().save_state(name)


def test_a_full_disk_at_a_checkpoint_ends_a_run_which_then_goes_on(tmp_path: Path) -> None:
    policy = FullDisk([])
    with pytest.raises(ValueError, match="No space left on device"):
        run(SHORT, tmp_path, policy)
    assert len(Record(tmp_path, SHORT).steps) == 2

    after = FakePolicy([])
    after.kept = policy.kept
    run(SHORT, tmp_path, after)

    assert [line["step"] for line in Record(tmp_path, SHORT).steps] == [0, 1, 2]
    assert {path for path in after.kept if "state" in path} == {"state/step-3"}
