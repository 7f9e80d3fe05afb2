from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import ray

from reward_serve.cli import clusters
from reward_serve.cli.options import Options, deployments_file

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


TWO_MODELS = """
applications:
  - name: reward
    import_path: reward_serve.app:build_app
    args:
      models:
        - {name: judge, kind: judge}
        - {name: format, kind: rule}
"""


def test_models_that_fit_alone_but_not_together_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "two.yaml"
    file.write_text(TWO_MODELS, encoding="utf-8")
    models = deployments_file(str(file), Options()).models
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 2.0})
    with pytest.raises(clusters.LaunchError, match=r"the models need 3 CPU .* this machine has 2;"):
        clusters._check_room(models)
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 3.0})
    clusters._check_room(models)
