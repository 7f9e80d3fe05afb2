"""Members and non-members of a model's training data, for membership inference.

The policy is asked to reproduce a row's solution; its reward separates rows that the model was
trained on from rows that it was not. The rows, their fields and the draw follow
``math500_match_custom_mia.py --mia --include_target_gt`` (``oseyosey/verl``), with the methods
``unused_examples`` and ``separate_dataset``; ``pair`` is added, and its other methods are not here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import typer

from reward_serve.client.rows import text_of

SEED = 42


def solved(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with the solution, where there is one, as the answer."""
    return [row | {"answer": text_of(row.get("solution")) or row.get("answer")} for row in rows]


def drawn(
    columns: list[dict[str, Any]], others: list[dict[str, Any]] | None, size: int
) -> list[dict[str, Any]]:
    """``size`` members and as many non-members, as output rows in random order.

    Args:
        columns: output rows of the set with the members.
        others: those of the non-members' set; None: those of ``columns`` that are not members.
        size: the number of members; with the seed it selects them, as in the original.

    Raises:
        typer.BadParameter: there are not enough rows.
    """
    if size > len(columns):
        raise typer.BadParameter(f"--members {size}: the set has {len(columns)} rows")
    chosen = sorted(Random(SEED).sample(range(len(columns)), size))
    trained = [columns[at] for at in chosen] if others is None else columns
    seen = {row["extra_info"]["problem"] for row in trained}
    pool = columns if others is None else others
    unseen = [at for at, row in enumerate(pool) if row["extra_info"]["problem"] not in seen]
    if size > len(unseen):
        raise typer.BadParameter(
            f"--members {size}: only {len(unseen)} rows can be non-members; lower it, or choose "
            "another --nonmembers"
        )
    rest = sorted(Random(SEED + 1).sample(unseen, size))
    kind = "unused_original" if others is None else "separate_dataset"
    rows = [_marked(columns[at], at, pair, "original") for pair, at in enumerate(chosen)]
    rows += [_marked(pool[at], at, pair, kind) for pair, at in enumerate(rest)]
    Random(SEED).shuffle(rows)
    for index, row in enumerate(rows):
        row["extra_info"]["index"] = index
    return rows


def write_lists(rows: Sequence[dict[str, Any]], folder: Path) -> list[Path]:
    """Write ``members.jsonl`` and ``nonmembers.jsonl``, the lists for scoring without a trainer."""
    paths = []
    for name, wanted in (("members", True), ("nonmembers", False)):
        infos = [row["extra_info"] for row in rows if row["extra_info"]["is_member"] is wanted]
        lines = [
            {"id": info["pair"], "problem": info["problem"], "solution": info["target_gt"]}
            | {name: info[name] for name in ("is_member", "pair_type", "original_idx")}
            for info in sorted(infos, key=lambda info: info["pair"])
        ]
        paths.append(folder / f"{name}.jsonl")
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        paths[-1].write_text(text, encoding="utf-8")
    return paths


def _marked(row: dict[str, Any], at: int, pair: int, kind: str) -> dict[str, Any]:
    info = row["extra_info"]
    solution = info["answer"]
    return row | {
        "prompt": [{"role": "user", "content": info["problem"]}],
        "reward_spec": {"method": "rule", "ground_truth": solution},
        "reward_model": {"style": "model", "ground_truth": solution},
        "extra_info": {name: info[name] for name in ("split", "problem", "question")}
        | {"is_member": kind == "original", "pair": pair, "pair_type": kind}
        | {"original_idx": at, "target_gt": solution},
    }
