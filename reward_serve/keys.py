"""Reads an API key from a file: one variable of a ``.env`` file, or the whole file."""

from __future__ import annotations

from pathlib import Path


def read_key(file: str, variable: str) -> str:
    """Read the key in a file.

    Args:
        file: ``.env``, ``NAME.env`` or ``.env.NAME``; or a file that contains only the key.
        variable: the variable of a ``.env`` file.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file contains no key; the message never shows one.
    """
    path = Path(file).expanduser()
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".env" or path.name == ".env" or path.name.startswith(".env."):
        from dotenv import dotenv_values  # rarely needed: most keys are environment variables

        key = dotenv_values(path, interpolate=False).get(variable)
        if not key:
            raise ValueError(f"{file}: does not set {variable}; add the line {variable}=...")
        return key
    if len(text.split()) != 1:
        raise ValueError(
            f"{file}: must contain only the key; for a file of variables, use a name *.env"
        )
    return text.strip()
