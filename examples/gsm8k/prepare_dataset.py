"""Prepares GSM8K for SkyRL and verl: ``python -m examples.gsm8k.prepare_dataset --out data/gsm8k``.

Writes ``train.parquet`` and ``validation.parquet``. The variant selects the environment that
computes the reward: the judge's of ``clients/skyrl``, or skyrl_gym's ``gsm8k``. Nothing else
differs, so runs are comparable.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from examples.gsm8k.rows import HUB, read_rows
from reward_serve.rules import final_answer

INSTRUCTION = 'Let\'s think step by step and output the final answer after "####".'
HELD_OUT_EVERY = 20

console = Console()


class Variant(StrEnum):
    """The source of the reward."""

    judge = "judge"
    rule = "rule"


_ENVIRONMENTS = {Variant.judge: "gsm8k_judge", Variant.rule: "gsm8k"}


def main(
    out: Annotated[Path, typer.Option(help="Folder for the two files.")],
    train: Annotated[str, typer.Option(help="JSONL file of question and answer, or hub id.")] = HUB,
    validation: Annotated[
        str | None,
        typer.Option(
            help="The same; default: the hub's test split, or every 20th row of the file."
        ),
    ] = None,
    variant: Annotated[Variant, typer.Option(help="Source of the reward.")] = Variant.judge,
) -> None:
    """Write train.parquet and validation.parquet."""
    rows = {"train": read_rows(train)}
    if validation is not None:
        rows["validation"] = read_rows(validation, "test")
    elif Path(train).is_file():
        rows["validation"] = rows["train"][::HELD_OUT_EVERY]
        rows["train"] = [row for at, row in enumerate(rows["train"]) if at % HELD_OUT_EVERY]
    else:
        rows["validation"] = read_rows(train, "test")
    made = {split: prepared(split_rows, split, variant) for split, split_rows in rows.items()}
    for split, columns in made.items():  # write only once every split is valid
        path = out / f"{split}.parquet"
        write(columns, path)
        console.print(f"{path}: {len(columns)} rows", markup=False, highlight=False)


def prepared(rows: list[dict[str, str]], split: str, variant: Variant) -> list[dict[str, Any]]:
    """The output rows: SkyRL reads ``env_class`` and ``reward_spec``, verl ``reward_model``.

    Raises:
        typer.BadParameter: there are no rows, or a row has no question or no final answer.
    """
    if not rows:
        raise typer.BadParameter(f"{split}: has no rows")
    columns = []
    for index, row in enumerate(rows):
        question, answer = row.get("question"), row.get("answer")
        if not question or not answer or not (truth := _number(answer)):
            raise typer.BadParameter(
                f"{split}: row {index + 1}: needs a question, and an answer that ends in "
                f"'#### <number>'; found {sorted(row)}"
            )
        columns.append(
            {
                "data_source": HUB,
                "prompt": [{"role": "user", "content": f"{question} {INSTRUCTION}"}],
                "env_class": _ENVIRONMENTS[variant],
                "reward_spec": {"method": "rule", "ground_truth": truth},
                "reward_model": {"style": "rule", "ground_truth": truth},
                "extra_info": {
                    "split": split,
                    "index": index,
                    "answer": answer,
                    "question": question,
                },
            }
        )
    return columns


def _number(answer: str) -> str:
    """The final answer without commas, as skyrl_gym and verl compare it."""
    return final_answer(answer).replace(",", "")


def write(columns: list[dict[str, Any]], path: Path) -> None:
    """Write one parquet file."""
    import pandas as pd

    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(columns).to_parquet(path)


if __name__ == "__main__":
    typer.run(main)
