"""Compares the installed packages with the shipped requirements files."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator

from packaging.requirements import Requirement

from reward_serve.shipped import Build, requirements_file

INSTALL = {
    "cpu": "reward-serve requirements cpu | uv pip install --no-deps --torch-backend=cpu -r -",
    "cuda": "reward-serve requirements cuda | uv pip install --no-deps -r -",
}
"""The command that installs the packages of each build."""


def deviations(build: Build) -> list[str]:
    """Packages that are missing or not at their pinned version, each with the pin."""
    return list(_deviations(build))


def _deviations(build: Build) -> Iterator[str]:
    for line in requirements_file(build).read_text(encoding="utf-8").splitlines():
        if not line or line.lstrip().startswith("#"):
            continue
        pinned = Requirement(line)
        if pinned.marker and not pinned.marker.evaluate():
            continue
        try:
            version = importlib.metadata.version(pinned.name)
        except importlib.metadata.PackageNotFoundError:
            version = "missing"
        if version == "missing" or not pinned.specifier.contains(version, prereleases=True):
            yield f"{pinned.name} {version} ({pinned.specifier})"
        elif build == "cuda" and version.endswith("+cpu"):
            yield f"{pinned.name} {version} (a CPU build)"
