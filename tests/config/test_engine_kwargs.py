from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from reward_serve.config.engine_kwargs import check_engine_kwargs, vllm_engine_arguments

SOURCE = """
from dataclasses import dataclass

KNOWN_ELSEWHERE: int = 1

@dataclass
class EngineArgs:
    model: str = "m"
    max_model_len: int | None = None
    kv_cache_dtype: str = "auto"
    enable_lora: bool = False
    unannotated = 1

    def create(self) -> None:
        local: int = 1

@dataclass
class AsyncEngineArgs(EngineArgs):
    enable_log_requests: bool = False

class OtherArgs:
    other: int = 1
"""


@pytest.fixture
def fake_vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package by vLLM's name whose engine arguments are those of ``SOURCE``."""
    source = tmp_path / "vllm" / "engine" / "arg_utils.py"
    source.parent.mkdir(parents=True)
    source.write_text(SOURCE, encoding="utf-8")
    (tmp_path / "vllm" / "__init__.py").write_text("raise AssertionError('imported')")
    monkeypatch.delitem(sys.modules, "vllm", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    vllm_engine_arguments.cache_clear()
    yield source
    vllm_engine_arguments.cache_clear()


@pytest.fixture
def no_vllm(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    vllm_engine_arguments.cache_clear()
    yield
    vllm_engine_arguments.cache_clear()


@pytest.mark.usefixtures("fake_vllm")
def test_the_arguments_are_read_from_vllms_source_without_importing_it() -> None:
    expected = {"model", "max_model_len", "kv_cache_dtype", "enable_lora", "enable_log_requests"}
    assert vllm_engine_arguments() == frozenset(expected)
    assert "vllm" not in sys.modules


@pytest.mark.usefixtures("no_vllm")
def test_without_vllm_nothing_is_known() -> None:
    assert vllm_engine_arguments() is None


def test_nor_is_anything_of_a_vllm_that_keeps_them_elsewhere(fake_vllm: Path) -> None:
    fake_vllm.unlink()
    assert vllm_engine_arguments() is None


@pytest.mark.usefixtures("fake_vllm")
@pytest.mark.parametrize("kwargs", [{}, {"kv_cache_dtype": "fp8"}, {"enable_log_requests": True}])
def test_known_arguments_pass(kwargs: dict[str, object]) -> None:
    check_engine_kwargs(kwargs, own={"model"})


@pytest.mark.usefixtures("fake_vllm")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        pytest.param("max_model_len", "has its own field; set engine.max_model_len", id="own"),
        pytest.param("enable_lora", "a reward model is frozen", id="LoRA"),
        pytest.param("enable_sleep_mode", "a reward model is frozen", id="sleep"),
        pytest.param("worker_extension_cls", "a reward model is frozen", id="worker extension"),
        pytest.param("weight_transfer_config", "a reward model is frozen", id="weight transfer"),
        pytest.param("kv_cache_dtyp", "did you mean 'kv_cache_dtype'", id="typo"),
        pytest.param("zzz", "vLLM has no such engine argument; remove it", id="unknown"),
        pytest.param("other", "vLLM has no such engine argument", id="another class's"),
        pytest.param("", "vLLM has no such engine argument", id="no name"),
    ],
)
def test_other_arguments_are_refused_by_name(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=rf"^engine_kwargs\.{name}: ") as caught:
        check_engine_kwargs({"kv_cache_dtype": "fp8", name: True}, own={"max_model_len"})
    assert message in str(caught.value)


@pytest.mark.usefixtures("no_vllm")
def test_without_vllm_an_unknown_argument_passes_and_a_frozen_one_does_not() -> None:
    check_engine_kwargs({"zzz": 1}, own=set())
    with pytest.raises(ValueError, match="frozen"):
        check_engine_kwargs({"enable_lora": False}, own=set())


@pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed")
def test_the_installed_vllm_names_its_arguments() -> None:
    known = vllm_engine_arguments()
    assert known is not None
    assert known >= {"model", "seed", "enforce_eager", "kv_cache_dtype", "enable_lora"}
    # What is forbidden must go by these names still.
    assert known >= {"enable_sleep_mode", "worker_extension_cls", "weight_transfer_config"}
