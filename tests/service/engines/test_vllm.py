from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import reward_serve_judge
from reward_serve.config.engine import EngineConfig
from reward_serve.config.resolve import vllm_engine_arguments
from reward_serve.engines import vllm as vllm_settings
from reward_serve.engines.checkpoint import CheckpointError, folder_digest
from reward_serve.engines.vllm import engine_arguments, locate, revision, set_environment
from reward_serve_judge.weights import ADAPTER

ON_CPU = EngineConfig(device="cpu")
ON_GPU = EngineConfig(device="cuda")
HUB = "Qwen/Qwen2.5-1.5B-Instruct"


def arguments(config: EngineConfig, num_gpus: float = 0.0) -> dict[str, Any]:
    return engine_arguments(config, "/models/judge", num_gpus)


USUAL: dict[str, Any] = {
    "model": "/models/judge",
    "tensor_parallel_size": 1,
    "max_model_len": 2048,
    "max_num_seqs": 64,
    "seed": 0,
    "enable_prefix_caching": True,
    "trust_remote_code": False,
    "disable_log_stats": True,
}


def test_each_device_has_its_defaults_and_what_is_left_out_is_left_to_vllm() -> None:
    on_cpu = {"dtype": "float32", "enforce_eager": True, "block_size": 32}
    on_cpu |= {"max_num_batched_tokens": 512, "kv_cache_memory_bytes": 2**30}
    on_gpu = {"dtype": "auto", "gpu_memory_utilization": 0.9, "max_num_batched_tokens": 16_384}
    assert arguments(ON_CPU) == USUAL | on_cpu
    assert arguments(ON_GPU, 1.0) == USUAL | on_gpu


@pytest.mark.parametrize("config", [ON_CPU, ON_GPU])
def test_the_files_settings_override_the_devices_defaults(config: EngineConfig) -> None:
    said: dict[str, Any] = {
        "revision": "v2",
        "max_num_seqs": 8,
        "max_num_batched_tokens": 128,
        "dtype": "bfloat16",
        "quantization": "fp8",
        "seed": 7,
        "enable_prefix_caching": False,
        "block_size": 64,
    }
    kwargs = {"enforce_eager": False, "kv_cache_dtype": "fp8"}
    asked = config.model_copy(update={**said, "engine_kwargs": kwargs})
    assert arguments(asked, 1.0).items() >= {**said, **kwargs}.items()


@pytest.mark.parametrize(
    ("num_gpus", "said", "utilization"),
    [(1.0, None, 0.9), (0.5, None, 0.45), (8.0, None, 0.9), (0.5, 0.3, 0.3)],
)
def test_memory_use_follows_the_replicas_share_of_a_gpu_unless_said(
    num_gpus: float, said: float | None, utilization: float
) -> None:
    config = EngineConfig(device="cuda", gpu_memory_utilization=said)
    assert arguments(config, num_gpus)["gpu_memory_utilization"] == pytest.approx(utilization)


def test_tensor_parallel_workers_are_processes_of_the_replica() -> None:
    made = arguments(EngineConfig(device="cuda", tensor_parallel_size=2), 2.0)
    assert made["tensor_parallel_size"] == 2
    assert made["distributed_executor_backend"] == "mp"


@pytest.mark.skipif(vllm_engine_arguments() is None, reason="vLLM is not installed")
@pytest.mark.parametrize("config", [ON_CPU, EngineConfig(device="cuda", tensor_parallel_size=2)])
def test_the_installed_vllm_knows_every_argument(config: EngineConfig) -> None:
    full = config.model_copy(update={"revision": "v2", "quantization": "fp8"})
    assert arguments(full, 2.0).keys() <= (vllm_engine_arguments() or frozenset())


def test_importing_this_module_does_not_import_vllm() -> None:
    imports = "import sys, reward_serve.engines.vllm; sys.exit('vllm' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", imports], check=False).returncode == 0


CPU_VARIABLES = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "2",
    "OMP_WAIT_POLICY": "PASSIVE",
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64",
    "TORCHDYNAMO_DISABLE": "1",
}
ALWAYS = {
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "VLLM_CONFIGURE_LOGGING": "0",
    "REWARD_SERVE_ENGINE_OWNER": str(os.getpid()),
}
OFFLINE = {"HF_HUB_OFFLINE": "1"}


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of the variables is set; whatever the test sets is taken back."""
    for name in ALWAYS | CPU_VARIABLES | OFFLINE:
        monkeypatch.setenv(name, "before")
        monkeypatch.delenv(name)


def added(config: EngineConfig, num_cpus: float) -> dict[str, str]:
    before = dict(os.environ)
    set_environment(config, num_cpus)
    return {name: value for name, value in os.environ.items() if before.get(name) != value}


def test_on_a_cpu_one_child_uses_the_replicas_cores_and_on_a_gpu_vllm_decides() -> None:
    os.environ["OMP_NUM_THREADS"] = "99"  # Ray sets it to the actor's num_cpus
    assert added(ON_CPU, 2.9) == ALWAYS | OFFLINE | CPU_VARIABLES
    assert added(ON_CPU, 0.5) == {"OMP_NUM_THREADS": "1"}


def test_only_a_hub_model_needs_the_network() -> None:
    assert added(EngineConfig(device="cuda", model=HUB), 1.0) == ALWAYS
    assert added(ON_GPU, 1.0) == OFFLINE


def test_what_the_operator_set_is_kept() -> None:
    said = {"VLLM_LOGGING_LEVEL": "DEBUG", "VLLM_NO_USAGE_STATS": "0", "HF_HUB_OFFLINE": "0"}
    os.environ.update(said)
    set_environment(ON_CPU, num_cpus=1.0)
    assert os.environ.items() >= said.items()


@pytest.mark.parametrize(
    ("settings", "asked"),
    [
        ({"device": "cpu", "dtype": "int8"}, ("int8", ADAPTER)),
        ({"device": "cpu", "dtype": "bfloat16"}, ("whole", ADAPTER)),
        ({"device": "cuda"}, ("whole", ADAPTER)),
        ({"device": "cuda", "adapter": "none"}, ("whole", None)),
        ({"device": "cuda", "adapter": "/mine"}, ("whole", Path("/mine"))),
    ],
)
def test_the_bundled_model_is_prepared_in_its_form(
    settings: Any, asked: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, form in (("prepare_bundled", "whole"), ("prepare_int8", "int8")):
        prepare = lambda adapter, form=form: (form, adapter)  # noqa: E731
        monkeypatch.setattr(reward_serve_judge, name, prepare)
    assert locate(EngineConfig.model_validate(settings)) == asked


def test_a_folder_or_a_hub_id_is_checked_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CheckpointError, match="there is no folder"):
        locate(EngineConfig(model=str(tmp_path / "nowhere")))
    checked: list[tuple[str, str | None]] = []
    monkeypatch.setattr(vllm_settings, "check_hub_id", lambda *asked: checked.append(asked))
    assert locate(EngineConfig(model=HUB, revision="main")) == HUB
    assert checked == [(HUB, "main")]


def test_the_revision_names_the_weights_whatever_the_source(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    assert revision(EngineConfig(), tmp_path / "prepared-1") == "prepared-1"
    assert revision(EngineConfig(model=str(tmp_path)), tmp_path) == folder_digest(tmp_path)
    assert revision(EngineConfig(model=HUB), Path(HUB)) == "main"
    assert revision(EngineConfig(model=HUB, revision="0123abc"), Path(HUB)) == "0123abc"
