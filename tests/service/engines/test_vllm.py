import itertools
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import reward_serve_judge
from reward_serve.config.engine import EngineConfig
from reward_serve.engines import vllm as vllm_settings
from reward_serve.engines.checkpoint import CheckpointError, folder_digest
from reward_serve.engines.vllm import (
    Progress,
    VllmEngine,
    engine_arguments,
    locate,
    revision,
    set_environment,
)
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


class _Prompted:
    """An ``AsyncLLM`` whose prefix cache holds some tokens, for which it has no values."""

    def __init__(self, cached: int, reported: int, is_padded: bool) -> None:
        self.asked: list[bool] = []
        self._cached, self._reported, self._is_padded = cached, reported, is_padded

    async def generate(self, tokens: Any, params: Any, number: str, priority: int) -> Any:
        self.asked.append(params.skip_reading_prefix_cache)
        ids = torch.tensor(tokens["prompt_token_ids"], dtype=torch.int32)
        rows = torch.stack([ids[1:], ids[1:] + 1], 1)
        values = torch.stack([-ids[1:] / 8, -ids[1:] / 4], 1)
        skipped = 0 if params.skip_reading_prefix_cache else self._cached
        if self._is_padded:
            rows[:skipped], values[:skipped] = 12345, torch.nan
        else:
            rows, values = rows[skipped:], values[skipped:]
        yield SimpleNamespace(
            prompt_logprobs=(rows, values, None),
            prompt_token_ids=ids,
            num_cached_tokens=0 if params.skip_reading_prefix_cache else self._reported,
            finished=True,
        )


@pytest.mark.parametrize("is_padded", [True, False], ids=["cpu", "gpu"])
@pytest.mark.parametrize(
    ("cached", "reported", "asked"),
    [(0, 0, [False]), (3, 3, [False]), (4, 4, [False, True]), (6, 6, [False, True]),
     (6, 0, [False, True])],
)  # fmt: skip
async def test_no_value_is_of_a_token_that_was_not_computed(
    is_padded: bool, cached: int, reported: int, asked: list[bool]
) -> None:
    llm = _Prompted(cached, reported, is_padded)
    engine = VllmEngine.__new__(VllmEngine)
    engine._llm, engine._progress, engine._numbers = llm, Progress(), itertools.count()
    engine._input = lambda ids: {"prompt_token_ids": ids}
    output = await engine.prompt_logprobs([*range(10, 20)], 4, 1)
    assert output.logprobs.tolist() == [-i / 8 for i in range(14, 20)]
    assert output.top_ids.tolist() == [[i + 1] for i in range(14, 20)]
    assert llm.asked == asked
