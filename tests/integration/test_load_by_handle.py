from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from deployments.local import ROOT

pytestmark = pytest.mark.integration


def test_a_load_by_handle_is_answered_right(cluster: str, url: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "loadtests.load", "--url", url, "--out", str(tmp_path)]
    command += ["--shape", "grpo_burst", "--transport", "handle", "--duration", "4"]
    command += ["--period", "2", "--rollout-seconds", "2", "--prompts", "2"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=200,
        env={**os.environ, "RAY_ADDRESS": cluster},
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    figures = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    assert (figures["asked"], figures["right"] + figures["too_close"]) == (32, 32)
