"""Reads API keys, a client's from a file, a service's from a file or a variable; and Ray's token.

A service's keys are read where the application is built, and only their SHA-256 digests are passed
on, as arguments of the ingress: its replicas may run on another node or in another environment, and
Serve's logs and status, which show ``args``, never contain a key. Keys are identified by name.
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
import re
import secrets
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

from reward_serve.config.base import ConfigError

logger = logging.getLogger("ray.serve")

API_KEY_VARIABLE = "REWARD_SERVE_API_KEY"  # a client's
MIN_KEY_CHARACTERS = 16

_ASSIGNMENT = re.compile(r"(?:export\s+)?\w+\s*=\s*[^\s=]")  # a key has "=" only at its end
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_KEY = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # a bearer token by RFC 6750
_MAKE_ONE = "make one with `openssl rand -hex 32`"


def read_key(file: str, variable: str) -> str:
    """Read a client's key in a file.

    Args:
        file: ``.env``, ``NAME.env`` or ``.env.NAME``; or a file that contains only the key.
        variable: the variable of a ``.env`` file.

    Raises:
        ValueError: the file cannot be read or contains no key; the message never shows one.
    """
    path = Path(file).expanduser()
    text = _text(path, file, "name a readable file")
    if path.suffix == ".env" or path.name == ".env" or path.name.startswith(".env."):
        from dotenv import dotenv_values  # rarely needed: most keys are environment variables

        key = dotenv_values(stream=io.StringIO(text), interpolate=False).get(variable)
        if not key:
            raise ValueError(f"{file}: does not set {variable}; add the line {variable}=...")
        return key
    if len(text.split()) != 1 or _ASSIGNMENT.match(text.strip()):
        raise ValueError(
            f"{file}: must contain only the key; for a file of variables, use a name *.env"
        )
    return text.strip()


def use_ray_token(*, starts: bool = False) -> None:
    """Unless ``RAY_AUTH_MODE`` is set, send Ray this user's token, which one without keys ignores.

    Args:
        starts: this process starts Ray; the token is created if it does not exist.

    Raises:
        ConfigError: the token cannot be made.
    """
    path = Path("~/.ray/reward_serve_token").expanduser()
    if "RAY_AUTH_MODE" in os.environ or not (starts or os.access(path, os.R_OK)):
        return
    if starts:
        try:
            path.parent.mkdir(exist_ok=True)
            with suppress(FileExistsError), NamedTemporaryFile("w", dir=path.parent) as file:
                file.write(secrets.token_hex(32))
                file.flush()
                path.hardlink_to(file.name)  # of mode 0600
        except OSError as error:
            remedy = "set HOME to a writable folder, or RAY_AUTH_MODE and RAY_AUTH_TOKEN_PATH"
            raise ConfigError(f"{path}: Ray's token: {error.strerror}; {remedy}") from None
    os.environ["RAY_AUTH_MODE"] = "token"
    os.environ.setdefault("RAY_AUTH_TOKEN_PATH", str(path))
    if ray := sys.modules.get("ray"):  # it read its settings when it was imported
        ray._raylet.Config.initialize("")


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
    digests: dict[str, str] = {}
    if file is not None:
        source, path = f"server.api_keys_file: {file!r}", Path(file).expanduser()
        remedy = (
            "it is read where Serve builds the application, which is a node of the cluster with "
            "`serve run` and `serve deploy`"
        )
        _add(digests, source, "line", ":", _text(path, source, remedy).splitlines())
        if path.stat().st_mode & 0o077:
            logger.warning("%s is accessible to other users; run chmod 600 on it", source)
    if variable is not None:
        source = f"server.api_keys_env: {variable}"
        if variable not in os.environ:
            raise ConfigError(
                f"{source}: is not set where Serve builds the application; for `serve run` and "
                "`serve deploy` on a running cluster, set it in the environment of `ray start`"
            )
        _add(digests, source, "entry", "=", os.environ[variable].split(","))
    return digests


def _text(path: Path, source: str, remedy: str) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{source}: {error.strerror}; {remedy}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{source}: is not UTF-8 text; save it as UTF-8") from None


def _add(
    digests: dict[str, str], source: str, unit: str, separator: str, entries: list[str]
) -> None:
    before = len(digests)
    for number, entry in enumerate(map(str.strip, entries), 1):
        if not entry or entry.startswith("#"):
            continue
        name, separated, key = (part.strip() for part in entry.partition(separator))
        digest = digest_of(key)
        fault = None  # which does not show the entry, since any part of it may be a key
        if not separated:
            fault = f"must read name{separator} key"
        elif not _NAME.fullmatch(name):
            fault = (
                f"the name must be letters, digits and ._- (64 at most), before the {separator!r}"
            )
        elif not _KEY.fullmatch(key):
            fault = (
                "the key must be letters, digits and ._~+/- with '=' at the end, without quotes; "
                f"{_MAKE_ONE}"
            )
        elif len(key) < MIN_KEY_CHARACTERS:
            fault = (
                f"the key has {len(key)} characters; the minimum is {MIN_KEY_CHARACTERS}: "
                f"{_MAKE_ONE}"
            )
        elif name in digests:
            fault = f"the name {name!r} is used twice; rename one"
        elif digest in digests.values():
            fault = f"{name!r} has the same key as another name; {_MAKE_ONE}"
        if fault is not None:
            raise ConfigError(f"{source}, {unit} {number}: {fault}")
        digests[name] = digest
    if len(digests) == before:
        raise ConfigError(f"{source}: contains no keys; {_MAKE_ONE}, or remove the field")
