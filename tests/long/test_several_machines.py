"""docs/how-to/several-machines.md is run: ``several_machines.py``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What was seen on a head, a node, one that was added and lost, and after the end."""
    out = tmp_path_factory.mktemp("seen") / "seen.json"
    command = [sys.executable, "-m", "tests.long.several_machines", str(out)]
    # gRPC's fork handlers may crash the nodes, which are forked from a process that calls by it.
    variables = {**os.environ, "GRPC_ENABLE_FORK_SUPPORT": "0"}
    done = subprocess.run(
        command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-5000:]
    result: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return result


def test_it_joins_the_cluster_and_says_what_to_give_to_a_trainer(seen: dict[str, Any]) -> None:
    assert "REWARD_SERVE_APP=reward RAY_ADDRESS=" in seen["said"]
    assert "/reward\n" in seen["said"]


def test_a_head_without_cores_has_no_replica(seen: dict[str, Any]) -> None:
    assert seen["no replica on the head"]


def test_every_node_asks_by_handle(seen: dict[str, Any]) -> None:
    assert seen["scores on each node"] == [1.0, 1.0, 1.0]


def test_a_node_that_comes_and_goes_fails_no_request(seen: dict[str, Any]) -> None:
    assert set(seen["statuses"]) == {"ok"}


def test_its_end_leaves_what_the_cluster_served_before(seen: dict[str, Any]) -> None:
    assert (seen["code"], seen["left"], seen["other"]) == (0, ["other"], 1.0)
