"""Files that are shipped with the code: deployments files and compiled requirements.

A wheel carries them inside the package; in a clone they lie beside it, where people look for them.

    >>> sorted(deployments_files())[:2]
    ['classifier.yaml', 'judge-gpu.yaml']
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

Build = Literal["cpu", "cuda"]
"""Builds of vLLM, each with a compiled set of requirements."""

_PACKAGE = Path(__file__).parent


def deployments_files() -> dict[str, Path]:
    """The shipped deployments files, by name."""
    return {path.name: path for path in sorted(_folder("deployments").glob("*.yaml"))}


def requirements_file(build: Build) -> Path:
    """The compiled requirements of an environment that serves with this build of vLLM."""
    return _folder("requirements") / f"{build}.txt"


def _folder(name: str) -> Path:
    inside = _PACKAGE / name
    return inside if inside.is_dir() else _PACKAGE.parent / name
