from typing import Any

import pytest
import yaml

from reward_serve.config.app import AppConfig
from reward_serve_lab.cli.plan import Run
from tests.unit.lab.fakes import invoke


def test_the_printed_file_has_the_replicas_of_the_plan() -> None:
    options = "--device cuda --gpus 1 --rollouts 4096 --step-s 60 --generation-s 30 --rate 20"
    lengths = "--tokens 512 --rate-tokens 256"
    done = invoke("plan", "Qwen/Qwen3-8B", *options.split(), *lengths.split())
    assert done.exit_code == 0, done.output
    file = yaml.safe_load(done.stdout)
    (model,) = AppConfig.parse(file["applications"][0]["args"]).models
    asked = Run(4096, 8, 60.0, 30.0, 10.0, 0.1, 512)
    assert model.autoscaling.min_replicas == asked.replicas(1.0) == model.autoscaling.max_replicas
    assert f"{asked.beyond_s(asked.replicas(1.0)):.2g} s" in done.stderr


def test_a_step_at_once_fits_into_the_queues() -> None:
    options = "--rollouts 20000 --step-s 90 --generation-s 0 --rate 500 --beyond-s 60"
    done = invoke("plan", "judge.yaml", *options.split())
    assert done.exit_code == 0, done.output
    (model,) = AppConfig.parse(yaml.safe_load(done.stdout)["applications"][0]["args"]).models
    assert (model.autoscaling.max_replicas, model.max_queued_items) == (1, 40000)


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
