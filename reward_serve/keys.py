"""Reads an API key from a file: one variable of a ``.env`` file, or the whole file."""

from __future__ import annotations

import io
import re
from pathlib import Path

API_KEY_VARIABLE = "REWARD_SERVE_API_KEY"
"""The environment variable of a client's API key."""
_ASSIGNMENT = re.compile(r"(?:export\s+)?\w+\s*=\s*[^\s=]")


def read_key(file: str, variable: str) -> str:
    """Read the key in a file.

    Args:
        file: ``.env``, ``NAME.env`` or ``.env.NAME``; or a file that contains only the key.
        variable: the variable of a ``.env`` file.

    Raises:
        ValueError: the file cannot be read or contains no key; the message never shows one.
    """
    path = Path(file).expanduser()
    try:
        text = read_text(path)
    except OSError as error:
        raise ValueError(f"{file}: {error.strerror}; name a readable file") from None
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None
    if path.suffix == ".env" or path.name == ".env" or path.name.startswith(".env."):
        from dotenv import dotenv_values  # rarely needed: most keys are environment variables

        key = dotenv_values(stream=io.StringIO(text), interpolate=False).get(variable)
        if not key:
            raise ValueError(f"{file}: does not set {variable}; add the line {variable}=...")
        return key
    if len(text.split()) != 1 or is_assignment(text):
        raise ValueError(
            f"{file}: must contain only the key; for a file of variables, use a name *.env"
        )
    return text.strip()


def read_text(path: Path) -> str:
    """The text of a file of keys, without a byte order mark.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is no regular file, or not UTF-8; the message has the remedy.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        raise ValueError("is a pipe or a device; write the keys to a regular file (chmod 600)")
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8 text; save it as UTF-8") from None


def is_assignment(line: str) -> bool:
    """Whether a line is ``NAME=value``; a key has ``=`` only at its end."""
    return _ASSIGNMENT.match(line.strip()) is not None
