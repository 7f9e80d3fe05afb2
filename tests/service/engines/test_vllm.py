from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import reward_serve_judge
from reward_serve.config.engine import EngineConfig
from reward_serve.config.resolve import vllm_engine_arguments
from reward_serve.engines import vllm as vllm_settings
from reward_serve.engines.checkpoint import CheckpointError, folder_digest
from reward_serve.engines.vllm import (
    _usage,
    engine_arguments,
    locate,
    revision,
    set_environment,
)
from reward_serve.schema import Usage
from reward_serve_judge.weights import ADAPTER

ON_CPU = EngineConfig(device="cpu")
ON_GPU = EngineConfig(device="cuda")


def arguments(config: EngineConfig, num_gpus: float = 0.0) -> dict[str, Any]:
    return engine_arguments(config, "/models/judge", num_gpus)


class TestEngineArguments:
    def test_on_a_cpu(self) -> None:
        assert arguments(ON_CPU) == {
            "model": "/models/judge",
            "tensor_parallel_size": 1,
            "max_model_len": 2048,
            "max_num_seqs": 64,
            "dtype": "float32",
            "seed": 0,
            "enable_prefix_caching": True,
            "trust_remote_code": False,
            "disable_log_stats": True,
            "enforce_eager": True,
            "block_size": 32,
            "max_num_batched_tokens": 512,
            "kv_cache_memory_bytes": 2**30,
        }

    def test_on_a_gpu_what_is_left_out_is_left_to_vllm(self) -> None:
        assert arguments(ON_GPU, 1.0) == {
            "model": "/models/judge",
            "tensor_parallel_size": 1,
            "max_model_len": 2048,
            "max_num_seqs": 64,
            "dtype": "auto",
            "seed": 0,
            "enable_prefix_caching": True,
            "trust_remote_code": False,
            "disable_log_stats": True,
            "gpu_memory_utilization": 0.9,
            "max_num_batched_tokens": 16_384,
        }

    def test_the_files_settings_override_the_devices_defaults(self) -> None:
        said: dict[str, Any] = {
            "revision": "v2",
            "max_model_len": 512,
            "max_num_seqs": 8,
            "max_num_batched_tokens": 128,
            "dtype": "bfloat16",
            "quantization": "fp8",
            "seed": 7,
            "enable_prefix_caching": False,
            "block_size": 64,
            "trust_remote_code": True,
        }
        for device, num_gpus in (("cpu", 0.0), ("cuda", 1.0)):
            config = EngineConfig.model_validate({"device": device, **said})
            assert arguments(config, num_gpus).items() >= said.items()

    @pytest.mark.parametrize(
        ("dtype", "given"), [("auto", "float32"), ("int8", "float32"), ("bfloat16", "bfloat16")]
    )
    def test_on_a_cpu_all_but_int8_weights_is_float32_unless_the_file_says_otherwise(
        self, dtype: str, given: str
    ) -> None:
        config = EngineConfig.model_validate({"device": "cpu", "dtype": dtype})
        assert arguments(config)["dtype"] == given

    def test_the_cpus_cache_is_given_in_gib(self) -> None:
        config = EngineConfig(device="cpu", cpu_kv_cache_gib=0.25)
        assert arguments(config)["kv_cache_memory_bytes"] == 2**28

    @pytest.mark.parametrize(
        ("num_gpus", "utilization"), [(1.0, 0.9), (0.5, 0.45), (0.1, 0.09), (2.0, 0.9), (8.0, 0.9)]
    )
    def test_memory_use_follows_the_replicas_share_of_a_gpu(
        self, num_gpus: float, utilization: float
    ) -> None:
        assert arguments(ON_GPU, num_gpus)["gpu_memory_utilization"] == pytest.approx(utilization)

    def test_memory_use_may_be_said(self) -> None:
        config = EngineConfig(device="cuda", gpu_memory_utilization=0.3)
        assert arguments(config, 0.5)["gpu_memory_utilization"] == 0.3

    def test_tensor_parallel_workers_are_processes_of_the_replica(self) -> None:
        made = arguments(EngineConfig(device="cuda", tensor_parallel_size=2), 2.0)
        assert made["tensor_parallel_size"] == 2
        assert made["distributed_executor_backend"] == "mp"
        assert "distributed_executor_backend" not in arguments(ON_GPU, 1.0)

    def test_engine_kwargs_are_passed_on_and_override(self) -> None:
        config = EngineConfig(
            device="cpu", engine_kwargs={"enforce_eager": False, "kv_cache_dtype": "fp8"}
        )
        made = arguments(config)
        assert made["enforce_eager"] is False
        assert made["kv_cache_dtype"] == "fp8"
        assert made["block_size"] == 32

    @pytest.mark.parametrize("config", [ON_CPU, ON_GPU], ids=["cpu", "gpu"])
    def test_nothing_could_change_the_weights_or_take_them_away(self, config: EngineConfig) -> None:
        made = arguments(config, 1.0)
        assert made["trust_remote_code"] is False
        for word in ("lora", "sleep", "worker_extension", "weight_transfer"):
            assert not [name for name in made if word in name]

    @pytest.mark.skipif(vllm_engine_arguments() is None, reason="vLLM is not installed")
    @pytest.mark.parametrize(
        ("config", "num_gpus"),
        [(ON_CPU, 0.0), (EngineConfig(device="cuda", tensor_parallel_size=2), 2.0)],
        ids=["cpu", "gpu"],
    )
    def test_the_installed_vllm_knows_every_argument(
        self, config: EngineConfig, num_gpus: float
    ) -> None:
        full = config.model_copy(update={"revision": "v2", "quantization": "fp8"})
        assert arguments(full, num_gpus).keys() <= (vllm_engine_arguments() or frozenset())

    def test_importing_this_module_does_not_import_vllm(self) -> None:
        imports = "import sys, reward_serve.engines.vllm; sys.exit('vllm' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", imports], check=False).returncode == 0


class TestEnvironment:
    ALWAYS = ("VLLM_NO_USAGE_STATS", "VLLM_LOGGING_LEVEL", "VLLM_CONFIGURE_LOGGING")
    ON_CPU = (
        "VLLM_ENABLE_V1_MULTIPROCESSING",
        "VLLM_CPU_OMP_THREADS_BIND",
        "OMP_NUM_THREADS",
        "OMP_WAIT_POLICY",
        "ONEDNN_PRIMITIVE_CACHE_CAPACITY",
        "TORCHDYNAMO_DISABLE",
    )
    OWNER = "REWARD_SERVE_ENGINE_OWNER"

    @pytest.fixture(autouse=True)
    def _bare(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """None of the variables is set; whatever the test sets is taken back."""
        for name in (*self.ALWAYS, *self.ON_CPU, self.OWNER, "HF_HUB_OFFLINE"):
            monkeypatch.setenv(name, "before")
            monkeypatch.delenv(name)

    def test_on_a_cpu_one_child_uses_the_replicas_cores(self) -> None:
        before = dict(os.environ)
        set_environment(ON_CPU, num_cpus=2.0)
        assert dict(os.environ) == before | {
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_LOGGING_LEVEL": "WARNING",
            "VLLM_CONFIGURE_LOGGING": "0",
            "HF_HUB_OFFLINE": "1",
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "OMP_NUM_THREADS": "2",
            "OMP_WAIT_POLICY": "PASSIVE",
            "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64",
            "TORCHDYNAMO_DISABLE": "1",
            self.OWNER: str(os.getpid()),
        }

    def test_on_a_gpu_vllm_keeps_its_own_ways(self) -> None:
        set_environment(ON_GPU, num_cpus=1.0)
        assert not [name for name in self.ON_CPU if name in os.environ]
        assert os.environ[self.OWNER] == str(os.getpid())

    @pytest.mark.parametrize(
        ("num_cpus", "threads"), [(0.5, "1"), (1.0, "1"), (1.9, "1"), (16.0, "16")]
    )
    def test_threads_follow_the_replicas_cores(self, num_cpus: float, threads: str) -> None:
        os.environ["OMP_NUM_THREADS"] = "99"  # Ray sets it to the actor's num_cpus
        set_environment(ON_CPU, num_cpus)
        assert os.environ["OMP_NUM_THREADS"] == threads

    def test_where_the_operator_names_a_logging_config_vllm_reads_it(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("VLLM_LOGGING_CONFIG_PATH", "logging.json")
        set_environment(ON_CPU, num_cpus=2.0)
        assert "VLLM_CONFIGURE_LOGGING" not in os.environ

    def test_what_the_operator_set_for_logs_statistics_and_the_hub_is_kept(self) -> None:
        said = {"VLLM_LOGGING_LEVEL": "DEBUG", "VLLM_NO_USAGE_STATS": "0", "HF_HUB_OFFLINE": "0"}
        os.environ.update(said)
        set_environment(ON_CPU, num_cpus=1.0)
        assert os.environ.items() >= said.items()

    @pytest.mark.parametrize(
        ("model", "offline"),
        [("bundled", True), ("/models/judge", True), ("Qwen/Qwen2.5-1.5B-Instruct", False)],
    )
    def test_only_a_hub_model_needs_the_network(self, model: str, offline: bool) -> None:
        set_environment(EngineConfig(device="cuda", model=model), num_cpus=1.0)
        assert ("HF_HUB_OFFLINE" in os.environ) is offline


class TestWhereTheModelLies:
    def test_the_bundled_model_is_prepared(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[Path | None] = []

        def prepare(adapter: Path | None) -> Path:
            asked.append(adapter)
            return Path("/cache/prepared")

        monkeypatch.setattr(reward_serve_judge, "prepare_bundled", prepare)
        for adapter in ("shipped", "none", "/mine"):
            config = EngineConfig(device="cpu", dtype="float32", adapter=adapter)
            assert locate(config) == Path("/cache/prepared")
        assert asked == [ADAPTER, None, Path("/mine")]

    @pytest.mark.parametrize(
        ("settings", "folder"),
        [
            ({"device": "cpu", "dtype": "int8"}, "int8"),
            ({"device": "cpu", "dtype": "bfloat16"}, "whole"),
            ({"device": "cuda"}, "whole"),
        ],
    )
    def test_the_bundled_model_is_in_int8_only_on_a_cpu(
        self, settings: dict[str, Any], folder: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(reward_serve_judge, "prepare_bundled", lambda adapter: Path("whole"))
        monkeypatch.setattr(reward_serve_judge, "prepare_int8", lambda adapter: Path("int8"))
        assert locate(EngineConfig.model_validate(settings)) == Path(folder)

    def test_a_folder_is_checked_first(self, tmp_path: Path) -> None:
        with pytest.raises(CheckpointError, match="there is no folder"):
            locate(EngineConfig(model=str(tmp_path / "nowhere")))

    def test_a_hub_id_is_checked_and_left_to_vllm(self, monkeypatch: pytest.MonkeyPatch) -> None:
        checked: list[tuple[str, str | None]] = []
        monkeypatch.setattr(vllm_settings, "check_hub_id", lambda *asked: checked.append(asked))
        hub = "Qwen/Qwen2.5-1.5B-Instruct"
        assert locate(EngineConfig(model=hub, revision="main")) == hub
        assert checked == [(hub, "main")]

    def test_the_revision_names_the_weights_whatever_the_source(self, tmp_path: Path) -> None:
        (tmp_path / "config.json").write_text("{}", encoding="utf-8")
        hub = EngineConfig(model="Qwen/Qwen2.5-1.5B-Instruct")
        assert revision(EngineConfig(), tmp_path / "prepared-1") == "prepared-1"
        assert revision(EngineConfig(model=str(tmp_path)), tmp_path) == folder_digest(tmp_path)
        assert revision(hub, Path(hub.model)) == "main"
        pinned = hub.model_copy(update={"revision": "0123abc"})
        assert revision(pinned, Path(hub.model)) == "0123abc"


@dataclass
class FakeCompletion:
    token_ids: list[int]


@dataclass
class FakeOutput:
    prompt_token_ids: list[int]
    num_cached_tokens: int | None
    outputs: list[FakeCompletion] = field(default_factory=lambda: [FakeCompletion([1, 2])])


@pytest.mark.parametrize(("cached", "counted"), [(None, 0), (0, 0), (32, 32)])
def test_usage_counts_what_the_engine_reports(cached: int | None, counted: int) -> None:
    usage = _usage(FakeOutput(prompt_token_ids=[0] * 40, num_cached_tokens=cached))
    assert usage == Usage(prompt_tokens=40, cached_tokens=counted, completion_tokens=2)
