"""A vLLM server that samples from a policy in training.

    TINKER_ENDPOINT=http://POLICY:8123 python -m examples.grpo.sampler serve MODEL \
        --enable-lora --max-lora-rank 16 --max-loras 2 --generation-config vllm

The arguments are vLLM's. A request names the policy's weights by their path at the endpoint
(``tinker://RUN/sampler_weights/STEP``); at the first request for new weights, the server downloads
them. So every server behind a router, including one that has just restarted, samples from the
version that it is asked for.
"""

from __future__ import annotations

import io
import itertools
import logging
import os
import shutil
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
from vllm.lora.request import LoRARequest
from vllm.lora.resolver import LoRAResolver, LoRAResolverRegistry

logger = logging.getLogger(__name__)

_KEPT = 4
"""Versions on disk; a run that samples one step ahead uses two at a time."""


class EndpointWeights(LoRAResolver):  # type: ignore[misc]  # vllm is untyped
    """Downloads weights, adapters in PEFT's format, from a Tinker endpoint.

    Args:
        url: the endpoint's URL.
        folder: where to keep them.
    """

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self._folder = folder
        self._numbers = itertools.count(1)

    async def resolve_lora(self, base_model_name: str, lora_name: str) -> LoRARequest | None:
        """Download the adapter at an endpoint's path; None if that fails or the path names none."""
        run, _, name = lora_name.removeprefix("tinker://").partition("/sampler_weights/")
        if not name:
            return None
        route = f"{self._url}/api/v1/training_runs/{run}/checkpoints/{name}/archive"
        async with httpx.AsyncClient(follow_redirects=True, timeout=60) as http:
            try:
                archive = (await http.get(route)).raise_for_status().content
            except httpx.HTTPError as error:
                logger.warning("%s: %s: %s", route, type(error).__name__, error)
                return None
        number = next(self._numbers)
        target = self._folder / str(number)
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
            tar.extractall(target, filter="data")
        shutil.rmtree(self._folder / str(number - _KEPT), ignore_errors=True)
        return LoRARequest(lora_name, number, str(target))


def _main() -> None:
    from vllm.entrypoints.cli.main import main

    url = os.environ.get("TINKER_ENDPOINT")
    if not url:
        raise SystemExit("TINKER_ENDPOINT: is not set; give the URL of the policy's endpoint")
    os.environ["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] = "1"
    with TemporaryDirectory() as folder:
        weights = EndpointWeights(url, Path(folder))
        LoRAResolverRegistry.register_resolver("endpoint", weights)
        main()


if __name__ == "__main__":
    _main()
