"""What the clients share, by handle and over HTTP: requests, results, deadlines, failures."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, Protocol, TypeVar
from uuid import uuid4

from pydantic import BaseModel, ValidationError

from reward_serve.explanation import Explanation
from reward_serve.schema import (
    ScoreRequest,
    ScoreResult,
    Status,
    describe_errors,
    longest_timeout_s,
)
from reward_serve.version import __version__

logger = logging.getLogger(__name__)

_WORTH_A_RETRY = frozenset([408, 425, 429, 500, 502, 503, 504])
_TOO_MANY = 429
GRACE_S = 5.0
"""The service keeps a deadline; this is for one that does not answer at all."""

_PREFIX = uuid4().hex[:12]
_numbers = count()

Request = ScoreRequest | Mapping[str, Any]
_Answer = TypeVar("_Answer", bound=BaseModel)


class ServiceUnavailableError(RuntimeError):
    """The service cannot be reached, or answered something other than the wire contract.

    Attributes:
        status_code: of HTTP, where that is what it answered.
        retry_after_s: how long the service asked to wait, if it did.
    """

    def __init__(
        self,
        message: str,
        *,
        status_code: int | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status_code = status_code
        self.retry_after_s = retry_after_s

    @property
    def retryable(self) -> bool:
        """Whether the same request may fare better later."""
        return self.status_code is None or self.status_code in _WORTH_A_RETRY

    @property
    def answered(self) -> bool:
        """Whether it was the service that refused: it is there, and may be busy."""
        busy = self.status_code == _TOO_MANY or self.retry_after_s is not None
        return busy or not self.retryable


class NotConnectedError(ServiceUnavailableError):
    """This process cannot ask by handle: Ray is not installed, or there is no cluster."""


class Transport(Protocol):
    """A way to the service; ``RewardClient`` and ``HttpRewardClient`` are two."""

    async def ascore_batch(self, requests: Sequence[Request]) -> list[ScoreResult]:
        """A result for each request, in order.

        Raises:
            ServiceUnavailableError: there was no answer.
        """


def as_dict(request: Request, timeout_s: float) -> dict[str, Any]:
    """A request as the plain dict that crosses the wire, with a deadline."""
    if isinstance(request, ScoreRequest):
        return request.model_dump(mode="json", exclude_unset=True) | {
            "timeout_s": request.timeout_s if "timeout_s" in request.model_fields_set else timeout_s
        }
    return {"timeout_s": timeout_s, **request}


def with_ids(bodies: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The requests, each with an id: its own, or one that no other request has."""
    return [
        body if body.get("id") is not None else {**body, "id": f"{_PREFIX}-{os.getpid()}-{number}"}
        for body, number in zip(bodies, _numbers, strict=False)
    ]


def own_results(
    results: Sequence[ScoreResult],
    sent: Sequence[Mapping[str, Any]],
    bodies: Sequence[Mapping[str, Any]],
    where: str,
) -> list[ScoreResult]:
    """The results, if each is that of its request.

    Args:
        results: the answer.
        sent: the requests as sent, with ids.
        bodies: the requests as they were before.
        where: the service.

    Raises:
        ServiceUnavailableError: one has the id of another request, or a score and no id.
    """
    for result, asked, body in zip(results, sent, bodies, strict=True):
        if result.id != asked["id"] and (result.id is not None or result.status is Status.OK):
            raise ServiceUnavailableError(
                f"{where}: answered the request {asked['id']!r} with the result of {result.id!r}"
            )
        if body.get("id") is None:
            result.id = None
    return list(results)


def deadline(bodies: Sequence[Mapping[str, Any]]) -> float:
    """Seconds to wait for the service itself: the longest deadline asked for, and some grace."""
    return longest_timeout_s(bodies) + GRACE_S


def warn_of_other_major(version: str) -> bool:
    """Warn when the service's major version is not this client's; whether it was done."""
    if version.split(".")[0] == __version__.split(".")[0]:
        return False
    logger.warning(
        "the service is version %s and this client %s; their contracts may differ",
        version,
        __version__,
    )
    return True


def parse_result(content: Any, where: str) -> ScoreResult:
    """A result as the wire carries it.

    Raises:
        ServiceUnavailableError: it is none; names ``where`` it came from.
    """
    return _parsed(ScoreResult, content, f"{where}: its answer is not a result")


def parse_explanation(content: Any, where: str) -> Explanation:
    """An explanation as the wire carries it; raises as ``parse_result``."""
    return _parsed(Explanation, content, f"{where}: its answer is not an explanation")


def _parsed(contract: type[_Answer], content: Any, otherwise: str) -> _Answer:
    try:
        return contract.model_validate(content)
    except ValidationError as error:
        raise ServiceUnavailableError(f"{otherwise}: {describe_errors(error)}") from error
