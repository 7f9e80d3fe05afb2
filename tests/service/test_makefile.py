from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = (
    "requirements/dev.txt", "pyproject.toml", "answers/pyproject.toml",
    "lab/pyproject.toml",
    "judge/pyproject.toml",
)  # fmt: skip


def test_another_python_is_refused_before_an_environment_is_made(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    for source in SOURCES:
        (tmp_path / source).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / source).touch()
    command = ["make", "setup", "PYTHON=false"]  # as another version, it exits 1
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode
    assert done.stderr.startswith("false is not Python 3.11: name one, as in make setup PYTHON=")
    assert not (tmp_path / ".venv").exists()
