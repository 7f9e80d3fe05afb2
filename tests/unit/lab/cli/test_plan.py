from dataclasses import replace
from typing import Any

import pytest

from reward_serve_lab.cli.plan import Run
from tests.unit.lab.fakes import invoke

# 32 prompts of 8; a replica judges 32 in half a second, 64 verdicts/s.
RUN = Run(rollouts=256, samples=8, step_s=20.0, generation_s=10.0, per_s=64.0, verdict_s=0.5)


@pytest.mark.parametrize(
    ("run", "replicas", "beyond_s"),
    [
        # All at once, the busiest of three replicas has eleven groups: its last verdict is 88th.
        (replace(RUN, generation_s=0.0), 3, 0.5 + 87 / 64),
        (replace(RUN, generation_s=0.0), 32, 0.5 + 7 / 64),
        # Spread, a replica that keeps up leaves a verdict's own time; one that does not, a backlog.
        (RUN, 4, 0.5),
        (replace(RUN, per_s=20.0), 1, 0.5 + 56 / 20),
    ],
)
def test_judging_beyond_generation(run: Run, replicas: int, beyond_s: float) -> None:
    assert run.beyond_s(replicas) == pytest.approx(beyond_s, abs=0.02 + 16 / run.per_s)
    assert run.replicas(run.beyond_s(replicas)) <= replicas


def test_a_longer_verdict_needs_more_replicas_and_a_longer_step_fewer() -> None:
    slow = replace(RUN, per_s=6.4)
    assert RUN.replicas(1.0) == 1 < slow.replicas(1.0)
    assert replace(slow, generation_s=20.0).replicas(1.0) < slow.replicas(1.0)
    assert replace(slow, step_s=40.0, generation_s=40.0).busy(1) == 1.0  # never catches up


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--rate", 10, "--verdict-s", 3], "--beyond-s 1: 4096 replicas end 3 s after"),
        (["--rate", 10, "--tokens", 3], "--tokens and --rate-tokens: give both, or neither"),
        (["--rate", 10, "--generation-s", 61], "--generation-s 61: exceeds --step-s 60"),
    ],
)
def test_what_cannot_be_planned_is_refused_with_the_remedy(
    options: list[Any], message: str
) -> None:
    done = invoke("plan", "bundled", "--rollouts", 256, "--step-s", 60, *options)
    assert done.exit_code != 0
    assert message in " ".join(done.output.replace("│", " ").split())
