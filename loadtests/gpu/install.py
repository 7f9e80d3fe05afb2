"""On the machine with the GPU: collects the parts and installs their wheels beside its torch.

python3 loadtests/gpu/install.py take .gpu/parts/00     # each part, in any order; again if refused
python3 loadtests/gpu/install.py install                # an environment in /tmp/gpu/venv

Uses only the standard library. The environment sees the packages of the Python that runs this.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
from pathlib import Path

logger = logging.getLogger(__name__)

ROOT = Path(__file__).resolve().parents[2]
KEPT = Path("/tmp/gpu")  # outlives a call, as long as the machine is held
_IMPORTS = "torch, transformers, vllm, ray.serve, fastapi, gguf, peft, loadtests.gpu.bench"


def take(part: Path, kept: Path = KEPT) -> None:
    """Keep a part if its checksum is right.

    Raises:
        SystemExit: the checksum is wrong; the message names the part and the remedy.
    """
    manifest = part.with_name("manifest.json")
    sums = json.loads(manifest.read_text(encoding="utf-8"))
    if hashlib.sha256(part.read_bytes()).hexdigest() != sums[part.name]:
        raise SystemExit(f"{part}: does not match its checksum; carry it again")
    kept.mkdir(parents=True, exist_ok=True)
    shutil.copy(manifest, kept / manifest.name)
    shutil.move(part, kept / part.name)
    left = [name for name in sums if not (kept / name).is_file()]
    logger.info(f"{part.name} taken; missing: {', '.join(left) or 'none'}")


def join(kept: Path) -> list[Path]:
    """Join the parts and extract the wheels.

    Raises:
        SystemExit: parts are missing.
    """
    names = list(json.loads((kept / "manifest.json").read_text(encoding="utf-8")))
    if left := [name for name in names if not (kept / name).is_file()]:
        raise SystemExit(f"parts {', '.join(left)} are missing; carry them first")
    archive, wheels = kept / "wheels.tar", kept / "wheels"
    with archive.open("wb") as joined:
        for name in names:
            joined.write((kept / name).read_bytes())
    with tarfile.open(archive) as tar:
        tar.extractall(wheels, filter="data")
    archive.unlink()
    return sorted(wheels.glob("*.whl"))


def install(kept: Path = KEPT) -> None:
    """Create the environment, and check that its packages can be imported."""
    wheels, place = join(kept), kept / "venv"
    venv.create(place, clear=True, with_pip=False, symlinks=True)
    python = str(place / "bin" / "python")
    command = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index"]
    command += ["--no-deps", "--no-compile", "--disable-pip-version-check", *map(str, wheels)]
    subprocess.run(command, check=True)
    (packages,) = place.glob("lib/python3.*/site-packages")
    link(packages)
    compiled = [python, "-m", "compileall", "-q", "-j", "0", str(packages)]
    subprocess.run(compiled, check=False, capture_output=True)
    imported = f"import {_IMPORTS}; assert torch.cuda.is_available(), 'torch sees no card'"
    subprocess.run([python, "-c", imported], check=True)
    logger.info("installed and imported")


def link(packages: Path) -> None:
    """Add this checkout and, after its own packages, this Python's to an environment."""
    there = sysconfig.get_path("purelib")
    (packages / "_image.pth").write_text(f"import site; site.addsitedir({there!r})\n")
    ours = (ROOT, ROOT / "answers", ROOT / "lab", ROOT / "judge")
    (packages / "_checkout.pth").write_text("".join(f"{folder}\n" for folder in ours))
    for folder in ours:  # the core finds the judge by its entry point
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        name, version = project["name"], project["version"]
        dist_info = packages / f"{name.replace('-', '_')}-{version}.dist-info"
        dist_info.mkdir(exist_ok=True)
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (dist_info / "METADATA").write_text(metadata)
        points = (
            f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
            for group, entries in project.get("entry-points", {}).items()
        )
        (dist_info / "entry_points.txt").write_text("\n".join(points))


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    match sys.argv[1:]:
        case ["take", path]:
            take(Path(path))
        case ["install"]:
            install()
        case _:
            raise SystemExit(__doc__)
