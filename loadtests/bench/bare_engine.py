"""P2: the service against its bare engine: the same prompts each way, in alternation.

Bare ``AsyncLLM`` in this process with the token ids that the service would render; the service by
handle and over HTTP, in batches and one by one; and vLLM's own server by ``/generative_scoring``.
Only one way runs at a time, and every prompt is new to every cache except for the template's text.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import httpx

from deployments.local import APP, ROOT, console, deployed, free_port
from loadtests.bench.common import (
    NO_CACHE,
    PromptRenderer,
    Request,
    Way,
    alternated,
    in_batches,
    marked,
    relative,
    spread,
)
from reward_serve.client import Client, HttpRewardClient, RewardClient
from reward_serve.client.transport import HandleTransport, HttpTransport, ServiceTransport
from reward_serve.config.engine import EngineConfig
from reward_serve.engines.vllm import VllmEngine, engine_arguments, locate, set_environment
from reward_serve.schema import Status

ITEMS = 96
BATCH = 48
TIMEOUT_S = 600.0


def run(requests: list[Request], repeats: int) -> dict[str, Any]:
    """Verdicts per second each way; ``ratio``: relative to bare ``AsyncLLM``."""
    model = str(locate(EngineConfig(device="cpu")))
    with deployed(rules_first=False) as service, vllm_server(model) as server:
        return asyncio.run(_run(requests[:ITEMS], repeats, service.url, server))


async def _run(requests: list[Request], repeats: int, url: str, server: str) -> dict[str, Any]:
    engine = await VllmEngine.start(EngineConfig(device="cpu"), num_cpus=2, num_gpus=0)
    rendered = PromptRenderer(engine.tokenizer)
    timeout = httpx.Timeout(TIMEOUT_S)
    async with httpx.AsyncClient(base_url=server, timeout=timeout) as vllm:
        ways: dict[str, Way] = {
            "bare": bare(engine, rendered.ids, logprob_token_ids=rendered.label_ids),
            "handle_batch": batches(HandleTransport(APP)),
            "handle_single_coalesced": _one_by_one(RewardClient(APP, timeout_s=TIMEOUT_S)),
            "http_batch": batches(HttpTransport(url)),
            "http_single": batches(HttpTransport(url), 1),
            "http_single_coalesced": _one_by_one(HttpRewardClient(url, timeout_s=TIMEOUT_S)),
            "vllm_server": _vllm(vllm, rendered),
        }
        marks = map("{:03}".format, itertools.count())  # of equal token counts
        rates = await alternated(ways, repeats, lambda _: marked(requests, next(marks)))
    engine.close()
    return {
        "ratio": relative(rates, "bare"),
        "verdicts_per_s": {name: spread(per_round) for name, per_round in rates.items()},
        "items": len(requests),
        "prompt_tokens": spread([float(len(ids)) for ids in map(rendered.ids, requests)]),
    }


def bare(engine: VllmEngine, ids_of: Callable[[Request], list[int]], **asked: Any) -> Way:
    """The engine's ``AsyncLLM``, asked for a token with these sampling parameters."""
    from vllm import SamplingParams
    from vllm.inputs.engine import tokens_input
    from vllm.sampling_params import RequestOutputKind

    llm, numbers = engine._llm, itertools.count()
    once = {"max_tokens": 1, "temperature": 0.0, "detokenize": False}
    params = SamplingParams(**once, output_kind=RequestOutputKind.FINAL_ONLY, **asked)

    async def generate(request: Request) -> int:
        outputs = llm.generate(tokens_input(ids_of(request)), params, f"bare-{next(numbers)}")
        return sum([output.finished async for output in outputs])

    async def way(requests: list[Request]) -> int:
        return sum(await asyncio.gather(*map(generate, requests)))

    return way


def batches(client: Client | ServiceTransport, size: int = BATCH) -> Way:
    """A way that sends calls of ``size`` requests, all at once."""

    async def way(requests: list[Request]) -> int:
        asked = [{**request, "options": NO_CACHE, "timeout_s": TIMEOUT_S} for request in requests]
        results = await in_batches(client, asked, size)
        return sum(result.status is Status.OK for result in results)

    return way


def _one_by_one(client: Client) -> Way:
    async def way(requests: list[Request]) -> int:
        asked = [{**request, "options": NO_CACHE} for request in requests]
        answers = await asyncio.gather(*map(client.ascore, asked))
        return sum(result.status is Status.OK for result in answers)

    return way


def _vllm(client: httpx.AsyncClient, rendered: PromptRenderer) -> Way:
    async def way(requests: list[Request]) -> int:
        prompts = list(map(rendered.ids, requests))
        tokens = zip(*prompts, strict=False)
        shared = sum(1 for _ in itertools.takewhile(lambda column: len(set(column)) == 1, tokens))
        body = {
            "query": prompts[0][:shared],
            "items": [ids[shared:] for ids in prompts],
            "label_token_ids": rendered.label_ids,
            "add_special_tokens": False,
        }
        reply = await client.post("/generative_scoring", json=body)
        reply.raise_for_status()
        return len(reply.json()["data"])

    return way


@contextmanager
def vllm_server(model: str, config: EngineConfig | None = None) -> Iterator[str]:
    """Run vLLM's own server with the service's engine settings and yield its URL."""
    port, config = free_port(), config or EngineConfig(device="cpu")
    arguments = engine_arguments(config, model, 0)
    flags = ["--host", "127.0.0.1", "--port", str(port)]
    for name, value in arguments.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            flags.append(flag)
        elif value is not False and name != "model":
            flags += [flag, str(value)]
    with patch.dict(os.environ):
        set_environment(config, num_cpus=2)
        environment = dict(os.environ)
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", model]
    process = subprocess.Popen(
        [*command, *flags], env=environment, cwd=ROOT,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    try:
        with console.status("starting vLLM's own server"):
            _wait(process, url)
        yield url
    finally:
        process.terminate()
        process.wait(30)


def _wait(process: subprocess.Popen[str], url: str) -> None:
    while True:
        if process.poll() is not None:
            _, errors = process.communicate()
            raise RuntimeError(f"vLLM's server ended:\n{errors[-2000:]}")
        try:
            if httpx.get(f"{url}/health").status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.5)
