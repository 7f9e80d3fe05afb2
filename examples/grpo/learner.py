"""The learner: for each step, samples, has the samples judged, trains, saves and records."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from statistics import fmean
from typing import Any

import ray

from examples.grpo.data_server import Item
from examples.grpo.policy import Policy
from examples.grpo.record import Record
from examples.grpo.samples import Group, group_advantages, right_by_format, right_by_value
from examples.grpo.settings import Settings


def inject(groups: list[Group], settings: Settings, step: int) -> int:
    """Fail a share ``settings.failing`` of the verdicts, by seed and step; return their number."""
    failed = 0
    for group in groups:
        rng = Random(f"{settings.seed}/{step}/{group.problem}")
        for sample in group.samples:
            if rng.random() < settings.failing:
                sample.reward = 0.0 if settings.failed_as == "zero" else None
                failed += 1
    return failed


_SILENT_STEPS = 3
_LAPS = ("sample_s", "judge_s", "train_s", "weights_s")
_POLL_S = 0.15  # SkyRL's engine polls for requests every 0.1 s
_EVALUATION_SEED = 1_000_000_000


@dataclass(frozen=True)
class Parts:
    """The actors of a run: a ``DataServer``, a ``ReplayBuffer`` and ``RolloutWorker``."""

    data: Any
    buffer: Any
    workers: list[Any]


class NoVerdictError(RuntimeError):
    """The reward service has stopped returning verdicts."""


@dataclass
class _Rollout:
    """A step's batch in progress: references to sampled and to judged groups, one per worker."""

    sampled: list[Any]
    judged: list[Any]
    launched: float = field(default_factory=time.perf_counter)
    awaited: bool = False


class Learner:
    """Trains a policy, which is in its state after the record's last step.

    ``until`` is that of the policy's ``Endpoint``; ``report`` gets a line for each step.
    """

    def __init__(
        self,
        settings: Settings,
        policy: Policy,
        parts: Parts,
        record: Record,
        until: Callable[[Callable[[float], bool]], None],
        report: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._policy = policy
        self._parts = parts
        self._record = record
        self._until = until
        self._report = report
        self._rollouts: deque[_Rollout] = deque()
        self._weights, self._version = "", 0
        self._silent = 0
        self._saver = ThreadPoolExecutor(max_workers=1)

    def run(self) -> None:
        """Take the remaining steps.

        Raises:
            EndpointError: the policy's endpoint is gone.
            NoVerdictError: no sample of three steps in a row had a verdict.
        """
        first = len(self._record.steps)
        if first >= self._settings.steps:
            return
        if first:
            self._discard_unrecorded()
        self._version = first
        self._weights = self._policy.save_for_sampler(f"step-{first}")
        if not first and self._settings.evaluate_every:
            self._evaluate(first)
        if self._settings.ahead:
            self._launch(first)
            self._await_samples()
        self._launch(first + self._settings.ahead)
        for step in range(first, self._settings.steps):
            self._step(step)

    def _discard_unrecorded(self) -> None:
        """Delete the state of a step that was saved but not recorded."""
        owner = self._record.steps[-1]["state"].rpartition("/")[0]
        self._policy.delete(f"{owner}/step-{len(self._record.steps) + 1}")

    def _step(self, step: int) -> None:
        sample_s = self._await_samples()
        times = [time.perf_counter()]

        def lap() -> None:
            times.append(time.perf_counter())

        rollout = self._rollouts.popleft()
        groups: list[Group] = [g for part in self._get(rollout.judged) for g in part]
        lap()
        self._check_verdicts(groups)
        failed = inject(groups, self._settings, step)
        for group in groups:
            group.advantages = group_advantages([sample.reward for sample in group.samples])
        self._parts.buffer.add.remote(groups)
        batch = ray.get(self._parts.buffer.take.remote(self._settings.train_groups, step))
        metrics = self._policy.train(batch, self._settings.learning_rate)
        replayed = self._replay(step)
        lap()
        stale, self._weights = self._weights, self._policy.save_for_sampler(f"step-{step + 1}")
        self._version = step + 1
        lap()
        # SkyRL's engine batches waiting prompts, so send them while it saves.
        saving = self._saver.submit(self._policy.save_state, f"step-{self._version}")
        every = self._settings.evaluate_every
        evaluate = every > 0 and self._version % every == 0
        if not evaluate:
            time.sleep(_POLL_S)
            self._launch(self._version + self._settings.ahead)
        laps = (after - before for before, after in pairwise(times))
        seconds = dict(zip(_LAPS, (sample_s, *laps), strict=True))
        trained = {
            "injected": failed,
            "trained_groups": len(batch),
            "staleness": [step - group.version for group in batch],
            "replayed_staleness": [step - group.version for group in replayed],
            "grad_norm": metrics.get("skyrl.ai/grad_norm"),
        }
        self._finish(step, groups, {**trained, **seconds}, saving.result(), stale)
        if evaluate:
            self._evaluate(self._version)
            self._launch(self._version + self._settings.ahead)

    def _replay(self, step: int) -> list[Group]:
        """Train on groups of earlier steps; returns them, in order."""
        settings, replayed = self._settings, []
        for update in range(settings.replay_updates):
            draw = self._parts.buffer.replay.remote(settings.train_groups, step, update)
            batch = ray.get(draw)
            if batch:
                self._policy.train(batch, settings.learning_rate)
            replayed += batch
        return replayed

    def _get(self, references: list[Any]) -> Any:
        def done(timeout_s: float) -> bool:
            return not ray.wait(references, num_returns=len(references), timeout=timeout_s)[1]

        self._until(done)
        return ray.get(references)

    def _check_verdicts(self, groups: list[Group]) -> None:
        decided = any(s.verdict is not None for group in groups for s in group.samples)
        self._silent = 0 if decided else self._silent + 1
        if self._silent == _SILENT_STEPS:
            raise NoVerdictError(f"no verdict in {self._silent} steps: check the reward service")

    def _launch(self, step: int) -> None:
        """Start sampling and judging a step's batch, unless the run is over."""
        settings = self._settings
        if step >= settings.steps:
            return
        items = ray.get(self._parts.data.batch.remote(step, settings.prompts))
        first = (settings.seed * 100_000 + step * settings.prompts) * settings.group
        seeds = [first + place * settings.group for place in range(len(items))]
        sampled = self._sampled(items, seeds, settings.group)
        judged = [
            worker.judge.remote(part, step)
            for worker, part in zip(self._parts.workers, sampled, strict=False)
        ]
        self._rollouts.append(_Rollout(sampled, judged))

    def _await_samples(self) -> float:
        """Wait for the newest batch's samples; return seconds since launch, 0 if awaited before."""
        newest = self._rollouts[-1]
        if newest.awaited:
            return 0.0
        self._get(newest.sampled)
        newest.awaited = True
        return time.perf_counter() - newest.launched

    def _sampled(self, items: list[Item], seeds: list[int], group: int) -> list[Any]:
        limit = self._settings.max_tokens
        workers = self._parts.workers
        share = -(-len(items) // len(workers))
        return [
            worker.sample.remote(
                items[at : at + share],
                self._weights,
                self._version,
                seeds[at : at + share],
                group,
                limit,
            )
            for worker, at in zip(workers, range(0, len(items), share), strict=False)
        ]

    def _evaluate(self, step: int) -> None:
        """Sample each held-out problem once and record the accuracy."""
        if self._record.evaluated(step):
            return
        items = ray.get(self._parts.data.held_out.remote())
        seeds = [_EVALUATION_SEED + place for place in range(len(items))]
        groups = [g for part in self._get(self._sampled(items, seeds, 1)) for g in part]
        answers = [(group.samples[0].text, group.answer) for group in groups]
        by_value = [right_by_value(*answer) for answer in answers]
        by_format = [right_by_format(*answer) for answer in answers]
        line = {"step": step, "by_value": fmean(by_value), "by_format": fmean(by_format)}
        self._record.evaluation({**line, "right": [int(is_right) for is_right in by_value]})
        self._report(
            f"after {step} steps: held-out accuracy {line['by_value']:.3f} by value, "
            f"{line['by_format']:.3f} by format"
        )

    def _finish(
        self,
        step: int,
        groups: list[Group],
        figures: dict[str, Any],
        state: str,
        stale: str,
    ) -> None:
        """Record the step, then delete the checkpoints that it replaces."""
        samples = [(group, sample) for group in groups for sample in group.samples]
        decided = [sample.reward for _, sample in samples if sample.reward is not None]
        line = {
            "step": step,
            "reward": fmean(decided) if decided else None,
            "by_value": fmean(right_by_value(s.text, g.answer) for g, s in samples),
            "by_format": fmean(right_by_format(s.text, g.answer) for g, s in samples),
            "undecided": sum(sample.reward is None for _, sample in samples),
            **figures,
            "state": state,
        }
        replaced = [self._record.steps[-1]["state"]] if self._record.steps else []
        self._record.step(line, groups)
        for path in (*replaced, stale):
            self._policy.delete(path)
        self._report(_in_words(line))


def _in_words(line: dict[str, Any]) -> str:
    reward = "none" if line["reward"] is None else f"{line['reward']:.2f}"
    seconds = ", ".join(f"{name[:-2]} {line[name]:.1f}" for name in line if name.endswith("_s"))
    return (
        f"step {line['step'] + 1}: reward {reward}, right {line['by_value']:.2f}, "
        f"trained on {line['trained_groups']} groups; seconds: {seconds}"
    )
