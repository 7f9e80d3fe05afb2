"""Reads a verdict log of a million lines into the lab's table, and filters it.

    python -m loadtests.logs

The log is of eight replicas and made for the run: lines as ``VerdictLog`` writes them for GSM8K
with a judge and rules first, and an audit for every fiftieth.
"""

from __future__ import annotations

import json
import random
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from reward_serve_lab.logs.query import Filters, ask, choices
from reward_serve_lab.logs.steps import by_step
from reward_serve_lab.logs.table import VerdictTable

REPLICAS = 8
STEP_SAMPLES = 1024
GROUP = 8
AUDITED = 50
_WORDS = ("she", "has", "four", "apples", "é", "🍎", "left", "so", "the", "total", "is", "twelve")


def verdict(number: int, chance: random.Random) -> dict[str, Any]:
    """A line of the log."""
    response = f"{' '.join(chance.choices(_WORDS, k=chance.randint(10, 60)))}\n#### {number % 97}"
    sample = number % STEP_SAMPLES
    is_decided = chance.random() < 0.99
    return {
        "time": round(1.79e9 + number / 100, 3), "request": f"{chance.getrandbits(64):016x}",
        "model": "judge", "run": "grpo", "step": number // STEP_SAMPLES,
        "sample": f"{sample // GROUP}-{sample % GROUP}", "group": f"train/{number // GROUP}",
        "response_characters": len(response), "id": f"10bf96cd997a-{number}",
        "score": float(chance.random() < 0.5) if is_decided else None,
        "status": "ok" if is_decided else "timeout", "reason": None,
        "source": "rule" if chance.random() < 0.8 else "judge", "label": "right",
        "probabilities": None, "details": {"rule": "final_answer", "answer": str(number % 97)},
        "template": "final_answer", "fingerprint": f"{chance.getrandbits(384):096x}",
        "latency_s": 0.0123, "response_tail": response, "reference": [str(number % 97)],
        "question": " ".join(chance.choices(_WORDS, k=20)), "text": None, "critique": None,
    }  # fmt: skip


def write(folder: Path, lines: int) -> None:
    """Write a log of this many verdicts, and their audits."""
    chance = random.Random(0)
    with ExitStack() as stack:
        paths = [folder / f"verdicts-judge-{replica}.jsonl" for replica in range(REPLICAS)]
        files = [stack.enter_context(path.open("w")) for path in paths]
        for number in range(lines):
            line = verdict(number, chance)
            files[number % REPLICAS].write(json.dumps(line) + "\n")
            if number % AUDITED == 0:
                keys = {key: line[key] for key in ("time", "request", "model", "run", "step")}
                both = {"status": "audit", "source": "rule", "by_rules": 1.0, "by_model": 0.2}
                files[number % REPLICAS].write(json.dumps({**keys, **both}) + "\n")


def main(
    lines: Annotated[int, typer.Option(help="Verdicts in the log.")] = 1_000_000,
) -> None:
    """Print the seconds of reading and of each query, and the cores' seconds."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), lines)
        table = VerdictTable([Path(folder)])
        mib = sum(path.stat().st_size for path in Path(folder).iterdir()) / 2**20
        seconds = {f"read {lines:,} verdicts, {mib:,.0f} MiB": _seconds(table.read_all)}
        filters = {
            "a page, all verdicts": Filters(),
            "of a step": Filters(step=lines // STEP_SAMPLES // 2),
            "of a range of scores": Filters(lowest=0.5, highest=1.0),
            "with a text in the response": Filters(text="#### 57"),
        }
        queries: dict[str, Callable[[], object]] = {
            name: partial(_page, table, wanted) for name, wanted in filters.items()
        }
        queries["Training: every step"] = partial(by_step, table, "grpo", "judge")
        for name, query in queries.items():
            seconds[name] = _seconds(query)
        table.close()
    say = partial(Console(soft_wrap=True).print, markup=False)
    say("| | seconds | core-seconds |\n|---|---|---|")
    for name, (taken, of_cores) in seconds.items():
        say(f"| {name} | {taken:.2f} | {of_cores:.2f} |")


def _page(table: VerdictTable, wanted: Filters) -> None:
    """What the workbench's Verdicts page asks."""
    ask(table, wanted, 0)
    choices(table)


def _seconds(work: Callable[[], object]) -> tuple[float, float]:
    began, cores_began = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - began, time.process_time() - cores_began


if __name__ == "__main__":
    typer.run(main)
