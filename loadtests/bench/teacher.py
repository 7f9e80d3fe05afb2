"""A teacher's log-probabilities: exactness, speed, what they cost the caller, and memory.

``teacher_exact``: on 50 sequences, beside transformers, in float32. ``teacher``: tokens per second
of bare ``AsyncLLM`` with ``prompt_logprobs``, of the service by each way in, and of vLLM's own
server, in alternation; and of a group whose sequences share a prompt. ``teacher_memory``: of the
replica's process and its engine core, with sequences as long as the model reads.
"""

from __future__ import annotations

import asyncio
import json
import pickle
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import itemgetter
from random import Random
from typing import Any

import httpx
import numpy as np
import psutil

from deployments.local import APP
from loadtests.bench.bare_engine import bare, vllm_server
from loadtests.bench.common import Request, Way, alternated, relative, spread
from loadtests.chaos.processes import rss_mib
from loadtests.cluster import served
from loadtests.soak import watched
from reward_serve import HttpRewardClient, RewardClient
from reward_serve.config.engine import EngineConfig
from reward_serve.config.models import TeacherModel
from reward_serve.engines.base import LogprobsOutput, Prompt
from reward_serve.engines.vllm import VllmEngine, locate
from reward_serve.schema import Status

TIMEOUT_S = 600.0
VOCABULARY = 49_152
SEQUENCES, SHORTEST, LONGEST = 50, 20, 1500
LENGTHS = (160, 240, 320, 400, 480, 560, 640, 720)  # of a speed measurement; half are scored
GROUP, PROMPT, RESPONSE = 8, 1000, 200
CHUNK, WHOLE = 512, 2048  # tokens a step
SHARED = 1900
# Sequences, top_k and start; of each sequence the engine core has an array of all its tokens.
MEMORY = ((1, 256, 1), (8, 256, 1), (8, 0, 1900), (64, 0, 1900), (64, 8, 1900), (64, 256, 1900))

Task = tuple[list[int], int, int]  # token ids, start and top_k


def _model(**engine: Any) -> dict[str, Any]:
    fields = {"adapter": "none", "device": "cpu", **engine}
    return {"name": "teacher", "kind": "teacher", "engine": fields, "resources": {"num_cpus": 2}}


def _config(**engine: Any) -> EngineConfig:
    return TeacherModel.model_validate(_model(**engine)).engine


def _random(rng: Random, count: int) -> list[int]:
    return [rng.randrange(32, VOCABULARY) for _ in range(count)]


def exact(requests: Sequence[Request]) -> dict[str, Any]:
    """Largest differences from transformers, and of both kinds of requests beside each other."""
    text = "\n\n".join(request["response"] for request in requests)
    return asyncio.run(_exact(text))


async def _exact(text: str) -> dict[str, Any]:
    cases: dict[str, list[tuple[Task, LogprobsOutput]]] = {}
    engine = await VllmEngine.start(_config(max_num_batched_tokens=CHUNK), 2, 0)
    ids, rng = engine.tokenizer.encode_plain(text)[0], Random(0)
    shares = [0.0, 1.0, *(rng.random() ** 2 for _ in range(SEQUENCES - 2))]
    lengths = [round(SHORTEST * (LONGEST / SHORTEST) ** share) for share in shares]  # few are long
    sequences = [ids[(at := rng.randrange(len(ids) - n)) : at + n] for n in lengths]

    async def scored(name: str, tasks: Iterable[Task]) -> None:
        tasks = list(tasks)
        outputs = await asyncio.gather(*(engine.prompt_logprobs(*task) for task in tasks))
        cases[name] = list(zip(tasks, outputs, strict=True))

    async def labels() -> list[float]:
        prompts = [Prompt((), s[:64], {"a": s[0], "b": s[1]}) for s in sequences]
        outputs = await asyncio.gather(*(engine.label_logprobs(p, ["a", "b"]) for p in prompts))
        return [value for output in outputs for value in output.logprobs.values()]

    await scored("top_k 256", ((s, 1, 256) for s in sequences))
    await engine._llm.reset_prefix_cache()
    await scored("prompts", ((s[: len(s) // 2], 1, 0) for s in sequences))
    await scored("with a start", ((s, len(s) // 2 + 1, 8) for s in sequences))
    await engine._llm.reset_prefix_cache()
    alone = await labels()
    await engine._llm.reset_prefix_cache()
    mixed = ((s, 1, (0, 8, 256)[n % 3]) for n, s in enumerate(sequences))
    beside, _ = await asyncio.gather(labels(), scored("beside label requests", mixed))
    engine.close()
    engine = await VllmEngine.start(_config(max_num_batched_tokens=WHOLE), 2, 0)
    await scored("in one step", ((s, 1, 8) for s in sequences))
    engine.close()
    apart = np.abs(np.subtract(alone, beside))
    return {
        "tokens": sum(lengths),
        "largest_difference": _from_transformers(sequences, cases),
        "cached_tokens": sum(output.usage.cached_tokens for _, output in cases["with a start"]),
        "labels_beside": {"largest": float(apart.max()), "equal_bits": float((apart == 0).mean())},
    }


def _from_transformers(
    sequences: Sequence[list[int]], cases: dict[str, list[tuple[Task, LogprobsOutput]]]
) -> dict[str, float]:
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(locate(_config()), dtype=torch.float32)
    largest = dict.fromkeys(cases, 0.0)
    for number, ids in enumerate(sequences):
        with torch.no_grad():
            rows = torch.log_softmax(model(torch.tensor([ids])).logits[0, :-1], -1).numpy()
        best = np.sort(rows)[:, ::-1]
        for name, scored in cases.items():
            (token_ids, start, top_k), output = scored[number]
            scores = slice(start - 1, len(token_ids) - 1)
            ids_scored = np.column_stack([token_ids[start:], output.top_ids])
            values = np.column_stack([output.logprobs, output.top_logprobs])
            away = np.abs(values - np.take_along_axis(rows[scores], ids_scored, 1)).max()
            # And they are the likeliest; of two that are as likely, either may stand first.
            behind = np.abs(values[:, 1:] - best[scores, :top_k]).max(initial=0)
            largest[name] = max(largest[name], float(away), float(behind))
    return largest


def run(rounds: int) -> dict[str, Any]:
    """Tokens per second each way, relative to bare ``AsyncLLM``; bytes and CPU time a token."""
    server = {"compatible_with": ["openai", "sglang"]}
    with served([_model()], server) as url, vllm_server(str(locate(_config())), _config()) as vllm:
        return asyncio.run(_run(rounds, url, vllm))


async def _run(rounds: int, url: str, vllm: str) -> dict[str, Any]:
    engine, rng = await VllmEngine.start(_config(), 2, 0), Random(0)
    spent: dict[str, list[float]] = {}

    def timed(name: str, way: Way) -> Way:
        async def counted(sent: list[Any]) -> int:
            began = time.process_time()
            answered = await way(sent)
            spent.setdefault(name, []).append(time.process_time() - began)
            return answered

        return counted

    def separate(_: str) -> list[Request]:
        return [{"token_ids": _random(rng, n), "start": n // 2} for n in LENGTHS]

    def group(_: str) -> list[Request]:
        prompt = _random(rng, PROMPT)
        own = {"start": PROMPT, "group": str(rng.random())}
        return [{"token_ids": prompt + _random(rng, RESPONSE), **own} for _ in range(GROUP)]

    async with httpx.AsyncClient(timeout=TIMEOUT_S) as client:
        ours: dict[str, Way] = {
            "handle": _by(RewardClient(APP, timeout_s=TIMEOUT_S)),
            "http": _by(HttpRewardClient(url, timeout_s=TIMEOUT_S)),
            "completions": _posted(client, f"{url}/v1/completions", _openai),
            "generate": _posted(client, f"{url}/generate", _sglang),
        }
        asked_alone = bare(engine, itemgetter("token_ids"), prompt_logprobs=0, flat_logprobs=True)
        of_vllm = partial(_openai, model=locate(_config()))
        ways = ours | {
            "bare": asked_alone,
            "vllm_server": _posted(client, f"{vllm}/v1/completions", of_vllm),
        }
        ways = {name: timed(name, way) for name, way in ways.items()}
        rates = await alternated(ways, rounds, separate)
        in_groups = await alternated({"bare": asked_alone, "handle": ours["handle"]}, rounds, group)
        size = await _bytes_a_token(client, url)
    engine.close()
    mean = statistics.mean(LENGTHS)
    cpu_ms = {name: 1000 * statistics.median(seconds[1:]) for name, seconds in spent.items()}
    return {
        "ratio": relative(rates, "bare"),
        "ratio_in_groups": relative(in_groups, "bare"),
        "tokens_per_s": {
            name: spread([mean * r for r in per_round]) for name, per_round in rates.items()
        },
        "caller_cpu_ms_per_token": {name: ms / sum(LENGTHS) for name, ms in cpu_ms.items()},
        "bytes_per_scored_token": size,
    }


def _by(client: RewardClient | HttpRewardClient) -> Way:
    async def way(requests: list[Request]) -> int:
        return sum(result.status is Status.OK for result in await client.alogprobs(requests))

    return way


def _posted(client: httpx.AsyncClient, url: str, body_of: Callable[[Request], Any]) -> Way:
    """A way that posts each request, and checks that the answer has a value for each token."""

    async def complete(request: Request) -> int:
        answer = json.loads(await _post(client, url, body_of(request)))
        if "choices" in answer:
            values = answer["choices"][0]["prompt_logprobs"][request["start"] :]
        else:
            values = answer["meta_info"]["input_token_logprobs"][1:]
        return int(len(values) == len(request["token_ids"]) - request["start"])

    async def way(requests: list[Request]) -> int:
        return sum(await asyncio.gather(*map(complete, requests)))

    return way


async def _post(client: httpx.AsyncClient, url: str, body: Any) -> bytes:
    reply = await client.post(url, json=body)
    reply.raise_for_status()
    return reply.content


def _openai(request: Request, model: object = "teacher") -> dict[str, Any]:
    own = {"model": str(model), "prompt": request["token_ids"], "max_tokens": 1, "temperature": 0}
    return {**own, "prompt_logprobs": request.get("top_k", 0)}


def _sglang(request: Request) -> dict[str, Any]:
    return {
        "input_ids": request["token_ids"],
        "return_logprob": True,
        "logprob_start_len": request["start"] - 1,
        "top_logprobs_num": request.get("top_k", 0),
        "sampling_params": {"temperature": 0, "max_new_tokens": 0},
    }


async def _bytes_a_token(client: httpx.AsyncClient, url: str) -> dict[str, dict[str, float]]:
    """By top_k and way: the bytes of an answer for each of its scored tokens."""
    ids, sizes = _random(Random(1), 300), {}
    handle = RewardClient(APP, timeout_s=TIMEOUT_S)
    for top_k in (0, 8, 256):
        request = {"token_ids": ids, "start": 1, "top_k": top_k}
        (result,) = await handle.alogprobs([request])
        base64 = {**request, "encoding_format": "base64"}
        answers = {
            "handle": pickle.dumps(result.plain()),
            "http, base64": await _post(client, f"{url}/v1/logprobs", base64),
            "http, float": await _post(client, f"{url}/v1/logprobs", request),
            "completions": await _post(client, f"{url}/v1/completions", _openai(request)),
            "generate": await _post(client, f"{url}/generate", _sglang(request)),
        }
        sizes[f"top_k {top_k}"] = {way: len(a) / (len(ids) - 1) for way, a in answers.items()}
    return sizes


def memory() -> dict[str, Any]:
    """Peak resident MiB of the replica's process and of its engine core, above idle."""
    rng, figures = Random(0), {}
    with served([_model()]) as url:
        with HttpRewardClient(url) as http:
            pid = http.models()[0]["pid"]

        def sizes() -> dict[str, float]:
            replica = psutil.Process(pid).memory_info().rss / 2**20
            return {"replica": replica, "engine_core": (rss_mib(pid) or 0.0) - replica}

        client = RewardClient(APP, timeout_s=3600.0)
        prompt = _random(rng, SHARED)
        client.logprobs([{"token_ids": prompt}])
        idle = sizes()
        for count, top_k, start in MEMORY:
            tails = [_random(rng, WHOLE - 1 - start) for _ in range(count)]
            own = {"start": start, "top_k": top_k}
            with watched(sizes, 0.2) as peak:
                results = client.logprobs([{"token_ids": prompt[:start] + t, **own} for t in tails])
            name = f"{count} of {WHOLE - 1} tokens from {start} with top_k {top_k}"
            figures[name] = {key: round(peak.peaks[key] - idle[key]) for key in idle}
            figures[name]["ok"] = sum(result.status is Status.OK for result in results)
    return {"idle_mib": idle, "above_idle_mib": figures}
