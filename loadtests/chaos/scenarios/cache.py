"""``corrupt_cache``: flip a bit in a copy of the prepared bundled model before a start.

A deployment must detect the damage, prepare the folder again, and answer. A damaged folder that is
served by its own path, here a truncated one, cannot be prepared again and must be refused.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from deployments.local import APP, free_port, serve_run
from loadtests.chaos.load import Tally, closed_loop
from loadtests.chaos.questions import marked, questions_of
from loadtests.chaos.report import Figures, all_right, with_bounds
from loadtests.chaos.target import Target, ask_functions, shared_clients
from loadtests.cluster import await_ready, config, local_cluster
from reward_serve.engines.bundled import CACHE_VARIABLE
from reward_serve_judge.weights import bundled_folder, find_fault, prepare_bundled

NAMES = ("corrupt_cache",)

ASKED = 64
DEADLINE_S = 60.0
_CALLERS = 8
_WEIGHTS = "model.safetensors"
_REFUSED_S = 60.0


def run(chosen: Sequence[str]) -> Iterator[tuple[str, Figures]]:
    """Damage a copy of the cache folder."""
    whole = prepare_bundled()
    with tempfile.TemporaryDirectory() as cache, patch.dict(os.environ, {CACHE_VARIABLE: cache}):
        folder = bundled_folder()
        shutil.copytree(whole, folder)
        yield "corrupt_cache", _damaged(folder)


def _damaged(folder: Path) -> Figures:
    _flip_a_bit(folder / _WEIGHTS)
    assert find_fault(folder) is not None
    with local_cluster() as address:
        target = Target(address, f"http://127.0.0.1:{free_port()}")
        began = time.monotonic()
        serve_run(address, config(target.port, [_judge("bundled")]))
        await_ready(target.url)
        ready_s = round(time.monotonic() - began, 1)
        repaired = find_fault(folder) is None
        tally, questions = Tally(), questions_of(marked, "cache", DEADLINE_S)
        ways = ask_functions(shared_clients(target))
        asyncio.run(closed_loop(tally, ways, questions, _CALLERS, lambda: tally.asked >= ASKED))
        os.truncate(folder / _WEIGHTS, (folder / _WEIGHTS).stat().st_size // 2)
        refusal = _refusal(target, folder)
    figures = {
        **tally.figures(),
        "recovered_s": ready_s,
        "refusal": refusal.replace(str(folder), "FOLDER"),
    }
    bounds = {
        **all_right(figures),
        "the damage was repaired": repaired,
        "a damaged folder of the user's own is refused by name": str(folder) in refusal,
    }
    return with_bounds(figures, bounds)


def _judge(model: str) -> dict[str, Any]:
    judge = {"rules_first": False}
    return {"name": "judge", "kind": "judge", "engine": {"model": model}, "judge": judge}


def _refusal(target: Target, folder: Path) -> str:
    """The last line of Serve's message when the damaged folder is deployed."""
    from ray import serve

    serve_run(target.address, config(target.port, [_judge(str(folder))]))
    ends = time.monotonic() + _REFUSED_S
    while time.monotonic() < ends:
        app = serve.status().applications[APP]
        if app.status == "DEPLOY_FAILED":
            return str(app.deployments["judge"].message).rstrip().rpartition("\n")[2]
        time.sleep(0.5)
    return "it was not refused"


def _flip_a_bit(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        (byte,) = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))
