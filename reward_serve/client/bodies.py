"""Bodies over HTTP: requests as JSON, and answers of bounded size."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from reward_serve.client.transport import ServiceUnavailableError
from reward_serve.schema import ScoreResult, Status, echoes, failure

if TYPE_CHECKING:
    import httpx

MAX_ANSWER_BYTES = 128 * 2**20
"""Maximum bytes of an answer; four times the service's default limit of a request."""


class NotJSONError(ValueError):
    """A request cannot be encoded as JSON; ``result`` is its typed failure."""

    def __init__(self, body: Mapping[str, Any], error: Exception) -> None:
        super().__init__(str(error))
        reason = f"cannot be written as JSON: {error}"
        self.result = failure(Status.INVALID, reason, **echoes(dict(body)))


def encode(body: Mapping[str, Any]) -> bytes:
    """Encode a request as JSON.

    Lone surrogates and NaN are written as Python's json does; the service refuses them and names
    the field.

    Raises:
        NotJSONError: JSON cannot carry the request.
    """
    try:
        return json.dumps(body).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise NotJSONError(body, error) from None


def encode_batch(bodies: Sequence[Mapping[str, Any]]) -> tuple[bytes, dict[int, ScoreResult]]:
    """Encode a batch as JSON; returns it without invalid requests, and their results by index."""
    parts, refused = [], {}
    for index, body in enumerate(bodies):
        try:
            parts.append(encode(body))
        except NotJSONError as error:
            refused[index] = error.result
    return b'{"requests": [' + b", ".join(parts) + b"]}", refused


def merge(results: list[ScoreResult], refused: Mapping[int, ScoreResult]) -> list[ScoreResult]:
    """Insert the refused requests' results into the service's."""
    for index in sorted(refused):
        results.insert(index, refused[index])
    return results


class Answer(NamedTuple):
    """A complete answer of the service."""

    status_code: int
    headers: httpx.Headers
    body: bytes


async def read(reply: httpx.Response, where: str) -> Answer:
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
    return Answer(reply.status_code, reply.headers, b"".join(parts))
