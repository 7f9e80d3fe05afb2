"""Reads an API key from a file: of a ``.env`` file one variable, of any other all it says."""

from __future__ import annotations

from pathlib import Path


def read_key(file: str, variable: str) -> str:
    """The key in a file.

    Args:
        file: ``.env``, ``NAME.env`` or ``.env.NAME``; or a file of the key alone.
        variable: which one of a ``.env`` file is the key.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file holds no key; never shows one.
    """
    path = Path(file).expanduser()
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".env" or path.name == ".env" or path.name.startswith(".env."):
        from dotenv import dotenv_values  # most keys are variables of the environment

        key = dotenv_values(path, interpolate=False).get(variable)
        if not key:
            raise ValueError(f"{file}: does not set {variable}; add the line {variable}=...")
        return key
    if len(text.split()) != 1:
        raise ValueError(f"{file}: is not a key alone; a file of variables is named *.env")
    return text.strip()
