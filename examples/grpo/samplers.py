"""Sampling at vLLM servers (``sampler.py``) behind one URL, such as ``vllm-router``'s."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import tinker

from examples.grpo.endpoint import EndpointError

_PENDING = 256
_RETRY_S = 2.0
_REFUSED = {400, 401, 403, 422}


class Samplers:
    """A client of the servers.

    Args:
        url: URL of a router, or of a single server.
        timeout_s: time limit of a request in seconds, including retries while servers are away.
    """

    def __init__(self, url: str, timeout_s: float = 600.0) -> None:
        self._url = url
        self._timeout_s = timeout_s
        limits = httpx.Limits(max_connections=_PENDING)
        self._http = httpx.Client(base_url=url, timeout=timeout_s, limits=limits)
        self._threads = ThreadPoolExecutor(_PENDING)

    def close(self) -> None:
        """Close the connections; nothing may be pending."""
        self._threads.shutdown()
        self._http.close()

    def sample(
        self, weights: str, prompt: tinker.ModelInput, group: int, parameters: tinker.SamplingParams
    ) -> Future[tinker.SampleResponse]:
        """Sample a group in one request, so at one server.

        Raises:
            EndpointError: in the future: a server refused the request, or none answered in time.
        """
        request = {
            "model": weights,
            "prompt": prompt.to_ints(),
            "n": group,
            "seed": parameters.seed,
            "max_tokens": parameters.max_tokens,
            "temperature": parameters.temperature,
            "stop_token_ids": parameters.stop,
            "logprobs": 1,
            "return_token_ids": True,
        }
        return self._threads.submit(self._sample, request)

    def _sample(self, request: dict[str, Any]) -> tinker.SampleResponse:
        end = time.monotonic() + self._timeout_s
        while True:
            try:
                reply = self._http.post("/v1/completions", json=request)
                if reply.is_success:
                    return _response(reply.json()["choices"])
                failure = f"{reply.status_code}: {reply.text[:200]}"
                refused = reply.status_code in _REFUSED
            except (httpx.TransportError, ValueError, LookupError) as error:
                failure, refused = f"{type(error).__name__}: {error}", False
            if refused or time.monotonic() + _RETRY_S > end:
                raise EndpointError(f"{self._url}: {failure}")
            time.sleep(_RETRY_S)


def _response(choices: list[dict[str, Any]]) -> tinker.SampleResponse:
    sequences = [
        tinker.SampledSequence(
            stop_reason=choice["finish_reason"],
            tokens_np=np.array(choice["token_ids"], dtype=np.int32),
            logprobs_np=np.array(choice["logprobs"]["token_logprobs"], dtype=np.float32),
        )
        for choice in choices
    ]
    return tinker.SampleResponse(sequences)
