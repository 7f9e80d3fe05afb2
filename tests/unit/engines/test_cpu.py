from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reward_serve.config.engine import EngineConfig
from reward_serve.engines import vllm as cpu
from reward_serve.engines.vllm import dtype_of, instruction_set

AVX2 = "fpu sse4_2 avx avx2"
AVX512 = f"{AVX2} avx512f avx512bw"
VNNI = f"{AVX512} avx512_vnni"
BF16 = f"{VNNI} avx512_bf16"
AMX = f"{BF16} amx_tile amx_int8"


def cpuinfo(folder: Path, flags: str) -> Path:
    file = folder / "cpuinfo"
    file.write_text(f"processor\t: 0\nflags\t\t: {flags}\nbugs\t\t: amx_int8\n", encoding="utf-8")
    return file


class TestInstructionSet:
    @pytest.mark.parametrize(
        ("flags", "name"),
        [
            (AMX, "AVX512_CORE_AMX"),
            (BF16, "AVX512_CORE_BF16"),
            (VNNI, "AVX512_CORE_VNNI"),
            (AVX512, "AVX512_CORE"),
            (f"{AVX2} avx_vnni", "AVX2_VNNI"),
            (AVX2, "AVX2"),
            ("sse4_2", "other"),
        ],
    )
    def test_is_the_most_capable(
        self, flags: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
        assert instruction_set(cpuinfo(tmp_path, flags)) == name

    @pytest.mark.parametrize(
        ("limit", "name"),
        [("AVX2", "AVX2"), ("avx512_core", "AVX512_CORE"), ("ALL", "AVX512_CORE_BF16")],
    )
    def test_is_limited_as_onednn_is(
        self, limit: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", limit)
        assert instruction_set(cpuinfo(tmp_path, BF16)) == name

    def test_is_unknown_without_linux(self, tmp_path: Path) -> None:
        assert instruction_set(tmp_path / "nowhere") == "other"


class TestDtype:
    @pytest.mark.parametrize(
        ("instructions", "settings", "dtype"),
        [
            ("AVX512_CORE_BF16", {}, "int8"),
            ("AVX512_CORE_VNNI", {}, "int8"),
            ("AVX2", {}, "float32"),
            ("other", {}, "float32"),
            ("AVX512_CORE_BF16", {"adapter": "none"}, "float32"),
            ("AVX512_CORE_BF16", {"adapter": "/mine"}, "float32"),
            ("AVX512_CORE_BF16", {"model": "/models/judge"}, "float32"),
            ("AVX512_CORE_BF16", {"quantization": "fp8"}, "float32"),
            ("AVX512_CORE_BF16", {"dtype": "bfloat16"}, "bfloat16"),
            ("AVX2", {"dtype": "int8"}, "int8"),
        ],
    )
    def test_auto_is_int8_only_where_the_shipped_judge_was_measured_in_it(
        self,
        instructions: str,
        settings: dict[str, Any],
        dtype: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(cpu, "instruction_set", lambda: instructions)
        assert dtype_of(EngineConfig(device="cpu", **settings)) == dtype
