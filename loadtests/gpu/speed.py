"""Label mode and the classifier on random weights: each way in turn, against the GPU's peak.

Bare ``AsyncLLM``, vLLM's ``LLM`` and the service over HTTP each have an engine on a third of the
GPU; while one works, the others are idle. Tokens from the prefix cache do not count as computed.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any

from deployments.local import console
from loadtests.bench.bare_engine import bare, batches
from loadtests.bench.common import PromptRenderer, Request, spread, timed
from loadtests.bench.kinds import served
from loadtests.bench.scaling import prompt_flops
from loadtests.gpu.models import parameters, peak_flops, shape_of, write_model
from loadtests.gpu.place import Place, card
from reward_serve import HttpRewardClient
from reward_serve.config.engine import EngineConfig
from reward_serve.engines.base import Prompt
from reward_serve.engines.vllm import (
    ChatTokenizer,
    VllmClassifier,
    VllmEngine,
    engine_arguments,
    set_environment,
)

_SHARE = 0.31
_CALL = 128
_REFERENCE = "18"
_ASKED = {"question": "Which number is it?"}
_LETTERS = "abcdefghijklmnopqrstuvwxyz"

Way = Callable[[list[Any]], Awaitable[int]]
_ENGINE = "engine_alone"  # asked with prompts that were rendered before the clock started


def label(place: Place, shape: str, rounds: int) -> dict[str, Any]:
    """Verdicts/s and prompt tokens/s of a judge of this shape, by prompt length and way."""
    config = place.engine(str(write_model(place.folder / shape, shape)), _SHARE)
    longest = max(_lengths(place))
    judge = {"rules_first": False, "response_tokens": longest, "audit_rate": 0.0}
    fields = {"kind": "judge", "judge": judge, "cache": {"enabled": False}}
    with served([_model(place, config, fields)]) as url:
        with console.status(f"{shape}: LLM"):
            llm = _offline(config, place.gpus)
        try:
            return asyncio.run(_label(place, shape, config, rounds, llm, url))
        finally:
            llm.llm_engine.engine_core.shutdown()


async def _label(
    place: Place, shape: str, config: EngineConfig, rounds: int, llm: Any, url: str
) -> dict[str, Any]:
    with console.status(f"{shape}: AsyncLLM"):
        engine = await VllmEngine.start(config, num_cpus=1, num_gpus=place.gpus)
    rendered = PromptRenderer(engine.tokenizer, response_tokens=max(_lengths(place)))
    around = len(rendered.ids({"response": "", "reference": _REFERENCE}))
    ways: dict[str, Way] = {
        _ENGINE: _prompted(engine),
        "bare": bare(engine, rendered),
        "llm_generate": _generated(llm, rendered),
        "service_http": batches(HttpRewardClient(url, timeout_s=600), _CALL),
    }
    figures = {}
    try:
        for tokens in _lengths(place):
            stream = Stream(engine.tokenizer, tokens - around, _items(place, shape, tokens))
            rates = await _alternated(ways, stream, rounds, rendered.prompt)
            used = await _usage(engine, rendered, stream)
            figures[str(tokens)] = _figures(rates, shape, used, stream.items)
    finally:
        engine.close()
    return figures


def classifier(place: Place, shape: str, rounds: int) -> dict[str, Any]:
    """Logits/s of a classifier of this shape: bare ``AsyncLLM`` and the service."""
    model = str(write_model(place.folder / f"{shape}-classifier", shape, classifier=True))
    config = place.engine(model, _SHARE)
    with served([_model(place, config, {"kind": "classifier"})]) as url:
        return asyncio.run(_classifier(place, shape, config, rounds, url))


async def _classifier(
    place: Place, shape: str, config: EngineConfig, rounds: int, url: str
) -> dict[str, Any]:
    engine = await VllmClassifier.start(config, num_cpus=1, num_gpus=place.gpus)
    tokenizer = engine.tokenizer

    async def logits(requests: list[Request]) -> int:
        prompts = [tokenizer.encode_control(_conversation(tokenizer, one)) for one in requests]
        return len(await asyncio.gather(*map(engine.logits, prompts)))

    service = batches(HttpRewardClient(url, timeout_s=600), _CALL)
    ways: dict[str, Way] = {"bare": logits, "service_http": service}
    around = len(tokenizer.encode_control(_conversation(tokenizer, {**_ASKED, "response": ""})))
    figures = {}
    try:
        for tokens in _lengths(place):
            items = _items(place, shape, tokens)
            stream = Stream(tokenizer, tokens - around, items, **_ASKED)
            rates = await _alternated(ways, stream, rounds)
            used = {"prompt": float(tokens), "cached": 0.0}
            figures[str(tokens)] = _figures(rates, shape, used, items)
    finally:
        engine.close()
    return figures


def _lengths(place: Place) -> tuple[int, ...]:
    """Lengths of prompts, in tokens."""
    lengths: tuple[int, ...] = place.pick((256, 2048), (192,))
    return lengths


def _conversation(tokenizer: ChatTokenizer, request: Request) -> str:
    turns = (("user", "question"), ("assistant", "response"))
    return tokenizer.conversation([{"role": r, "content": request[key]} for r, key in turns])


class Stream:
    """An endless stream of requests that share no text.

    Args:
        tokenizer: cuts responses to ``tokens`` tokens.
        tokens: length of a response.
        items: requests in a round.
        **fields: fields added to every request.
    """

    def __init__(self, tokenizer: ChatTokenizer, tokens: int, items: int, **fields: str) -> None:
        self.tokens, self.items = tokens, items
        self._encode, self._fields = tokenizer.encode_plain, fields
        self._random = Random(0)

    def next(self, count: int) -> list[Request]:
        """The next ``count`` requests."""
        return [
            {"response": self._cut(one["response"]), "reference": _REFERENCE, **self._fields}
            for one in requests(self._random.randrange(2**32), count, self.tokens)
        ]

    def _cut(self, text: str) -> str:
        _, starts = self._encode(text)
        return text[: starts[self.tokens]] if len(starts) > self.tokens else text


def _model(place: Place, config: EngineConfig, fields: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": "judge",
        "engine": config.model_dump(exclude_none=True, exclude={"device"}),
        "resources": place.resources(_SHARE),
        "max_concurrent_items": 1024,
        **fields,
    }


def _offline(config: EngineConfig, gpus: float) -> Any:
    set_environment(config, 1)
    from vllm import LLM

    return LLM(runner="generate", **engine_arguments(config, config.model, gpus))


def _generated(llm: Any, rendered: PromptRenderer) -> Way:
    from vllm import SamplingParams

    params = SamplingParams(
        max_tokens=1, temperature=0.0, logprob_token_ids=rendered.label_ids, detokenize=False
    )

    async def way(requests: list[Request]) -> int:
        prompts = [{"prompt_token_ids": rendered.ids(one)} for one in requests]
        outputs = await asyncio.to_thread(llm.generate, prompts, params, use_tqdm=False)
        return sum(output.finished for output in outputs)

    return way


def _prompted(engine: VllmEngine) -> Way:
    async def way(prompts: list[Prompt]) -> int:
        asked = (engine.label_logprobs(each, list(each.label_ids)) for each in prompts)
        return len(await asyncio.gather(*asked))

    return way


async def _alternated(
    ways: dict[str, Way],
    stream: Stream,
    rounds: int,
    render: Callable[[Request], Prompt] | None = None,
) -> dict[str, list[float]]:
    rates: dict[str, list[float]] = {name: [] for name in ways}
    drawn = Random(0)
    for repeat in range(-1, rounds):
        for name in drawn.sample(list(ways), len(ways)):
            count = stream.items if repeat >= 0 else max(stream.items // 4, 1)
            asked: list[Any] = stream.next(count)
            if name == _ENGINE and render:
                asked = list(map(render, asked))
            seconds, answered = await timed(lambda w=ways[name], a=asked: w(a))  # type: ignore[misc]
            if answered != len(asked):
                raise RuntimeError(f"{name}: {answered} verdicts of {len(asked)}")
            console.print(f"{name}: {answered} in {seconds:.2f} s", highlight=False)
            if repeat >= 0:
                rates[name].append(answered / seconds)
    return rates


def requests(seed: int, count: int, tokens: int) -> list[Request]:
    """Requests that share no text, with at least ``tokens`` tokens: a word has two or three."""
    random = Random(seed)
    words = ["".join(random.choices(_LETTERS, k=4)) for _ in range(4096)]
    return [
        {"response": " ".join(random.choices(words, k=tokens // 2 + 1)), "reference": _REFERENCE}
        for _ in range(count)
    ]


async def _usage(engine: VllmEngine, rendered: PromptRenderer, stream: Stream) -> dict[str, float]:
    """Prompt tokens, and cached ones, of a prompt that shares only the template's text."""
    used = []
    for one in stream.next(8):
        prompt = rendered.prompt(one)
        used.append((await engine.label_logprobs(prompt, list(prompt.label_ids))).usage)
    return {
        "prompt": statistics.fmean(each.prompt_tokens for each in used),
        "cached": statistics.median(each.cached_tokens for each in used),
    }


def _items(place: Place, shape: str, tokens: int) -> int:
    per_round = {"llama-8b": 131_072}.get(shape, 524_288)
    return int(place.pick(per_round // tokens, 8))


def _figures(
    rates: dict[str, list[float]], shape: str, used: dict[str, float], items: int
) -> dict[str, Any]:
    computed = used["prompt"] - used["cached"]
    peak = peak_flops(card().get("name", ""))
    by_way = {
        name: {
            "verdicts_per_s": spread(each),
            "prompt_tokens_per_s": statistics.median(each) * used["prompt"],
            **roofline(statistics.median(each), shape, computed, peak),
        }
        for name, each in rates.items()
    }
    bare_rates = rates["bare"]
    ratio = {name: _ratio(each, bare_rates) for name, each in rates.items() if name != "bare"}
    return {"ratio_to_bare": ratio, "tokens": used, "items": items, **by_way}


def _ratio(rates: Sequence[float], base: Sequence[float]) -> float:
    return statistics.median(a / b for a, b in zip(rates, base, strict=True))


def roofline(
    per_s: float, shape: str, computed: float, peak: float | None
) -> dict[str, float | None]:
    """The share of the GPU's dense peak that a rate reaches; None for an unknown GPU.

    Args:
        per_s: prompts a second.
        shape: a key of ``models.SHAPES``.
        computed: tokens of a prompt that are not cached.
        peak: FLOP/s.

    Returns:
        ``share_of_peak`` counts 2 x parameters x tokens. ``share_of_peak_by_layers`` counts the
        products that are computed: the output layer for the last token only, and the attention's.
    """
    by_parameters = 2.0 * parameters(shape) * computed
    by_layers = prompt_flops(shape_of(shape), int(computed))
    return {
        "share_of_peak": per_s * by_parameters / peak if peak else None,
        "share_of_peak_by_layers": per_s * by_layers / peak if peak else None,
    }
