"""``corrupt_cache``: damage a copy of the prepared bundled model before a start.

A truncated file, a flipped bit and a manifest that is not JSON must each be detected and the folder
prepared again; the last by a deployment, which then answers. A damaged folder that is served by its
own path cannot be prepared again and must be refused.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from deployments.local import APP, ROOT, free_port, serve_run
from loadtests.chaos.cluster import Target, ask_functions, shared_clients
from loadtests.chaos.load import Tally, closed_loop
from loadtests.chaos.questions import Questions, marked
from loadtests.chaos.report import Figures, all_right, with_bounds
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
    """Apply each kind of damage to the same copy."""
    whole = prepare_bundled()
    with tempfile.TemporaryDirectory() as cache, patch.dict(os.environ, {CACHE_VARIABLE: cache}):
        folder = bundled_folder()
        shutil.copytree(whole, folder)
        made_again_s = {name: _made_again(folder, damage) for name, damage in _DAMAGES.items()}
        (folder / "manifest.json").write_text("{", encoding="utf-8")
        yield "corrupt_cache", _served(folder, made_again_s)


def _made_again(folder: Path, damage: Callable[[Path], None]) -> float | None:
    """Seconds that ``prepare`` took to repair the damage; None if the folder is still damaged."""
    damage(folder)
    began = time.monotonic()
    command = [sys.executable, "-m", "reward_serve", "prepare"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    took = round(time.monotonic() - began, 1)
    return took if done.returncode == 0 and find_fault(folder) is None else None


def _served(folder: Path, made_again_s: dict[str, float | None]) -> Figures:
    with local_cluster() as address:
        target = Target(address, f"http://127.0.0.1:{free_port()}")
        began = time.monotonic()
        serve_run(address, config(target.port, [_judge("bundled")]))
        await_ready(target.url)
        ready_s = round(time.monotonic() - began, 1)
        made_again = find_fault(folder) is None
        made_again_s["manifest, by the deployment"] = ready_s if made_again else None
        tally, questions = Tally(), Questions(marked, "cache", DEADLINE_S)
        ways = ask_functions(shared_clients(target))
        asyncio.run(closed_loop(tally, ways, questions, _CALLERS, lambda: tally.asked >= ASKED))
        _cut_short(folder)
        refusal = _refusal(target, folder)
    figures = {
        **tally.figures(),
        "recovered_s": ready_s,
        "made_again_s": made_again_s,
        "refusal": refusal.replace(str(folder), "FOLDER"),
    }
    bounds = {
        **all_right(figures),
        "every damage was repaired": None not in made_again_s.values(),
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


def _cut_short(folder: Path) -> None:
    path = folder / _WEIGHTS
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def _flip_a_bit(folder: Path) -> None:
    path = folder / _WEIGHTS
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        (byte,) = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))


_DAMAGES: dict[str, Callable[[Path], None]] = {
    "cut short": _cut_short,
    "a bit flipped": _flip_a_bit,
}
