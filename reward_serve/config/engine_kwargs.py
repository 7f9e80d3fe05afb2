"""Validates ``engine_kwargs`` against vLLM's engine arguments, without importing vLLM."""

from __future__ import annotations

import ast
import difflib
import functools
import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# A reward model is frozen: its weights must not change or be unloaded while it serves.
_FROZEN = {
    "enable_lora",
    "enable_sleep_mode",
    "weight_transfer_config",
    "worker_extension_cls",
}
# These use more GPUs than the replica requests from Ray.
_PARALLEL = {
    "data_parallel_size",
    "pipeline_parallel_size",
    "prefill_context_parallel_size",
}


def check_engine_kwargs(kwargs: Mapping[str, Any], own: set[str]) -> None:
    """Reject engine arguments that have their own field, are forbidden or unknown to vLLM.

    Args:
        kwargs: arguments for ``AsyncEngineArgs`` from the deployments file.
        own: the field names of the ``engine`` section.

    Raises:
        ValueError: names the argument and the remedy.
    """
    if not kwargs:
        return
    known = vllm_engine_arguments()
    for name in kwargs:
        field = f"engine_kwargs.{name}"
        if name in own:
            raise ValueError(f"{field}: has its own field; set engine.{name} instead")
        if name in _FROZEN:
            raise ValueError(f"{field}: a reward model is frozen while it serves; remove it")
        if name in _PARALLEL:
            raise ValueError(
                f"{field}: uses GPUs that the replica does not request; use more replicas or "
                "engine.tensor_parallel_size"
            )
        if known is not None and name not in known:
            near = difflib.get_close_matches(name, sorted(known), n=1)
            hint = f"did you mean {near[0]!r}?" if near else "remove it"
            raise ValueError(f"{field}: vLLM has no such engine argument; {hint}")


@functools.cache
def vllm_engine_arguments() -> frozenset[str] | None:
    """The fields of vLLM's ``AsyncEngineArgs``; None if vLLM is not installed.

    They are parsed from its source, because importing vLLM takes seconds and a deployments file is
    validated in processes that never run an engine.
    """
    spec = importlib.util.find_spec("vllm")
    if spec is None or not spec.submodule_search_locations:
        return None
    source = Path(spec.submodule_search_locations[0], "engine", "arg_utils.py")
    if not source.is_file():
        return None
    return frozenset(
        statement.target.id
        for node in ast.parse(source.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and node.name in ("EngineArgs", "AsyncEngineArgs")
        for statement in node.body
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
    )
