"""TRL's ``GRPOTrainer`` awaits an async reward function once a batch; ``None`` is NaN.

The function is ours, in the form of its documentation ("Asynchronous reward function" and
"Multi-task", where a sample may have no reward); the trainer's own method asks it.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from transformers import TrainerState
from trl import GRPOTrainer
from trl.trainer.utils import start_event_loop_in_daemon

from loadtests.peers.asks.plain import verdict
from loadtests.peers.lines import Row, answer, emit


async def reward(prompts: list[str], completions: list[str], **columns: Any) -> list[float | None]:
    """A verdict a completion; None where the judge gave none."""
    rows = [
        {"question": question, "response": response, "reference": reference}
        for question, response, reference in zip(
            prompts, completions, columns["reference"], strict=True
        )
    ]
    verdicts = await asyncio.gather(*map(verdict, rows), return_exceptions=True)
    return [None if isinstance(each, BaseException) else each for each in verdicts]


trainer: Any = GRPOTrainer.__new__(GRPOTrainer)
_, trainer.async_loop, ready = start_event_loop_in_daemon(name="rewards")
ready.wait()
trainer.accelerator = SimpleNamespace(
    device="cpu", gather=lambda rewards: rewards, is_main_process=False
)
trainer.reward_funcs, trainer.reward_func_names = [reward], ["reward"]
trainer.reward_processing_classes, trainer.environments = [None], None
trainer.state, trainer.model = TrainerState(), SimpleNamespace(training=True)
trainer._step, trainer.args = 0, SimpleNamespace(report_to=[])


async def step(rows: list[Row]) -> None:
    """All rows at once, as a batch of the trainer."""
    columns = ([row[name] for row in rows] for name in ("question", "response"))
    ids = [[0]] * len(rows)
    scores = await asyncio.to_thread(trainer._calculate_rewards, rows, *columns, ids)
    for row, score in zip(rows, scores[:, 0].tolist(), strict=True):
        emit(row=row["row"], score=None if score != score else score)


if __name__ == "__main__":
    answer(step)
