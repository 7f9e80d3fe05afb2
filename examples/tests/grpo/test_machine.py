from __future__ import annotations

import os
from pathlib import Path

from examples.grpo.machine import _processor, machine

CPUINFO = "processor : 0\nmodel name\t: AMD EPYC\nflags\t\t: sse2 avx2 avx512f fma\n\n"


def test_a_processor_is_named_with_its_instruction_sets(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text(CPUINFO)

    found = _processor(tmp_path / "cpuinfo")

    assert found == {"cpu": "AMD EPYC", "instruction_sets": ["avx2", "avx512f"]}


def test_the_versions_are_those_of_this_environment_and_of_the_engines(tmp_path: Path) -> None:
    installed = tmp_path / "lib/python3.12/site-packages/jax-0.7.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Name: jax\nVersion: 0.7\n")

    found = machine(tmp_path)

    assert found["cores"] == len(os.sched_getaffinity(0))
    assert found["versions"]["ray"] and "skyrl" not in found["versions"]
    assert found["engine_versions"] == {"jax": "0.7"}
