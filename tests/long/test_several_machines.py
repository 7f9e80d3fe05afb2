"""docs/how-to/several-machines.md is run: ``several_machines.py``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_nodes_come_and_go_and_every_node_asks(tmp_path: Path) -> None:
    out = tmp_path / "seen.json"
    command = [sys.executable, "-m", "tests.long.several_machines", str(out)]
    # gRPC's fork handlers may crash the nodes, which are forked from a process that calls by it.
    variables = {**os.environ, "GRPC_ENABLE_FORK_SUPPORT": "0"}
    done = subprocess.run(
        command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-5000:]
    seen = json.loads(out.read_text(encoding="utf-8"))
    assert "REWARD_SERVE_APP=reward RAY_ADDRESS=" in seen["said"]
    assert seen["no replica on the head"]
    assert seen["scores on each node"] == [1.0, 1.0, 1.0]
    assert set(seen["statuses"]) == {"ok"}, "a node that comes or goes fails no request"
    # Its end leaves what the cluster served before.
    assert (seen["code"], seen["left"], seen["other"]) == (0, ["other"], 1.0)
