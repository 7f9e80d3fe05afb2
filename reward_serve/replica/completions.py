"""Chat completions by a judge's model: admission, deadlines, typed failures.

The counterpart of ``scoring.Scorer``; independent of Ray, and no request raises.
"""

from __future__ import annotations

import logging
from typing import Any

from pydantic import ValidationError

from reward_serve.replica.admission import Admission, within_deadline
from reward_serve.reward_models.base import InvalidRequestError, failure_of, summed_usage
from reward_serve.reward_models.chat import Chat, ChatRequest
from reward_serve.schema import Status, describe_errors, retry_after_s

logger = logging.getLogger(__name__)


class Completer:
    """Turns chat requests into completions.

    Args:
        name: the reward model's name.
        chat: the judge's model; None if the reward model does not generate text.
        admission: shared with the ``Scorer``.
        max_item_chars: a request with more characters in its messages is invalid.
    """

    def __init__(
        self, name: str, chat: Chat | None, admission: Admission, max_item_chars: int
    ) -> None:
        self._name = name
        self._chat = chat
        self._admission = admission
        self._max_item_chars = max_item_chars

    async def complete(self, body: object) -> dict[str, Any]:
        """``status``, with ``choices`` and ``usage`` if it is ``ok``, else with ``reason``."""
        try:
            return await self._completed(body)
        except Exception as error:
            failed = failure_of(error, f"reward model {self._name}, chat completion")
            if failed.status is not Status.INVALID:
                logger.warning("reward model %s: no completion: %s", self._name, failed.reason)
            return {
                "status": failed.status.value,
                "reason": failed.reason,
                "retry_after_s": retry_after_s(failed.details),
            }

    async def _completed(self, body: object) -> dict[str, Any]:
        if self._chat is None:
            raise InvalidRequestError(
                f"model: {self._name!r} does not generate text; choose a judge, or use /v1/score"
            )
        try:
            request = ChatRequest.model_validate(body)
        except ValidationError as error:
            raise InvalidRequestError(describe_errors(error)) from None
        if request.characters > self._max_item_chars:
            raise InvalidRequestError(
                f"messages: {request.characters} characters; the limit is max_item_chars: "
                f"{self._max_item_chars}, so send less"
            )
        timeout_s = request.timeout_s
        async with within_deadline(timeout_s), self._admission.place(timeout_s):
            outputs = await self._chat.complete(request)
        return {
            "status": Status.OK.value,
            "choices": [{"text": each.text, "cut_off": each.cut_off} for each in outputs],
            "usage": summed_usage(outputs).model_dump(),
        }
