from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[3]
ORPHAN = """
import subprocess
from reward_serve.cli.clusters import no_process_left

with no_process_left():
    print(subprocess.check_output("sleep 600 >/dev/null 2>&1 & echo $!", shell=True, text=True))
"""


def test_orphans_are_killed_too() -> None:
    command = [sys.executable, "-c", ORPHAN]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert not psutil.pid_exists(int(done.stdout))
