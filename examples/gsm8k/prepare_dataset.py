"""Prepares a data set for SkyRL and verl: ``python -m examples.gsm8k.prepare_dataset --out DIR``.

GSM8K, MATH-500 (``--set math500``) or a file of questions and answers (``--set FILE``). Writes
``train.parquet`` and ``validation.parquet``. The variant selects the environment that computes the
reward: the judge's of ``clients/skyrl``, or skyrl_gym's ``gsm8k``. Nothing else differs, so runs
are comparable.

``--members N`` writes pairs for membership inference: N rows that the model was trained on, and N
that it was not; the policy is asked to reproduce a row's solution. Rows and draw are those of
``math500_match_custom_mia.py --mia`` (``oseyosey/verl``) with unused examples.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Annotated, Any

import typer
from rich.console import Console

from examples.gsm8k.rows import HUB, SETS, read_rows
from reward_serve.client.rows import text_of, texts_of
from reward_serve_answers import final_answer
from reward_serve_answers.values import parse_number

INSTRUCTION = 'Let\'s think step by step and output the final answer after "####".'
HELD_OUT_EVERY = 20
SEED = 42  # of the draw of members, as in the original
_QUESTIONS = ("question", "problem", "prompt")
_ANSWERS = ("answer", "answers", "reference", "references", "solution")
"""Names of a row's columns; the first that a row has is read."""

console = Console()


class Variant(StrEnum):
    """The source of the reward."""

    judge = "judge"
    rule = "rule"


_ENVIRONMENTS = {Variant.judge: "gsm8k_judge", Variant.rule: "gsm8k"}


def _refused(value: str | None) -> str | None:
    if value:
        raise typer.BadParameter(
            "an option of the original script: --data-source NAME sets the rows' data source, such "
            "as llm_judge_remote_custom; --members N pairs N rows with unused ones"
        )
    return value


def main(
    out: Annotated[Path, typer.Option("--out", "--output_dir", help="Folder for the files.")],
    train: Annotated[
        str,
        typer.Option(
            "--set",
            "--train",
            help="gsm8k, math500, a hub id, or a JSONL, parquet or CSV file of questions (or "
            "problems) and answers, of which a row may have several.",
        ),
    ] = HUB,
    validation: Annotated[
        str | None,
        typer.Option(help="The same; default: GSM8K's test split, otherwise every 20th row."),
    ] = None,
    variant: Annotated[Variant, typer.Option(help="Source of the reward.")] = Variant.judge,
    data_source: Annotated[
        str | None,
        typer.Option(help="The rows' data_source, by which verl chooses a scorer."),
    ] = None,
    members: Annotated[
        int | None,
        typer.Option(
            "--members", "--subset_size", min=1, help="Write N pairs for membership inference."
        ),
    ] = None,
    mia: Annotated[bool, typer.Option("--mia", "--include_target_gt", hidden=True)] = False,
    _: Annotated[
        str | None,
        typer.Option("--match_type", "--mia_nonmember_method", hidden=True, callback=_refused),
    ] = None,
) -> None:
    """Write train.parquet and validation.parquet."""
    if mia and not members:
        raise typer.BadParameter("--mia: give the number of members, --members N")
    if members and (variant is Variant.rule or validation):
        raise typer.BadParameter("use --members without --variant rule and --validation")
    pairs = {"train": membership_pairs(train, members)} if members else {}
    data_source = data_source or ("llm_judge_remote_custom" if pairs else None)
    for split, columns in (pairs or splits(train, validation, variant)).items():
        path = out / f"{split}.parquet"
        write([row | {"data_source": data_source or row["data_source"]} for row in columns], path)
        console.print(f"{path}: {len(columns)} rows", markup=False, highlight=False)


def splits(
    train: str, validation: str | None = None, variant: Variant = Variant.judge
) -> dict[str, list[dict[str, Any]]]:
    """The output rows of ``train`` and ``validation``, all of them valid.

    Raises:
        typer.BadParameter: as ``read_rows`` and ``prepared``.
    """
    rows = {"train": read_rows(train)}
    if validation is not None or SETS.get(train, train) == HUB:
        rows["validation"] = read_rows(validation or train, "test")
    else:
        rows["validation"] = rows["train"][::HELD_OUT_EVERY]
        rows["train"] = [row for at, row in enumerate(rows["train"]) if at % HELD_OUT_EVERY]
    source = _source(train, rows["train"])
    return {split: prepared(raw, split, variant, source) for split, raw in rows.items()}


def prepared(
    rows: list[dict[str, Any]], split: str, variant: Variant, source: str = HUB
) -> list[dict[str, Any]]:
    """The output rows: SkyRL reads ``env_class`` and ``reward_spec``, verl ``reward_model``.

    Raises:
        typer.BadParameter: there are no rows, or a row has no question or no answer, or, for the
            rule, no number as its answer.
    """
    if not rows:
        raise typer.BadParameter(f"{split}: has no rows")
    parsed = []
    for number, row in enumerate(rows, 1):
        question, answers = text_of(_first(row, _QUESTIONS)), texts_of(_first(row, _ANSWERS))
        truths = [truth for answer in answers if (truth := _final(answer))]
        if not question or not truths or (variant is Variant.rule and not _is_number(truths)):
            raise typer.BadParameter(
                f"{split}: row {number}: needs a question and an answer"
                f"{', which is a number' if variant is Variant.rule else ''}; found {sorted(row)}"
            )
        parsed.append((question, answers, truths))
    has_lists = any(len(truths) > 1 for *_, truths in parsed)  # a parquet column has one type
    return [
        {
            "data_source": source,
            "prompt": [{"role": "user", "content": f"{question} {INSTRUCTION}"}],
            "env_class": _ENVIRONMENTS[variant],
            "reward_spec": {"method": "rule", "ground_truth": truths if has_lists else truths[0]},
            "reward_model": {"style": "rule", "ground_truth": truths if has_lists else truths[0]},
            "extra_info": {
                "split": split,
                "index": index,
                "answer": "\n".join(answers),
                "question": question,
                "problem": question,
            },
        }
        for index, (question, answers, truths) in enumerate(parsed)
    ]


def _first(row: dict[str, Any], names: Sequence[str]) -> Any:
    return next((row[name] for name in names if row.get(name) is not None), None)


def membership_pairs(data: str, members: int) -> list[dict[str, Any]]:
    """The output rows of ``members`` rows of a set and of as many others, in random order.

    Raises:
        typer.BadParameter: as ``read_rows`` and ``prepared``, or there are too few rows.
    """
    rows = [
        row | {"answer": text_of(row.get("solution")) or row.get("answer")}
        for row in read_rows(data)
    ]
    columns = prepared(rows, "train", Variant.judge, _source(data, rows))
    problems = [row["extra_info"]["problem"] for row in columns]
    chosen = sorted(Random(SEED).sample(range(len(columns)), min(members, len(columns))))
    seen = {problems[at] for at in chosen}
    unseen = [at for at, problem in enumerate(problems) if problem not in seen]
    if members > len(unseen):
        raise typer.BadParameter(
            f"--members {members}: of the set's {len(columns)} rows, {len(unseen)} are left as "
            "non-members; lower it"
        )
    rest = sorted(Random(SEED + 1).sample(unseen, members))
    pairs = [_marked(columns[at], at, pair, "original") for pair, at in enumerate(chosen)]
    pairs += [_marked(columns[at], at, pair, "unused_original") for pair, at in enumerate(rest)]
    Random(SEED).shuffle(pairs)
    for index, row in enumerate(pairs):
        row["extra_info"]["index"] = index
    return pairs


def _marked(row: dict[str, Any], at: int, pair: int, kind: str) -> dict[str, Any]:
    info = row["extra_info"]
    return row | {
        "prompt": [{"role": "user", "content": info["problem"]}],
        "reward_spec": {"method": "rule", "ground_truth": info["answer"]},
        "reward_model": {"style": "model", "ground_truth": info["answer"]},
        "extra_info": {name: info[name] for name in ("split", "problem", "question")}
        | {"is_member": kind == "original", "pair": pair, "pair_type": kind}
        | {"original_idx": at, "target_gt": info["answer"]},
    }


def _source(data: str, rows: list[dict[str, Any]]) -> str:
    """The data set's name, by which trainers choose a scorer and group their metrics."""
    if not Path(data).is_file():
        return SETS.get(data, data)
    is_gsm8k = all("####" in str(row.get("answer")) for row in rows)
    return HUB if is_gsm8k else Path(data).stem


def _final(answer: str) -> str:
    """The text after the last ``####``, or all; a number without commas, as trainers compare it."""
    final = final_answer(answer)
    return final.replace(",", "") if parse_number(final) else final


def _is_number(truths: list[str]) -> bool:
    return len(truths) == 1 and parse_number(truths[0]) is not None


def write(columns: list[dict[str, Any]], path: Path) -> None:
    """Write one parquet file."""
    import pandas as pd

    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(columns).to_parquet(path)


if __name__ == "__main__":
    typer.run(main)
