"""The data type in which the bundled judge runs on a CPU."""

from __future__ import annotations

import os
from pathlib import Path

from reward_serve.config.engine import BUNDLED_MODEL, SHIPPED_ADAPTER, EngineConfig

# oneDNN's instruction sets, most capable first, with their CPU flags.
_FLAGS = {
    "AVX512_CORE_AMX": "amx_int8",
    "AVX512_CORE_BF16": "avx512_bf16",
    "AVX512_CORE_VNNI": "avx512_vnni",
    "AVX512_CORE": "avx512bw",
    "AVX2_VNNI": "avx_vnni",
    "AVX2": "avx2",
}
_LIMIT = "ONEDNN_MAX_CPU_ISA"
# With these, the shipped judge was measured in int8: faster than float32 and as accurate
# (docs/explanation/performance.md).
_INT8 = {"AVX512_CORE_AMX", "AVX512_CORE_BF16", "AVX512_CORE_VNNI"}


def dtype_of(config: EngineConfig) -> str:
    """The data type of an engine on this CPU; resolves ``auto``."""
    if config.dtype != "auto":
        return config.dtype
    shipped = (config.model, config.adapter, config.quantization) == (
        BUNDLED_MODEL,
        SHIPPED_ADAPTER,
        None,
    )
    return "int8" if shipped and instruction_set() in _INT8 else "float32"


def instruction_set(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The instruction set for matrix products, as oneDNN names it; ``other`` if unknown.

    ``ONEDNN_MAX_CPU_ISA`` limits it.
    """
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return "other"
    flags = next((line.split() for line in lines if line.startswith("flags")), [])
    names = list(_FLAGS)
    limit = os.environ.get(_LIMIT, "").upper()
    allowed = names[names.index(limit) :] if limit in names else names
    return next((name for name in allowed if _FLAGS[name] in flags), "other")
