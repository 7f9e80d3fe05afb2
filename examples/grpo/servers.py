"""Policy servers: vLLM engines that sample what the endpoint trains, behind Ray Serve's router.

The router is session-aware: a problem is a session, which one server samples (consistent hashing)
or, while that server is lost, the next. A request names its weights by their path at the endpoint,
and a server downloads them when it is first asked for them, also after a restart.
"""

from __future__ import annotations

import asyncio
import io
import itertools
import os
import tarfile
import time
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from ray import cluster_resources, serve
from ray.exceptions import RayActorError
from ray.serve.config import RequestRouterConfig
from ray.serve.exceptions import RayServeException
from ray.serve.experimental.consistent_hash_router import ConsistentHashRouter

from examples.grpo.engine import RANK
from reward_serve.config.engine import EngineConfig
from reward_serve.engines.vllm import engine_arguments, locate, set_environment

APP = "policy"
_VERSIONS = 2  # of a run one step ahead


class PolicyServer:
    """A replica: samples with adapters of the endpoint at ``url`` on the base ``model``."""

    def __init__(self, model: str | None, url: str, gpus: int) -> None:
        base = {"model": model} if model else {"adapter": "none"}  # the bundled one
        sized = {"device": "cuda", "max_model_len": 4096} if gpus else {"device": "cpu"}
        config = EngineConfig.model_validate(base | sized)
        set_environment(config, 1)
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        # A model's own top-p or penalties would falsify the log-probabilities.
        lora = {"enable_lora": True, "max_lora_rank": RANK, "max_loras": _VERSIONS}
        arguments = engine_arguments(config, locate(config), gpus) | lora
        arguments |= {"generation_config": "vllm"}
        self._llm = AsyncLLM.from_engine_args(AsyncEngineArgs(**arguments))
        self._url = url
        self._name = serve.get_replica_context().replica_id.unique_id
        self._numbers = itertools.count(1)
        self._adapters: dict[str, tuple[Any, TemporaryDirectory[str]]] = {}
        self._downloading = asyncio.Lock()

    async def check_health(self) -> None:
        """Raise if the engine is dead, so that Serve replaces this replica."""
        await self._llm.check_health()

    async def sample(
        self, weights: str, prompt: list[int], group: int, seed: int, max_tokens: int, stop: int
    ) -> tuple[str, list[tuple[list[int], list[float]]]]:
        """This server's name, and ``group`` samples: token ids and their log-probabilities."""
        from vllm.sampling_params import RequestOutputKind, SamplingParams
        from vllm.v1.engine.exceptions import EngineDeadError

        final = RequestOutputKind.FINAL_ONLY
        sampling = SamplingParams(n=group, seed=seed, max_tokens=max_tokens, logprobs=0,
                                  stop_token_ids=[stop], output_kind=final)  # fmt: skip
        tokens: Any = {"prompt_token_ids": prompt}
        key, adapter = f"{seed}-{next(self._numbers)}", await self._adapter(weights)
        outputs = self._llm.generate(tokens, sampling, key, lora_request=adapter)
        try:
            completions = [done async for output in outputs for done in output.outputs]
        except EngineDeadError:
            os._exit(1)  # so that callers ask another server at once
        completions.sort(key=lambda completion: completion.index)
        return self._name, [
            # Without top-k, only the sampled token has a log-probability.
            (list(done.token_ids), [p.logprob for at in done.logprobs for p in at.values()])
            for done in completions
        ]

    async def _adapter(self, weights: str) -> Any:
        from vllm.lora.request import LoRARequest

        async with self._downloading:
            if weights not in self._adapters:
                run, _, name = weights.removeprefix("tinker://").partition("/sampler_weights/")
                route = f"{self._url}/api/v1/training_runs/{run}/checkpoints/{name}/archive"
                async with httpx.AsyncClient(follow_redirects=True, timeout=60) as http:
                    archive = (await http.get(route)).raise_for_status().content
                folder = TemporaryDirectory()
                with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
                    tar.extractall(folder.name, filter="data")
                adapter = LoRARequest(weights, next(self._numbers), folder.name)
                self._adapters[weights] = adapter, folder
                for old in list(self._adapters)[: -2 * _VERSIONS]:
                    self._adapters.pop(old)[1].cleanup()
            return self._adapters[weights][0]


def start(count: int, model: str | None, url: str, options: dict[str, Any]) -> None:
    """Start ``count`` servers, on a GPU each if the cluster has any, and wait for them."""
    gpus = int(cluster_resources().get("GPU", 0) > 0)
    server = serve.deployment(
        num_replicas=count,
        max_ongoing_requests=64,
        health_check_period_s=2,
        graceful_shutdown_timeout_s=2,
        request_router_config=RequestRouterConfig(request_router_class=ConsistentHashRouter),
        ray_actor_options={**options, "resources": options["resources"] or {}, "num_gpus": gpus},
    )(PolicyServer)
    serve.start(proxy_location="Disabled")
    serve.run(server.bind(model, url, gpus), name=APP, route_prefix=None)


class Asked:
    """A request for samples of a problem, sent again if its server is lost."""

    def __init__(self, servers: Any, problem: int, *request: Any) -> None:
        self._ask = partial(servers.options(session_id=str(problem)).sample.remote, *request)
        self._response = self._ask()

    def result(self, timeout: float) -> Any:
        """What the server returned.

        Raises:
            TimeoutError: no server answered in time.
        """
        end = time.monotonic() + timeout
        while True:
            try:
                return self._response.result(timeout_s=max(0.0, end - time.monotonic()))
            except (RayActorError, RayServeException) as error:
                if time.monotonic() > end:
                    raise TimeoutError(f"no policy server answered: {error}") from error
            time.sleep(1)
            self._response = self._ask()
