"""Answers conversations with one reward model's own model: admission, deadlines, typed failures.

What ``scoring.Scorer`` is for scores; without Ray, and no request raises.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from pydantic import ValidationError

from reward_serve.engines.base import EngineError, OverloadedError
from reward_serve.replica.admission import Admission
from reward_serve.reward_models.base import InvalidRequestError, summed_usage
from reward_serve.reward_models.chat import Chat, ChatRequest
from reward_serve.routing.calls import cancelled_by_caller
from reward_serve.schema import Status, describe_errors

logger = logging.getLogger(__name__)


class Completer:
    """Turns chat requests into answers.

    Args:
        name: the reward model's.
        chat: what writes; None where the reward model writes nothing.
        admission: shared with the scores.
        max_item_chars: a request whose messages together are longer is invalid.
    """

    def __init__(
        self, name: str, chat: Chat | None, admission: Admission, max_item_chars: int
    ) -> None:
        self._name = name
        self._chat = chat
        self._admission = admission
        self._max_item_chars = max_item_chars

    async def complete(self, body: object) -> dict[str, Any]:
        """``status``, with ``choices`` and ``usage`` where it is ``ok``, else with ``reason``."""
        try:
            return await self._completed(body)
        except InvalidRequestError as error:
            return _failed(Status.INVALID, str(error))
        except OverloadedError as error:
            return _failed(Status.OVERLOADED, str(error), error.retry_after_s)
        except asyncio.CancelledError:
            if cancelled_by_caller():
                raise
            return _failed(Status.ERROR, "the engine cancelled the request")
        except TimeoutError:
            return _failed(Status.TIMEOUT, "timeout_s: it passed before an answer")
        except EngineError as error:
            logger.warning("reward model %s: a conversation failed: %s", self._name, error)
            return _failed(Status.ERROR, str(error))
        except Exception as error:
            logger.exception("reward model %s failed at a conversation", self._name)
            return _failed(Status.ERROR, f"{type(error).__name__}: {error}")

    async def _completed(self, body: object) -> dict[str, Any]:
        if self._chat is None:
            raise InvalidRequestError(
                f"model: {self._name!r} writes nothing; name a judge, or ask /v1/score"
            )
        try:
            request = ChatRequest.model_validate(body)
        except ValidationError as error:
            raise InvalidRequestError(describe_errors(error)) from None
        if request.characters > self._max_item_chars:
            raise InvalidRequestError(
                f"messages: {request.characters} characters, where max_item_chars allows "
                f"{self._max_item_chars}; send less"
            )
        async with (
            asyncio.timeout(request.timeout_s),
            self._admission.place(request.timeout_s),
        ):
            outputs = await self._chat.complete(request)
        return {
            "status": Status.OK.value,
            "choices": [{"text": each.text, "cut_off": each.cut_off} for each in outputs],
            "usage": summed_usage(outputs).model_dump(),
        }


def _failed(status: Status, reason: str, retry_after_s: float = 0.0) -> dict[str, Any]:
    return {"status": status.value, "reason": reason, "retry_after_s": retry_after_s}
