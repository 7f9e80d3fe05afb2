from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from reward_serve.version import __version__

ROOT = Path(__file__).resolve().parents[1]
HEAVY = {"ray", "vllm", "torch", "transformers", "typer", "fastapi", "starlette", "yaml"}
PROBE = """
import json, sys, time
began = time.perf_counter()
import reward_serve
took = time.perf_counter() - began
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
    loaded = fresh_imports()[0]["loaded"]
    assert HEAVY.intersection(loaded) == set()
    assert "httpx" in loaded


def test_the_version_is_the_distributions() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == __version__
