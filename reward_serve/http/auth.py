"""API keys: reading, comparing, and limiting the items in flight per key.

Keys are read where the application is built, and only their SHA-256 digests are passed on, as
arguments of the ingress: its replicas may run on another node or in another environment, and
Serve's logs and status, which show ``args``, never contain a key. Keys are identified by name.

    >>> digests = {"trainer": digest_of("correct-horse-battery")}
    >>> name_of(digests, "correct-horse-battery"), name_of(digests, "a guess")
    ('trainer', None)
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from starlette.exceptions import HTTPException

from reward_serve.config.base import ConfigError
from reward_serve.keys import is_assignment, read_text

logger = logging.getLogger("ray.serve")

MIN_KEY_CHARACTERS = 16

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_KEY = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # a bearer token by RFC 6750
_MAKE_ONE = "make one with `openssl rand -hex 32`"


def name_of(digests: Mapping[str, str], key: str) -> str | None:
    """The name of a caller's key; None if the key is unknown.

    The digest is compared with every key's in constant time, so that timing reveals neither a key's
    length nor a matching prefix.

    Args:
        digests: key name to ``digest_of`` the key.
        key: the caller's key.
    """
    asked = digest_of(key)
    matches = [name for name, digest in digests.items() if hmac.compare_digest(asked, digest)]
    return matches[0] if matches else None


class KeyLimit:
    """Limits the items in flight of each key.

    Args:
        items: maximum items per key; None for no limit.
    """

    def __init__(self, items: int | None) -> None:
        self._limit = items
        self._in_flight: Counter[str] = Counter()

    @contextmanager
    def held(self, name: str, items: int) -> Iterator[None]:
        """Count ``items`` for a key during the block.

        Raises:
            HTTPException: the key's limit would be exceeded: 413 by these items alone, else 429.
        """
        in_flight = self._in_flight[name]
        if self._limit is not None and in_flight + items > self._limit:
            too_large = items > self._limit
            detail = (
                f"key {name!r}: {items} items in addition to {in_flight} in flight exceed "
                f"server.max_concurrent_items_per_key: {self._limit}; "
                f"{'split the batch' if too_large else 'retry after a pause'}"
            )
            logger.warning("request rejected: %s", detail)
            if too_large:
                raise HTTPException(413, detail)
            raise HTTPException(429, detail, {"Retry-After": "1"})
        self._in_flight[name] += items
        try:
            yield
        finally:
            self._in_flight[name] -= items


def digest_of(key: str) -> str:
    """A key's SHA-256 digest in hex, which does not reveal long random keys."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def read_key_digests(file: str | None, variable: str | None) -> dict[str, str]:
    """Read a service's keys and return their digests by name; empty without a source.

    Args:
        file: ``server.api_keys_file``: lines ``name: key``; blank lines and ``#`` comments are
            skipped.
        variable: ``server.api_keys_env``, the name of a variable: ``name=key,name2=key2``.

    Raises:
        ConfigError: a source is invalid; the message names the field, the line and the remedy, but
            never shows a key.
    """
    found: dict[str, str] = {}
    if file is not None:
        source = f"server.api_keys_file: {file!r}"
        _add(found, source, "line", ":", _file(source, Path(file)).splitlines())
    if variable is not None:
        source = f"server.api_keys_env: {variable}"
        _add(found, source, "entry", "=", _variable(source, variable).split(","))
    return found


def _file(source: str, path: Path) -> str:
    try:
        text = read_text(path)
        mode = path.stat().st_mode
    except ValueError as error:
        raise ConfigError(f"{source}: {error}") from None
    except OSError as error:
        raise ConfigError(
            f"{source}: {error.strerror}; it is read where Serve builds the application, which is "
            "a node of the cluster with `serve run` and `serve deploy`"
        ) from None
    if mode & 0o077:
        logger.warning("%s is accessible to other users; run chmod 600 on it", source)
    return text


def _variable(source: str, variable: str) -> str:
    if variable not in os.environ:
        raise ConfigError(
            f"{source}: is not set where Serve builds the application; for `serve run` and "
            "`serve deploy` on a running cluster, set it in the environment of `ray start`"
        )
    return os.environ[variable]


def _add(found: dict[str, str], source: str, unit: str, separator: str, entries: list[str]) -> None:
    used = False
    for number, entry in enumerate(map(str.strip, entries), 1):
        if not entry or entry.startswith("#"):
            continue
        where = f"{source}, {unit} {number}"
        name, key = _split(where, entry, separator)
        digest = digest_of(key)
        if name in found:
            raise ConfigError(f"{where}: the name {name!r} is used twice; rename one")
        if digest in found.values():
            raise ConfigError(f"{where}: {name!r} has the same key as another name; {_MAKE_ONE}")
        found[name] = digest
        used = True
    if not used:
        raise ConfigError(f"{source}: contains no keys; {_MAKE_ONE}, or remove the field")


def _split(where: str, entry: str, separator: str) -> tuple[str, str]:
    """The name and key of an entry. Messages do not show it, since any part may be a key."""
    name, found, key = (part.strip() for part in entry.partition(separator))
    if separator == ":" and is_assignment(entry):
        raise ConfigError(
            f"{where}: must read name: key, such as trainer: KEY; NAME=value is the form of the "
            ".env file that a client reads"
        )
    if not found:
        raise ConfigError(f"{where}: must read name{separator} key")
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{where}: the name must be letters, digits and ._- (64 at most), before the "
            f"{separator!r}"
        )
    if not _KEY.fullmatch(key):
        raise ConfigError(
            f"{where}: the key must be letters, digits and ._~+/- with '=' at the "
            f"end, without quotes; {_MAKE_ONE}"
        )
    if len(key) < MIN_KEY_CHARACTERS:
        raise ConfigError(
            f"{where}: the key has {len(key)} characters; the minimum is "
            f"{MIN_KEY_CHARACTERS}: {_MAKE_ONE}"
        )
    return name, key
