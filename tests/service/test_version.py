import subprocess
import sys
import tomllib
from pathlib import Path

from reward_serve.version import __version__

ROOT = Path(__file__).resolve().parents[2]
HEAVY = {"ray", "vllm", "torch", "transformers", "typer", "fastapi", "starlette", "yaml"}
PROBE = "import sys, reward_serve; print(*{name.split('.')[0] for name in sys.modules})"


def test_importing_the_library_loads_only_what_a_trainer_needs() -> None:
    command = [sys.executable, "-c", PROBE]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert HEAVY.intersection(done.stdout.split()) == set()


def test_the_version_is_the_distributions() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == __version__
