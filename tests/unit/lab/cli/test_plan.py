from dataclasses import replace

import pytest

from reward_serve_lab.cli.plan import Run

# 32 prompts of 8; a replica judges 32 in half a second, and one in a tenth.
RUN = Run(256, 8, step_s=20.0, generation_s=10.0, per_s=64.0, verdict_s=0.1, slots=32)
AT_ONCE = replace(RUN, generation_s=0.0)


@pytest.mark.parametrize(
    ("run", "replicas", "beyond_s"),
    [
        pytest.param(AT_ONCE, 3, 88 / 64, id="the busiest has eleven groups"),
        pytest.param(AT_ONCE, 32, 0.1 + 7 * 0.4 / 31, id="a group each"),
        pytest.param(replace(RUN, rollouts=6400), 32, 0.194, id="a third of capacity"),
        pytest.param(replace(RUN, rollouts=6400), 12, 0.318, id="five sixths of it"),
        pytest.param(replace(RUN, rollouts=9600), 10, 5.5, id="a backlog of half a generation"),
        pytest.param(replace(RUN, verdict_s=0.5, rollouts=6400), 12, 0.54, id="room for all"),
    ],
)
def test_judging_beyond_generation(run: Run, replicas: int, beyond_s: float) -> None:
    assert run.beyond_s(replicas) == pytest.approx(beyond_s, rel=0.02)
    assert run.replicas(run.beyond_s(replicas)) <= replicas


def test_a_longer_verdict_needs_more_replicas_and_a_longer_step_fewer() -> None:
    slow = replace(RUN, per_s=6.4, slots=1)
    assert RUN.replicas(1.0) == 1 < slow.replicas(1.0)
    assert replace(slow, generation_s=20.0).replicas(1.0) < slow.replicas(1.0)
    assert replace(slow, step_s=40.0, generation_s=40.0).busy(1) == 1.0  # never catches up
