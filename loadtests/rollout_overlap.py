"""Does judging overlap generation? ``python -m loadtests.rollout_overlap``.

SkyRL 0.4.0's ``SkyRLGymGenerator`` rolls out 16 prompts with 4 samples each. The policy only waits:
times are drawn from a seeded log-normal and scaled so that the longest takes 10.7 s, as in the
rule-based phase of the system that this one replaces. With each service, environments are stepped
as their trajectories end, and in the old way (``_serial``: ``generator.batched=true``): one
blocking call after another once all generation is over.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
import typing
from collections import Counter
from pathlib import Path
from random import Random
from typing import Annotated, Any

import numpy as np
import typer
import typing_extensions

from deployments.local import console, deployed
from examples.demo import SAMPLES
from loadtests.recorded_env import SEEN
from loadtests.reports import RESULTS, write_report
from reward_serve import HttpRewardClient
from reward_serve.cli.console import prepare_with_progress

if sys.version_info < (3, 12):  # all that skyrl's generator needs of Python 3.12
    typing.TypedDict = typing_extensions.TypedDict

PROMPTS, GROUP = 16, 4
PHASE_S = 10.7

Row = dict[str, Any]


def main(
    data: Annotated[Path, typer.Option(help="Labelled rows; judged in order.")] = SAMPLES,
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = RESULTS,
    seed: Annotated[int, typer.Option(help="Seed of the generation times.")] = 0,
) -> None:
    """Run every condition; write rollout_overlap.json."""
    lines = data.read_text(encoding="utf-8").splitlines()[: PROMPTS * GROUP]
    rows = [json.loads(line) for line in lines]
    if len(rows) < PROMPTS * GROUP:
        raise typer.BadParameter(f"{data}: {len(rows)} rows; {PROMPTS * GROUP} needed")
    bench = Bench(rows, seed)
    bench.run("rule", None)
    for name, rules_first in (("rules_first", True), ("model_only", False)):
        with deployed(rules_first, cache=False) as service:  # the same rows are judged twice
            with HttpRewardClient(service.url) as client:  # warm-up: the first verdict is slow
                client.score({"response": "It is 17 or 18.", "reference": "18"})
            bench.run(name, service.url)
    report = {"seed": seed, "conditions": bench.conditions}
    write_report(out / "rollout_overlap.json", report)
    console.print_json(data=report)


class Policy:
    """Waits as long as a generation takes, then returns the prompt's row.

    Args:
        rows: the responses.
        tokenizer: for prompts and responses.
        times: seconds per row.
    """

    def __init__(self, rows: list[Row], tokenizer: Any, times: list[float]) -> None:
        self._response_ids = [tokenizer.encode(row["response"]) for row in rows]
        self._rows, self._tokenizer, self._times = rows, tokenizer, times

    async def generate(self, engine_input: Row, model: str | None = None) -> Row:
        """Answer as SkyRL's inference client does."""
        texts = [self._tokenizer.decode(ids) for ids in engine_input["prompt_token_ids"]]
        indices = [int(text.partition("row ")[2].partition(":")[0]) for text in texts]
        await asyncio.sleep(max(self._times[index] for index in indices))
        return {
            "responses": [self._rows[index]["response"] for index in indices],
            "response_ids": [self._response_ids[index] for index in indices],
            "stop_reasons": ["stop"] * len(indices),
            "response_logprobs": None,
        }

    async def finish_session(self, session_id: Any) -> None:
        """Do nothing."""


class Bench:
    """Rolls out the same rows with the same generation times against each service.

    Args:
        rows: responses with their references.
        seed: seed of the generation times.
    """

    def __init__(self, rows: list[Row], seed: int) -> None:
        from transformers import AutoTokenizer

        rng = Random(seed)
        drawn = [rng.lognormvariate(0.0, 0.5) for _ in rows]
        times = [PHASE_S * draw / max(drawn) for draw in drawn]
        self._tokenizer = AutoTokenizer.from_pretrained(
            prepare_with_progress(console, adapter=None)
        )
        self._policy = Policy(rows, self._tokenizer, times)
        self._rows = rows
        self.conditions: dict[str, Row] = {}

    def run(self, name: str, url: str | None) -> None:
        """Run both ways against one service; without ``url``, the rule environment."""
        for key, batched in ((name, False), (f"{name}_serial", True)):
            with console.status(key):
                self.conditions[key] = self._phase(url, batched)

    def _phase(self, url: str | None, batched: bool) -> Row:
        from skyrl.train.generators.skyrl_gym_generator import SkyRLGymGenerator
        from skyrl_gym.envs.registration import register, registry

        from reward_serve_skyrl.config import JudgedTrainConfig
        from reward_serve_skyrl.envs import JUDGE, register_envs

        if JUDGE not in registry:
            register(id=JUDGE, entry_point="loadtests.recorded_env:RecordedJudgeEnv")
        register_envs()
        SEEN.clear()
        env = JUDGE if url else "gsm8k"
        config = JudgedTrainConfig.from_cli_overrides(
            [
                f"environment.env_class={env}",
                f"generator.batched={str(batched).lower()}",
                *([f"environment.skyrl_gym.gsm8k_judge.url={url}"] if url else []),
            ]
        )
        generator = SkyRLGymGenerator(
            config.generator, config.environment.skyrl_gym, self._policy, self._tokenizer
        )
        began = time.perf_counter()
        asyncio.run(generator.generate(self._batch(env), disable_tqdm=True))
        phase_s = time.perf_counter() - began
        rule_s = self.conditions["rule"]["phase_s"] if "rule" in self.conditions else phase_s
        return {"phase_s": phase_s, "ratio_to_rule": phase_s / rule_s, **figures_of(SEEN, phase_s)}

    def _batch(self, env: str) -> Row:
        count = len(self._rows)
        return {
            "prompts": [[{"role": "user", "content": f"row {n}: ..."}] for n in range(count)],
            "env_classes": [env] * count,
            "env_extras": [
                {
                    "reward_spec": {"method": "rule", "ground_truth": row["reference"]},
                    "extra_info": {"split": "train", "index": n // GROUP},
                }
                for n, row in enumerate(self._rows)
            ],
            "sampling_params": None,
            "trajectory_ids": None,
            "batch_metadata": None,
        }


def figures_of(metrics: list[dict[str, float]], phase_s: float) -> Row:
    """Figures of a phase from the metrics of its judged episodes.

    Returns:
        ``verdicts``, ``statuses``; ``judge_s``, the sum of the verdicts' latencies; ``overlap``,
        the share of it that did not lengthen the phase; ``p95_ms`` of a verdict.
    """
    if not metrics:
        return {"verdicts": 0, "statuses": {}, "judge_s": 0.0, "overlap": None, "p95_ms": None}
    waits = [sample["judge_wall_ms"] for sample in metrics]
    statuses = Counter("ok" if sample["judge_ok"] else "failed" for sample in metrics)
    judge_s = sum(waits) / 1000
    return {
        "verdicts": len(metrics),
        "statuses": dict(statuses),
        "judge_s": judge_s,
        "overlap": 1 - min(1.0, max(0.0, phase_s - PHASE_S) / judge_s),
        "p95_ms": float(np.percentile(waits, 95)),
    }


if __name__ == "__main__":
    typer.run(main)
