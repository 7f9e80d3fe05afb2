"""A verifier of the deployer's own, by import path: trusted code, in the replica's process."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import logging
import math
import numbers
import pkgutil
from collections.abc import Callable
from typing import Any

from reward_serve.config.base import ConfigError
from reward_serve.schema import ScoreRequest
from reward_serve.verifiers.base import Grade, VerifierError

logger = logging.getLogger(__name__)


class FunctionVerifier:
    """Scores by ``(response: str, reference: str, request: dict) -> float | bool | None``.

    None abstains. A plain function runs in a thread, a coroutine function on the event loop. What
    it raises, and what it returns that is no finite number, is an error and no score. It is asked
    once for each reference, with "" where a request has none.

    Args:
        path: ``package.module:name``, imported here.

    Raises:
        ConfigError: there is no such function.
    """

    needs_reference = False

    def __init__(self, path: str) -> None:
        self._path = path
        self._function = _imported(path)
        self._failed = 0
        self.fingerprint = f"verifier=function;function={path};source={_digest(self._function)}"

    async def verify(self, request: ScoreRequest, reference: str) -> Grade:
        """The grade of a request's response by one reference.

        Raises:
            VerifierError: the function raised, or returned no score.
        """
        arguments = (request.response, reference, request.model_dump(mode="json"))
        try:
            if inspect.iscoroutinefunction(self._function):
                value = await self._function(*arguments)
            else:
                value = await asyncio.to_thread(self._function, *arguments)
        except Exception as error:
            self._failed += 1
            if self._failed & (self._failed - 1) == 0:  # the 1st, 2nd, 4th, 8th...
                logger.exception("rule.function %s failed, %d so far", self._path, self._failed)
            raise VerifierError(
                f"rule.function {self._path}: {type(error).__name__}: {error}"
            ) from error
        return Grade(self._score(value), "function" if value is not None else "function_abstains")

    def close(self) -> None:
        """Nothing to release."""

    def _score(self, value: object) -> float | None:
        if value is None:
            return None
        if not isinstance(value, numbers.Real) or not math.isfinite(value):
            shown = f"{value!r:.40} ({type(value).__name__})"
            raise VerifierError(
                f"rule.function {self._path}: returned {shown}; return a finite number, "
                "a bool, or None to abstain"
            )
        return float(value)


def _imported(path: str) -> Callable[..., Any]:
    try:
        function = pkgutil.resolve_name(path)
    except Exception as error:  # whatever the deployer's module does as it is imported
        raise ConfigError(
            f"rule.function: {path!r} cannot be imported ({type(error).__name__}: {error}); "
            "give package.module:name, importable where the replica runs: installed there, or "
            "brought by resources.runtime_env"
        ) from error
    try:
        inspect.signature(function).bind("", "", {})
    except TypeError as error:
        raise ConfigError(
            f"rule.function: {path!r} cannot be called with (response, reference, request): "
            f"{error}; give it that signature"
        ) from None
    checked: Callable[..., Any] = function
    return checked


def _digest(function: Callable[..., Any]) -> str:
    """Of the module's source, so that changed code is another fingerprint."""
    try:
        source = inspect.getsource(inspect.getmodule(function) or function)
    except (OSError, TypeError):
        return "unknown"
    return hashlib.sha256(source.encode()).hexdigest()[:12]
