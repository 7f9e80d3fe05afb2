"""The wheel, installed beside this environment's packages and away from the clone."""

import os
import re
import subprocess
import sys
import sysconfig
import time
import zipfile
from pathlib import Path

import pytest

from reward_serve.cli.shipped import deployments_files, requirements_file
from reward_serve.client import HttpRewardClient

ROOT = Path(__file__).resolve().parents[2]
LICENCES = ("LICENSE", "NOTICE")
UV = Path(sys.executable).with_name("uv")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment with our wheels, and by a .pth the other packages of this."""
    folder = tmp_path_factory.mktemp("wheel")
    _run("make", "wheels", f"OUT={folder / 'dist'}")
    environment = folder / "environment"
    _run(UV, "venv", "--quiet", "--python", sys.executable, environment)
    wheels = sorted((folder / "dist").glob("*.whl"))
    python = environment / "bin" / "python"
    _run(UV, "pip", "install", "--quiet", "--python", python, "--no-deps", *wheels)
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "others.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    return environment / "bin"


def _run(*command: object, cwd: Path = ROOT) -> str:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    return subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def test_it_has_every_deployments_file_and_requirements(installed: Path, tmp_path: Path) -> None:
    command = installed / "reward-serve"
    listed = _run(command, "deployments", "list", cwd=tmp_path).splitlines()
    assert [line.split()[0] for line in listed] == list(deployments_files())
    cuda = requirements_file("cuda").read_text(encoding="utf-8")
    assert _run(command, "requirements", "cuda", cwd=tmp_path) == cuda
    where = "import reward_serve, reward_serve_verl; print(reward_serve.__file__)"
    assert _run(installed / "python", "-c", where, cwd=tmp_path).startswith(str(installed.parent))


def test_every_wheel_is_typed_and_has_its_licence(installed: Path) -> None:
    wheels = sorted((installed.parents[1] / "dist").glob("*.whl"))
    assert len(wheels) == 7
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
            (metadata,) = (name for name in names if name.endswith("/METADATA"))
            fields = archive.read(metadata).decode()
        package, version = wheel.name.split("-")[:2]
        assert f"{package}/py.typed" in names
        assert {f"{package}-{version}.dist-info/licenses/{name}" for name in LICENCES} <= {*names}
        assert "License-Expression: Apache-2.0" in fields
        assert "Requires-Python: >=3.11" in fields


def test_a_trainers_wheel_carries_no_weights(installed: Path) -> None:
    (wheel,) = (installed.parents[1] / "dist").glob("reward_serve-*.whl")
    assert wheel.stat().st_size < 600_000


@pytest.mark.timeout(3600)
def test_the_commands_of_the_readme_install_and_serve(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "dist").symlink_to(installed.parents[1] / "dist")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (commands,) = re.findall(r"<!-- wheels -->\n```sh\n(.*?)```", readme, re.S)
    *install, doctor, serve = commands.splitlines()
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment["PATH"] = f"{UV.parent}:{environment['PATH']}"
    script = "\n".join([*install, doctor, f"exec {serve.partition('#')[0]}"])
    if links := environment.get("PIP_FIND_LINKS"):  # as in the Makefile: pip's index has the wheels
        environment["UV_FIND_LINKS"] = ",".join(links.split())
        script = script.replace("--torch-backend=cpu ", "")
    service = subprocess.Popen(["bash", "-ec", script], cwd=tmp_path, env=environment)
    command = tmp_path / "service/bin/reward-serve"
    try:
        with HttpRewardClient("http://127.0.0.1:8000") as client:
            while not client.is_ready():
                assert service.poll() is None, "a command failed; its output is above"
                time.sleep(1)
        printed = _run(
            command, "ask", "", "It comes to eighteen.", "--reference", "18", cwd=tmp_path
        )
        assert "source: judge" in printed
        service.terminate()
        assert service.wait(60) == 0
    finally:
        service.kill()
