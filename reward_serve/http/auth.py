"""API keys: where they are read, how a caller's is compared, and how much one may ask at once.

Keys are read where the application is built, and only their SHA-256 digests travel on, in the
ingress's arguments: a replica may start on another node or under another environment, and what
Serve logs and shows (the file's ``args``) never holds a key. A key is known by its name.

    >>> keys = ApiKeys({"trainer": digest_of("correct-horse-battery")})
    >>> keys.name_of("correct-horse-battery"), keys.name_of("a guess")
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

from reward_serve.config.base import ConfigError

logger = logging.getLogger("ray.serve")

MIN_KEY_CHARACTERS = 16

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_KEY = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # what RFC 6750 lets a bearer token be
_MAKE_ONE = "make one with `openssl rand -hex 32`"


class ApiKeys:
    """The keys of one service, by name.

    Args:
        digests: a key's name to its ``digest_of``.
    """

    def __init__(self, digests: Mapping[str, str]) -> None:
        self._digests = {name: digest.encode() for name, digest in digests.items()}

    def name_of(self, key: str) -> str | None:
        """The name of a caller's key; None when it is none of ours.

        Digests of equal length are compared, with every key, so that the time taken tells neither
        a key's length nor how much of it was right.
        """
        asked = digest_of(key).encode()
        matches = [
            name for name, digest in self._digests.items() if hmac.compare_digest(asked, digest)
        ]
        return matches[0] if matches else None


class KeyLimitError(Exception):
    """One key has as many items in flight as it may; nothing was done.

    Attributes:
        never: so many items could not be in flight whatever else is.
    """

    def __init__(self, message: str, never: bool) -> None:
        super().__init__(message)
        self.never = never


class KeyLimit:
    """Bounds the items that each key has in flight.

    Args:
        items: at most, a key; None is no bound.
    """

    def __init__(self, items: int | None) -> None:
        self._limit = items
        self._in_flight: Counter[str] = Counter()

    @contextmanager
    def held(self, name: str, items: int) -> Iterator[None]:
        """Count ``items`` for the key of this name while the context lasts.

        Raises:
            KeyLimitError: at once, when they would be too many.
        """
        at_work = self._in_flight[name]
        if self._limit is not None and at_work + items > self._limit:
            never = items > self._limit
            raise KeyLimitError(
                f"key {name!r}: {items} items beside {at_work} in flight, where "
                f"server.max_concurrent_items_per_key allows {self._limit}; "
                f"{'split the batch' if never else 'retry after a pause'}",
                never,
            )
        self._in_flight[name] += items
        try:
            yield
        finally:
            self._in_flight[name] -= items


def digest_of(key: str) -> str:
    """A key's SHA-256, in hex: long random keys cannot be found from it."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def read_key_digests(file: str | None, variable: str | None) -> dict[str, str]:
    """The digests of the keys that a service takes, by name; none when neither source is given.

    Args:
        file: ``server.api_keys_file``: a line ``name: key`` each; blank ones and ``#`` comments
            are skipped.
        variable: ``server.api_keys_env``, the name of a variable: ``name=key,name2=key2``.

    Raises:
        ConfigError: names the field, the place in it and the remedy; never shows a key.
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
        text = path.read_text(encoding="utf-8")
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "is not UTF-8 text"
        raise ConfigError(
            f"{source}: {why}; it is read where Serve builds the application, under `serve run` "
            "and `serve deploy` on a node of the cluster"
        ) from None
    if mode & 0o077:
        logger.warning("%s can be read or written by others; chmod 600 it", source)
    return text


def _variable(source: str, variable: str) -> str:
    if variable not in os.environ:
        raise ConfigError(
            f"{source}: is not set where Serve builds the application; under `serve run` and "
            "`serve deploy` on a running cluster that is the environment of its `ray start`"
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
            raise ConfigError(f"{where}: the name {name!r} is given twice; rename one")
        if digest in found.values():
            raise ConfigError(f"{where}: {name!r} has another name's key; {_MAKE_ONE}")
        found[name] = digest
        used = True
    if not used:
        raise ConfigError(f"{source}: holds no keys; {_MAKE_ONE}, or leave the field out")


def _split(where: str, entry: str, separator: str) -> tuple[str, str]:
    """The name and the key of an entry, which is not shown: all of it may be a key."""
    name, found, key = (part.strip() for part in entry.partition(separator))
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
            f"{where}: the key has {len(key)} characters; the least is "
            f"{MIN_KEY_CHARACTERS}: {_MAKE_ONE}"
        )
    return name, key
