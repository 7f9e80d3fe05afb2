"""HTTP requests without the service's own client, counting status codes."""

from __future__ import annotations

import json
from collections import Counter
from types import TracebackType
from typing import Any, Self

import httpx

from loadtests.chaos.questions import Body
from reward_serve.http.api import NDJSON
from reward_serve.schema import ScoreResult

_SINGLE, _BATCH = "/v1/score", "/v1/score/batch"


class Poster:
    """Posts without a timeout, which is the caller's; raises on a reply without results.

    Args:
        url: base URL of the service.
    """

    def __init__(self, url: str) -> None:
        self.codes: Counter[int] = Counter()
        """Counts of the replies' status codes."""
        self._client = httpx.AsyncClient(base_url=url, timeout=None, limits=httpx.Limits())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._client.aclose()

    async def single(self, bodies: list[Body]) -> list[ScoreResult]:
        """Post one request."""
        (body,) = bodies
        content = (await self._post(_SINGLE, body)).json()
        content.pop("detail", None)
        return [ScoreResult.model_validate(content)]

    async def batch(self, bodies: list[Body]) -> list[ScoreResult]:
        """Post a batch."""
        reply = await self._post(_BATCH, {"requests": bodies})
        return [ScoreResult.model_validate(content) for content in reply.json()["results"]]

    async def streamed(self, bodies: list[Body]) -> list[ScoreResult]:
        """Post a batch and read its NDJSON reply; results in request order."""
        found: dict[int, ScoreResult] = {}
        body, accept = json.dumps({"requests": bodies}), {"accept": NDJSON}
        async with self._client.stream("POST", _BATCH, content=body, headers=accept) as reply:
            self.codes[reply.status_code] += 1
            async for line in reply.aiter_lines():
                content = json.loads(line)
                index = content.pop("index")
                found[index] = ScoreResult.model_validate(content)
        return [found[index] for index in range(len(bodies))]

    async def code(self, bodies: list[Body]) -> int:
        """Post a batch and return the status code."""
        return (await self._post(_BATCH, {"requests": bodies})).status_code

    async def _post(self, path: str, body: Any) -> httpx.Response:
        reply = await self._client.post(path, content=json.dumps(body))
        self.codes[reply.status_code] += 1
        return reply
