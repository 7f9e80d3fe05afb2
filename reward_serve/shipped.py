"""The files shipped with the code: deployments files, templates and pinned requirements.

In a wheel they are inside the package; in a clone they are in the top-level folders.

    >>> sorted(deployments_files())[:2]
    ['classifier.yaml', 'judge-gpu.yaml']
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

Build = Literal["cpu", "cuda"]
"""Builds of vLLM, each with its own requirements file."""

_PACKAGE = Path(__file__).parent


def deployments_files() -> dict[str, Path]:
    """The shipped deployments files, by name."""
    return {path.name: path for path in sorted(_folder("deployments").glob("*.yaml"))}


def template_files() -> dict[str, Path]:
    """The files of the shipped judging templates, by file name."""
    return {path.name: path for path in sorted((_PACKAGE / "templates").glob("*.yaml"))}


def requirements_file(build: Build) -> Path:
    """The pinned requirements of a serving environment with this build of vLLM."""
    return _folder("requirements") / f"{build}.txt"


def _folder(name: str) -> Path:
    inside = _PACKAGE / name
    return inside if inside.is_dir() else _PACKAGE.parent / name
