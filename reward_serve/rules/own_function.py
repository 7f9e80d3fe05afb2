"""A custom verifier function, given by import path; trusted code in the replica's process."""

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
from reward_serve.rules.base import Verifier
from reward_serve.rules.grade import Grade, VerifierError
from reward_serve.schema import ScoreRequest

logger = logging.getLogger(__name__)


class FunctionVerifier(Verifier):
    """Scores with ``(response: str, reference: str, request: dict) -> float | bool | None``.

    None abstains. A plain function runs in a thread, a coroutine function on the event loop. An
    exception, or a return value that is not a finite number, is an error, not a score. The function
    is called once for each reference, or once with "" if the request has none.

    Args:
        path: ``package.module:name``, imported by the constructor.

    Raises:
        ConfigError: the function cannot be imported, or has another signature.
    """

    needs_reference = False

    def __init__(self, path: str) -> None:
        self._path = path
        self._function = _imported(path)
        self._failed = 0
        self.fingerprint = f"verifier=function;function={path};source={_digest(self._function)}"

    async def verify(self, request: ScoreRequest, reference: str) -> Grade:
        """Grade a request's response by one reference.

        Raises:
            VerifierError: the function raised, or returned no score.
        """
        arguments = (request.response, reference, request.model_dump(mode="json"))
        try:
            if inspect.iscoroutinefunction(self._function):
                value = await self._function(*arguments)
            else:
                value = await asyncio.to_thread(self._called, *arguments)
        except (Exception, SystemExit) as error:  # a sample must not end the replica
            self._failed += 1
            if self._failed & (self._failed - 1) == 0:  # the 1st, 2nd, 4th, 8th...
                logger.exception("rule.function %s failed, %d so far", self._path, self._failed)
            raise VerifierError(
                f"rule.function {self._path}: {type(error).__name__}: {error}"
            ) from error
        return Grade(self._score(value), "function" if value is not None else "function_abstains")

    def _called(self, *arguments: Any) -> Any:
        try:
            return self._function(*arguments)
        except StopIteration as error:  # which a future cannot carry
            raise RuntimeError(f"StopIteration: {error}") from error

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
    except Exception as error:  # importing a user's module may raise anything
        remedy = (
            "write package.module:name, without .py, and where the replica runs put the module's "
            "folder on PYTHONPATH before Ray starts, install it, or add it to resources.runtime_env"
            if isinstance(error, ModuleNotFoundError)
            else "correct the module, or write the name of a function that it has"
        )
        raise ConfigError(
            f"rule.function: {path!r} cannot be imported ({type(error).__name__}: {error}); "
            f"{remedy}"
        ) from error
    try:
        inspect.signature(function).bind("", "", {})
    except TypeError as error:
        raise ConfigError(
            f"rule.function: {path!r} cannot be called with (response, reference, request): "
            f"{error}; change its signature"
        ) from None
    checked: Callable[..., Any] = function
    return checked


def _digest(function: Callable[..., Any]) -> str:
    """A digest of the module's source, so that code changes change the fingerprint."""
    try:
        source = inspect.getsource(inspect.getmodule(function) or function)
    except (OSError, TypeError):
        return "unknown"
    return hashlib.sha256(source.encode()).hexdigest()[:12]
