"""Connects to the service that arguments or environment variables name."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Sequence
from typing import Any

from reward_serve.client.client import Client
from reward_serve.client.handle import DEFAULT_APP, HandleTransport
from reward_serve.client.retrying import Endpoint
from reward_serve.client.transport import process_lock
from reward_serve.keys import API_KEY_VARIABLE, read_key
from reward_serve.schema import DEFAULT_TIMEOUT_S, MAX_TIMEOUT_S, hint


def connect(
    *,
    url: str | Sequence[str] | None = None,
    app: str | None = None,
    api_key: str | None = None,
    api_key_file: str | None = None,
    timeout_s: float | None = None,
    **settings: Any,
) -> Client:
    """Return the client of a service. Within a process, equal arguments return the same client.

    Args:
        url: URL of the service; default ``REWARD_SERVE_URL``. Several URLs (a list, or separated by
            commas) are tried in order, and the first that answers receives every request.
        app: Serve application of this process's cluster, or of the one that Ray finds on this
            machine; default ``REWARD_SERVE_APP``, or ``reward`` if there is no URL either.
        api_key: API key for HTTP; default ``REWARD_SERVE_API_KEY``.
        api_key_file: a file that contains only the key, or a ``.env`` file that sets
            ``REWARD_SERVE_API_KEY``; takes precedence over the environment variable.
        timeout_s: deadline over all attempts; default ``REWARD_SERVE_TIMEOUT_S``, or 60.
        **settings: arguments of ``Client``; the default of ``samples`` is
            ``REWARD_SERVE_SAMPLES``.

    Raises:
        TypeError: a setting is unknown.
        ValueError: both ``url`` and ``app``, or both ``api_key`` and ``api_key_file``, are given,
            or a setting is invalid.
    """
    known = inspect.signature(connect).parameters | inspect.signature(Client).parameters
    for name in settings.keys() - known:
        names = known.keys() - {"settings", "transport"}
        raise TypeError(f"{name}: unknown setting ({hint(name, names)})")
    if url and app:
        raise ValueError(f"url and app={app!r} are both given; give one of them")
    if not url and not app:
        url, app = os.environ.get("REWARD_SERVE_URL"), os.environ.get("REWARD_SERVE_APP")
        if url and app:
            raise ValueError("REWARD_SERVE_URL and REWARD_SERVE_APP are both set; unset one")
    if file := settings.get("samples") or os.environ.get("REWARD_SERVE_SAMPLES"):
        settings["samples"] = file
    urls = tuple(_urls(url)) if url else ()
    key = _api_key(api_key, api_key_file)
    seconds = _timeout_s(timeout_s)
    settings = dict(sorted(settings.items()))
    with process_lock():
        return _client(urls, app, key, timeout_s=seconds, **settings)


@functools.cache
def _client(*target: Any, **settings: Any) -> Client:
    return Client(_endpoints(*target), **settings)


@functools.cache
def _endpoints(urls: tuple[str, ...], app: str | None, key: str | None) -> list[Endpoint]:
    """The endpoints of a service, shared by its clients, so that they detect an outage together."""
    if urls:
        from reward_serve.client.http import HttpTransport

        return [Endpoint(HttpTransport(url, key)) for url in urls]
    return [Endpoint(HandleTransport(app or DEFAULT_APP))]


os.register_at_fork(after_in_child=_client.cache_clear)
os.register_at_fork(after_in_child=_endpoints.cache_clear)


def _urls(url: str | Sequence[str]) -> list[str]:
    given = url.split(",") if isinstance(url, str) else url
    if urls := [each.strip() for each in given if each.strip()]:
        return urls
    raise ValueError(f"url: {url!r} contains no URL; give http://HOST:PORT, or several")


def _api_key(given: str | None, file: str | None) -> str | None:
    if not file:
        return given or os.environ.get(API_KEY_VARIABLE)
    if given:
        raise ValueError(f"api_key and api_key_file={file!r} are both given; give one of them")
    try:
        return read_key(file, API_KEY_VARIABLE)
    except ValueError as error:
        raise ValueError(f"api_key_file: {error}") from None


def _timeout_s(given: float | None) -> float:
    text = os.environ.get("REWARD_SERVE_TIMEOUT_S") if given is None else given
    try:
        seconds = DEFAULT_TIMEOUT_S if text in (None, "") else float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds <= MAX_TIMEOUT_S:
        raise ValueError(
            f"REWARD_SERVE_TIMEOUT_S or timeout_s: {text!r} is not a number of seconds above 0, at "
            f"most {MAX_TIMEOUT_S:g}"
        )
    return seconds
