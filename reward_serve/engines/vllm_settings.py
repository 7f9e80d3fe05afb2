"""vLLM's arguments, environment variables and model path for an ``engine`` section."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from reward_serve.config.engine import (
    BUNDLED_MODEL,
    NO_ADAPTER,
    SHIPPED_ADAPTER,
    EngineConfig,
)
from reward_serve.engines.bundled import bundled_judge
from reward_serve.engines.checkpoint import (
    check_checkpoint,
    check_hub_id,
    folder_digest,
    is_folder,
)
from reward_serve.engines.cpu import dtype_of
from reward_serve.engines.process_guard import own_child_processes

CPU_BLOCK_SIZE = 32
_CPU_BATCHED_TOKENS = 512
# A judge in label mode only prefills, so large steps delay no decoding.
_GPU_BATCHED_TOKENS = 16_384


def engine_arguments(config: EngineConfig, model: Path | str, num_gpus: float) -> dict[str, Any]:
    """The arguments of vLLM's ``AsyncEngineArgs`` for this configuration.

    Args:
        config: the ``engine`` section of the deployments file.
        model: a folder or a hub id.
        num_gpus: the replica's number or share of GPUs; scales the default memory use.
    """
    arguments: dict[str, Any] = {
        "model": str(model),
        "revision": config.revision,
        "tensor_parallel_size": config.tensor_parallel_size,
        "max_model_len": config.max_model_len,
        "max_num_seqs": config.max_num_seqs,
        "dtype": config.dtype,
        "quantization": config.quantization,
        "seed": config.seed,
        "enable_prefix_caching": config.enable_prefix_caching,
        "trust_remote_code": config.trust_remote_code,
        "disable_log_stats": True,
    }
    if config.device == "cpu":
        arguments |= {
            # In the int8 checkpoint only the linear layers are int8; all else is float32.
            "dtype": "float32" if dtype_of(config) == "int8" else dtype_of(config),
            # On a CPU, compilation costs more start-up time than it saves.
            "enforce_eager": True,
            "block_size": config.block_size or CPU_BLOCK_SIZE,
            "max_num_batched_tokens": config.max_num_batched_tokens or _CPU_BATCHED_TOKENS,
            "kv_cache_memory_bytes": int(config.cpu_kv_cache_gib * 2**30),
        }
    else:
        share = min(num_gpus, 1.0)
        arguments |= {
            "gpu_memory_utilization": config.gpu_memory_utilization or 0.9 * share,
            "block_size": config.block_size,
            "max_num_batched_tokens": config.max_num_batched_tokens or _GPU_BATCHED_TOKENS,
        }
        if config.tensor_parallel_size > 1:
            arguments["distributed_executor_backend"] = "mp"
    kept = {name: value for name, value in arguments.items() if value is not None}
    return kept | config.engine_kwargs


def locate(config: EngineConfig) -> Path | str:
    """The model's folder, prepared or checked, or its hub id.

    Raises:
        CheckpointError: the folder cannot be served, or the hub has no such model.
    """
    if config.model == BUNDLED_MODEL:
        int8 = config.device == "cpu" and dtype_of(config) == "int8"
        judge = bundled_judge()
        prepare = judge.prepare_int8 if int8 else judge.prepare_bundled
        return prepare(adapter=adapter_folder(config))
    if is_folder(config.model):
        return check_checkpoint(config.model)
    check_hub_id(config.model, config.revision)
    return config.model


def adapter_folder(config: EngineConfig) -> Path | None:
    """The folder of the LoRA to merge into the bundled model; None without one."""
    if config.model != BUNDLED_MODEL or config.adapter == NO_ADAPTER:
        return None
    if config.adapter == SHIPPED_ADAPTER:
        return bundled_judge().ADAPTER
    return Path(config.adapter).expanduser()


def set_environment(config: EngineConfig, num_cpus: float) -> None:
    """Set vLLM's environment variables; call it before vLLM is imported."""
    own_child_processes()
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    if "VLLM_LOGGING_CONFIG_PATH" not in os.environ:
        # vLLM's dictConfig would close every log handler of this process, including Serve's: the
        # replica would stop logging, and a restarted controller could not adopt it.
        os.environ.setdefault("VLLM_CONFIGURE_LOGGING", "0")
    if config.model == BUNDLED_MODEL or is_folder(config.model):
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
    if config.device == "cpu":
        # One child process instead of two, each of which would import vLLM again.
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
        # With thread binding, vLLM reserves a core.
        os.environ["VLLM_CPU_OMP_THREADS_BIND"] = "nobind"
        os.environ["OMP_NUM_THREADS"] = str(max(1, int(num_cpus)))
        # Spinning threads halve the verdicts/s when a core is shared.
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
        # oneDNN caches a kernel for each number of tokens in a step: half a gigabyte in an hour.
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
        # Otherwise the sampler compiles a C++ kernel at the first verdict (up to 20 s).
        os.environ["TORCHDYNAMO_DISABLE"] = "1"


def revision(config: EngineConfig, model: Path) -> str:
    """The bundled model's key, a folder's digest, or the hub's commit or branch."""
    if config.model == BUNDLED_MODEL:
        return model.name
    if model.is_dir():
        return folder_digest(model)
    return config.revision or "main"
