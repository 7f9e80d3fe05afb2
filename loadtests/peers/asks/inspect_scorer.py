"""inspect_ai's ``model_graded_fact`` over answers that are there already, in one ``eval``.

Its options as documented in "Errors and Limits" and "Parallelism": a failed sample does not end the
evaluation, and an attempt is abandoned after 20 s and retried, for 60 s a sample in all.
"""

from __future__ import annotations

import tempfile
from typing import Any

from inspect_ai import Task, eval_async
from inspect_ai.dataset import Sample
from inspect_ai.model import GenerateConfig, ModelOutput, get_model
from inspect_ai.scorer import Score, Target, accuracy, model_graded_fact, scorer
from inspect_ai.solver import TaskState, solver

from loadtests.peers.lines import CALL_S, MAX_TOKENS, MODEL, URL, Row, answer, emit

limits = GenerateConfig(
    max_connections=64, attempt_timeout=int(CALL_S), timeout=60, max_tokens=MAX_TOKENS,
    temperature=0.0,
)  # fmt: skip
grader = get_model(f"openai-api/peer/{MODEL}", base_url=URL, api_key="none", config=limits)


@solver
def answered() -> Any:
    """Takes the response of the row."""

    async def solve(state: TaskState, generate: Any) -> TaskState:
        state.output = ModelOutput.from_content("policy", state.metadata["response"])
        return state

    return solve


@scorer(metrics=[accuracy()])
def emitted() -> Any:
    """Emits what the grader's scorer gives, which is NaN if it gave no grade."""
    graded = model_graded_fact(model=grader)

    async def score(state: TaskState, target: Target) -> Score:
        given = await graded(state, target)
        values = {"C": 1.0, "I": 0.0}
        emit(row=state.sample_id, score=values.get(str(given.value)), reason=str(given.value))
        return given

    return score


async def step(rows: list[Row]) -> None:
    """One evaluation; a sample that failed emits nothing and is absent when it is done."""
    data = [
        Sample(
            id=row["row"], input=row["question"], target=row["reference"],
            metadata={"response": row["response"]},
        )
        for row in rows
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as logs:
        await eval_async(
            Task(dataset=data, solver=answered(), scorer=emitted()), model="mockllm/model",
            max_samples=len(rows), fail_on_error=False, log_dir=logs,
        )  # fmt: skip


if __name__ == "__main__":
    answer(step)
