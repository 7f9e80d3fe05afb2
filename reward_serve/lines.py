"""Line files that may quote requests, readable only by their owner."""

from __future__ import annotations

import logging
import os
from functools import partial
from io import FileIO
from pathlib import Path

OWNER_ONLY = partial(os.open, mode=0o600)
"""The opener of a file that may quote requests, which only its owner can read if it is new."""


class LineFile:
    """Appends lines to a file that only its owner can read.

    Several processes may share a file without ``max_bytes``. While it cannot be written, as on a
    full disk, lines are lost; a warning is logged when that begins.

    Args:
        path: the file; its folder is created with access for the owner only.
        logger: the logger for the warning.
        max_bytes: maximum size; a full file is renamed to ``PATH.1``. None for no limit.

    Raises:
        OSError: the folder cannot be created.
    """

    def __init__(self, path: Path, logger: logging.Logger, max_bytes: int | None = None) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path, self._logger, self._max_bytes = path, logger, max_bytes
        self._fails = False

    def create(self) -> None:
        """Create the file if it does not exist; raises ``OSError`` if it cannot be written."""
        self._open().close()

    def append(self, line: str) -> None:
        """Append a line; if that fails, the line is lost."""
        content = line.encode() + b"\n"
        try:
            size = self._path.stat().st_size if self._path.exists() else 0
            if self._max_bytes and 0 < size > self._max_bytes - len(content):
                self._path.replace(f"{self._path}.1")
            with self._open() as file:
                file.write(content)  # in one call, so that no other process writes in between
        except OSError as error:
            if not self._fails:
                text = "%s: %s; its lines are lost until it can be written again"
                self._logger.warning(text, self._path, error.strerror)
            self._fails = True
        else:
            self._fails = False

    def _open(self) -> FileIO:
        return open(self._path, "ab", buffering=0, opener=OWNER_ONLY)
