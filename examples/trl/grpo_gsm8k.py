"""GRPO with TRL against the judge: ``python -m examples.trl.grpo_gsm8k``, on a CPU in minutes.

The policy is the bundled 135M model, untrained, and the prompts are the sample set's: enough to see
rewards arrive and steps be taken, not to see it learn. Without ``--url`` the bundled judge is
deployed first, beside it.
"""

from __future__ import annotations

import json
import math
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from deployments.local import console, deployed
from examples.demo import SAMPLES
from reward_serve.cli.console import prepare_with_progress


def main(
    url: Annotated[
        str | None, typer.Option(help="A running service; else one is deployed.")
    ] = None,
    steps: Annotated[int, typer.Option(min=1)] = 4,
    generations: Annotated[int, typer.Option(min=2, help="Samples a prompt.")] = 4,
    max_tokens: Annotated[int, typer.Option(min=1, help="Of a completion.")] = 48,
    out: Annotated[Path, typer.Option(help="Rewards and their plot go here.")] = Path("grpo-out"),
) -> None:
    """Train a few steps; write rewards.json and rewards.png."""
    url = url or os.environ.get("REWARD_SERVE_URL")
    policy = prepare_with_progress(console, adapter=None)
    with ExitStack() as stack:
        judge = url or stack.enter_context(deployed()).url
        history = train(policy, judge, steps, generations, max_tokens, out)
    kept = ("step", "reward", "reward_std", "judge/ok", "loss")
    rows = [{k: entry.get(k) for k in kept} for entry in history if "reward" in entry]
    (out / "rewards.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    plot([row["reward"] for row in rows], out / "rewards.png")
    for row in rows:
        console.print(", ".join(f"{key} {value}" for key, value in row.items()), highlight=False)
    console.print(f"rewards: {out / 'rewards.json'}, {out / 'rewards.png'}", markup=False)


def train(
    policy: Path, url: str, steps: int, generations: int, max_tokens: int, out: Path
) -> list[dict[str, Any]]:
    """Take GRPO steps with the judge's scores as reward; TRL's log, an entry a step."""
    from datasets import Dataset
    from transformers import AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer

    from reward_serve_trl import judge_reward

    config = GRPOConfig(
        output_dir=str(out),
        use_cpu=True,
        bf16=False,
        max_steps=steps,
        num_generations=generations,
        per_device_train_batch_size=generations,
        max_completion_length=max_tokens,
        learning_rate=1e-5,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        seed=0,
    )
    trainer = GRPOTrainer(
        model=str(policy),
        processing_class=AutoTokenizer.from_pretrained(policy),
        args=config,
        train_dataset=Dataset.from_list(prompts()),
        reward_funcs=[judge_reward(url=url)],
    )
    trainer.train()
    history: list[dict[str, Any]] = trainer.state.log_history
    return history


def prompts() -> list[dict[str, Any]]:
    """The sample set's questions, once each, as conversations; ``answer`` is the gold solution."""
    rows = [json.loads(line) for line in SAMPLES.read_text(encoding="utf-8").splitlines()]
    answers = {row["question"]: row["reference"] for row in rows}
    ask = "End with the final answer on a line of its own: #### <number>"
    return [
        {
            "prompt": [{"role": "user", "content": f"{question}\n{ask}"}],
            "question": question,
            "answer": answer,
        }
        for question, answer in answers.items()
    ]


def plot(rewards: list[float | None], path: Path) -> None:
    """Mean reward per step; none where no sample had a verdict."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
    known = [math.nan if reward is None else reward for reward in rewards]
    axes.plot(range(1, len(known) + 1), known, marker="o")
    axes.set(xlabel="step", ylabel="mean reward", ylim=(-0.05, 1.05))
    figure.savefig(path, dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    typer.run(main)
