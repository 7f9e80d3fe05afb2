from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from reward_serve.version import __version__

ROOT = Path(__file__).resolve().parents[2]
HEAVY = {"ray", "vllm", "torch", "transformers", "typer", "fastapi", "starlette", "yaml", "httpx"}
PROBE = """
import json, sys, time
began = time.process_time()
import reward_serve
took = time.process_time() - began
print(json.dumps({"s": took, "loaded": sorted({name.split(".")[0] for name in sys.modules})}))
"""


@cache
def fresh_imports() -> list[dict[str, Any]]:
    """What three fresh interpreters say of ``import reward_serve``."""
    command = [sys.executable, "-c", PROBE]
    runs = [subprocess.run(command, cwd=ROOT, capture_output=True, check=True) for _ in range(3)]
    return [json.loads(run.stdout) for run in runs]


def test_importing_the_library_is_fast() -> None:
    assert min(run["s"] for run in fresh_imports()) < 0.5


def test_importing_the_library_loads_only_what_a_trainer_needs() -> None:
    assert HEAVY.intersection(fresh_imports()[0]["loaded"]) == set()


def test_the_version_is_the_distributions() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == __version__
