"""``python -m loadtests.gpu.bench``: speed, and a shared card; parts of gpu.json.

python -m loadtests.gpu.bench --only speed-8b,together --out $OUT
python -m loadtests.gpu.bench --device cpu --out /tmp/rehearsal   # figures that mean nothing

``speed``: label mode on random weights by bare ``AsyncLLM``, the engine with rendered prompts, and
the service over HTTP, in turn, with two engines on a part of the GPU each. ``together``: the
bundled judge on a tenth of the GPU beside a process that multiplies matrices.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Annotated, Any

import typer

from deployments.local import ROOT, deployed
from examples.demo import SAMPLES
from loadtests.bench.bare_engine import bare, batches
from loadtests.bench.common import (
    PromptRenderer,
    Request,
    Way,
    alternated,
    marked,
    read_requests,
    relative,
    spread,
)
from loadtests.cluster import served
from loadtests.gpu.card import Place, run_on, share_of_peak, write_model
from loadtests.reports import RESULTS
from reward_serve import HttpRewardClient
from reward_serve.config.engine import EngineConfig
from reward_serve.engines.base import Prompt
from reward_serve.engines.vllm import VllmEngine

_SPEED_SHARE, _JUDGE_SHARE = 0.31, 0.1
_CALL = 128
_REFERENCE = "18"
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_TOKENS_A_ROUND = {"qwen2.5-1.5b": 524_288, "llama-8b": 131_072, "tiny": 1536}

# Holds half of a GPU's memory and multiplies matrices until its input ends; prints products/s.
_BUSY = """
import sys, threading, time, torch
on_gpu = torch.cuda.is_available()
device, size, dtype = ("cuda", 8192, torch.bfloat16) if on_gpu else ("cpu", 256, torch.float32)
held = on_gpu and torch.empty(torch.cuda.mem_get_info()[1] // 2, dtype=torch.uint8, device=device)
left, right = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
print("ready", flush=True)
products, began = 0, time.monotonic()
while not ended.is_set():
    for _ in range(8):
        torch.matmul(left, right)
    if on_gpu:
        torch.cuda.synchronize()
    products += 8
print(products / (time.monotonic() - began))
"""


def main(
    only: Annotated[str, typer.Option(help="Parts, as in speed-1.5b,together; default all.")] = "",
    device: Annotated[str, typer.Option(help="cuda, or cpu for a rehearsal.")] = "cuda",
    rounds: Annotated[int, typer.Option(min=1, help="Repeats, in alternation.")] = 3,
    out: Annotated[Path, typer.Option(help="Folder of gpu.json.")] = RESULTS,
) -> None:
    """Run the parts one after another."""
    place = Place("cuda" if device == "cuda" else "cpu")
    with tempfile.TemporaryDirectory() as folder:
        small, large = (
            write_model(Path(folder, shape), place.pick(shape, "tiny"))
            for shape in ("qwen2.5-1.5b", "llama-8b")
        )
        parts = {
            "speed-1.5b": lambda: speed(place, small, rounds),
            "speed-8b": lambda: speed(place, large, rounds),
            "together": lambda: together(place, rounds),
        }
        run_on(parts, only, out / "gpu.json")


def speed(place: Place, model: Path, rounds: int) -> dict[str, Any]:
    """Verdicts/s of a judge of this model's shape, by prompt length and way."""
    config = place.engine(str(model), _SPEED_SHARE)
    lengths: tuple[int, ...] = place.pick((256, 2048), (192,))
    judge = {"rules_first": False, "response_tokens": max(lengths), "audit_rate": 0.0}
    service = {
        "name": "judge",
        "kind": "judge",
        "engine": config.model_dump(exclude_none=True, exclude={"device"}),
        "judge": judge,
        "cache": {"enabled": False},
        "resources": place.resources(_SPEED_SHARE),
        "max_concurrent_items": 1024,
    }
    shape = place.pick(model.name, "tiny")
    with served([service], num_cpus=8) as url:
        return asyncio.run(_speed(place, shape, config, lengths, rounds, url))


async def _speed(
    place: Place, shape: str, config: EngineConfig, lengths: tuple[int, ...], rounds: int, url: str
) -> dict[str, Any]:
    engine = await VllmEngine.start(config, num_cpus=1, num_gpus=place.pick(1.0, 0.0))
    rendered = PromptRenderer(engine.tokenizer, response_tokens=max(lengths))
    around = len(rendered.ids({"response": "", "reference": _REFERENCE}))
    ways = {
        "bare": bare(engine, rendered.ids, logprob_token_ids=rendered.label_ids),
        "engine_alone": _labelled(engine),
        "service_http": batches(HttpRewardClient(url, timeout_s=600), _CALL),
    }
    seeds, figures = itertools.count(), {}

    def asked(name: str) -> list[Any]:
        new = [cut(request) for request in requests(next(seeds), items, tokens - around)]
        return list(map(rendered.prompt, new)) if name == "engine_alone" else new

    def cut(request: Request) -> Request:
        _, starts = engine.tokenizer.encode_plain(request["response"])
        return {**request, "response": request["response"][: starts[tokens - around]]}

    try:
        for tokens in lengths:
            items = _TOKENS_A_ROUND[shape] // tokens
            rates = await alternated(ways, rounds, asked)
            used = await _usage(engine, asked("engine_alone")[:8])
            computed = used["prompt"] - used["cached"]
            by_way = {
                name: {
                    "verdicts_per_s": spread(per_round),
                    "share_of_peak": share_of_peak(statistics.median(per_round), shape, computed),
                }
                for name, per_round in rates.items()
            }
            ratio = relative(rates, "bare")
            figures[str(tokens)] = {
                "ratio_to_bare": ratio, "tokens": used, "items": items, **by_way
            }  # fmt: skip
    finally:
        engine.close()
    return figures


def _labelled(engine: VllmEngine) -> Way:
    async def way(prompts: list[Prompt]) -> int:
        asked = (engine.label_logprobs(prompt, list(prompt.label_ids)) for prompt in prompts)
        return len(await asyncio.gather(*asked))

    return way


async def _usage(engine: VllmEngine, prompts: list[Any]) -> dict[str, float]:
    """Prompt tokens, and cached ones, of a prompt that shares only the template's text."""
    used = [
        (await engine.label_logprobs(prompt, list(prompt.label_ids))).usage for prompt in prompts
    ]
    return {
        "prompt": statistics.fmean(usage.prompt_tokens for usage in used),
        "cached": statistics.median(usage.cached_tokens for usage in used),
    }


def requests(seed: int, count: int, tokens: int) -> list[Request]:
    """Requests that share no text, with more than ``tokens`` tokens: a word has two or three."""
    random = Random(seed)
    words = ["".join(random.choices(_LETTERS, k=4)) for _ in range(4096)]
    return [
        {"response": " ".join(random.choices(words, k=tokens // 2 + 2)), "reference": _REFERENCE}
        for _ in range(count)
    ]


def together(place: Place, rounds: int) -> dict[str, Any]:
    """The judge's verdicts/s and the other process's products/s, each alone and both at once."""
    asked = read_requests(SAMPLES) * 8 if place.device == "cuda" else read_requests(SAMPLES)[:8]
    marks = map("{:03}".format, itertools.count())
    on = {"resources": place.resources(_JUDGE_SHARE), "max_concurrent_items": 256}
    with deployed(rules_first=False, cache=False, **on) as service:
        ways = {"judge": batches(HttpRewardClient(service.url, timeout_s=600), _CALL)}

        def rates() -> list[float]:
            alternation = alternated(ways, rounds, lambda _: marked(asked, next(marks)))
            return asyncio.run(alternation)["judge"]

        alone = rates()
        with busy() as other_alone:
            time.sleep(place.pick(5.0, 0.5))
        with busy() as other_beside:
            beside = rates()
    return {
        "judge_alone_per_s": spread(alone),
        "judge_beside_per_s": spread(beside),
        "other_alone_per_s": other_alone[0],
        "other_beside_per_s": other_beside[0],
        "ratio": {
            "judge": statistics.median(beside) / statistics.median(alone),
            "other": other_beside[0] / other_alone[0],
        },
        "ready_s": service.ready_s,
    }


@contextmanager
def busy() -> Iterator[list[float]]:
    """A busy process; the list holds its products a second once it has ended."""
    command = [sys.executable, "-c", _BUSY]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    rates: list[float] = []
    assert process.stdout is not None
    try:
        if process.stdout.readline().strip() != "ready":
            raise RuntimeError("the busy process did not start")
        yield rates
    finally:
        out, _ = process.communicate(timeout=60)  # closes its input
        rates += [float(line) for line in out.split()]


if __name__ == "__main__":
    typer.run(main)
