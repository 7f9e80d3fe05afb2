"""Bodies over HTTP: requests as JSON, and answers of bounded size."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from reward_serve.client.transport import ServiceUnavailableError
from reward_serve.schema import ScoreResult, Status, echoes, failure

if TYPE_CHECKING:
    import httpx

MAX_ANSWER_BYTES = 128 * 2**20
"""Maximum bytes of an answer; four times the service's default limit of a request."""


def encode(body: Mapping[str, Any]) -> bytes | ScoreResult:
    """The request as JSON, or its typed failure if JSON cannot carry it.

    Lone surrogates and NaN are written as Python's json does; the service refuses them and names
    the field.
    """
    try:
        return json.dumps(body).encode()
    except (TypeError, ValueError, RecursionError) as error:
        reason = f"cannot be written as JSON: {error}"
        return failure(Status.INVALID, reason, **echoes(dict(body)))


async def read(reply: httpx.Response, where: str) -> bytes:
    """Read the body of an answer, which must be uncompressed to be bounded.

    Raises:
        ServiceUnavailableError: it is compressed, or larger than ``MAX_ANSWER_BYTES``; the message
            names ``where`` it came from.
    """
    coding = reply.headers.get("content-encoding", "identity")
    if coding != "identity":
        raise ServiceUnavailableError(
            f"{where}: the answer is compressed ({coding}), which the request did not accept"
        )
    parts, size = [], 0
    async for part in reply.aiter_raw():
        parts.append(part)
        size += len(part)
        if size > MAX_ANSWER_BYTES:
            raise ServiceUnavailableError(
                f"{where}: the answer exceeds {MAX_ANSWER_BYTES} bytes; send fewer requests at once"
            )
    return b"".join(parts)
