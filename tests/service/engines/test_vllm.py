import os
from pathlib import Path
from typing import Any

import pytest

import reward_serve_judge
from reward_serve.config.engine import EngineConfig
from reward_serve.engines import vllm as vllm_settings
from reward_serve.engines.checkpoint import CheckpointError, folder_digest
from reward_serve.engines.vllm import engine_arguments, locate, revision, set_environment
from reward_serve_judge.weights import ADAPTER

ON_CPU = EngineConfig(device="cpu")
ON_GPU = EngineConfig(device="cuda")
HUB = "Qwen/Qwen2.5-1.5B-Instruct"


def arguments(config: EngineConfig, num_gpus: float = 0.0) -> dict[str, Any]:
    return engine_arguments(config, "/models/judge", num_gpus)


@pytest.mark.parametrize("config", [ON_CPU, ON_GPU])
def test_the_files_settings_override_the_devices_defaults(config: EngineConfig) -> None:
    settings: dict[str, Any] = {
        "max_num_batched_tokens": 128,
        "dtype": "bfloat16",
        "block_size": 64,
    }
    kwargs = {"enforce_eager": False, "kv_cache_dtype": "fp8"}
    asked = config.model_copy(update={**settings, "engine_kwargs": kwargs})
    assert arguments(asked, 1.0).items() >= {**settings, **kwargs}.items()


@pytest.mark.parametrize(
    ("num_gpus", "configured", "utilization"),
    [(1.0, None, 0.9), (0.5, None, 0.45), (8.0, None, 0.9), (0.5, 0.3, 0.3)],
)
def test_memory_use_follows_the_replicas_share_of_a_gpu_unless_said(
    num_gpus: float, configured: float | None, utilization: float
) -> None:
    config = EngineConfig(device="cuda", gpu_memory_utilization=configured)
    assert arguments(config, num_gpus)["gpu_memory_utilization"] == pytest.approx(utilization)


def test_a_cpus_engine_has_its_replicas_cores_if_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {"OMP_NUM_THREADS": "2", "TORCHDYNAMO_DISABLE": "1", "VLLM_CONFIGURE_LOGGING": "0"}
    variables |= {"REWARD_SERVE_ENGINE_OWNER": str(os.getpid()), "HF_HUB_OFFLINE": "1"}
    environment = {"VLLM_LOGGING_LEVEL": "DEBUG", "OMP_NUM_THREADS": "99"}  # Ray sets the latter
    monkeypatch.setattr(os, "environ", environment)
    set_environment(ON_CPU, 2.9)
    assert environment.items() >= (variables | {"VLLM_LOGGING_LEVEL": "DEBUG"}).items()
    set_environment(ON_CPU, 0.5)
    assert environment["OMP_NUM_THREADS"] == "1"
    environment.clear()
    set_environment(EngineConfig(device="cuda", model=HUB), 1.0)
    assert not environment.keys() & {"OMP_NUM_THREADS", "HF_HUB_OFFLINE"}


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


def test_a_folder_or_hub_id_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
