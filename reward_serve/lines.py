"""Line files that may quote requests, readable only by their owner."""

from __future__ import annotations

import errno
import logging
import os
import threading
from io import FileIO
from pathlib import Path


class LineFile:
    """Appends lines to a file that only its owner can read.

    Several processes may share a file without ``max_bytes``. While the disk is full, lines are
    lost; a warning is logged when that begins, and another with their number when it ends.

    Args:
        path: the file; its folder is created with access for the owner only.
        logger: the logger for warnings.
        max_bytes: maximum size; a full file is renamed to ``PATH.1``. None for no limit.

    Raises:
        OSError: the folder cannot be created.
    """

    def __init__(self, path: Path, logger: logging.Logger, max_bytes: int | None = None) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path = path
        self._logger = logger
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._lost = 0
        self._torn = False

    def create(self) -> None:
        """Create the file if it does not exist.

        Raises:
            OSError: it cannot be written.
        """
        self._open().close()

    def append(self, line: str) -> None:
        """Append a line; if that fails, the line is lost."""
        with self._lock:
            try:
                self._write(line.encode() + b"\n")
            except OSError as error:
                if not self._lost:
                    self._logger.warning(
                        "%s: %s; its lines are lost until it can be written again",
                        self._path,
                        error.strerror,
                    )
                self._lost += 1
                return
            if self._lost:
                self._logger.warning(
                    "%s is written again; %d lines were lost", self._path, self._lost
                )
                self._lost = 0

    def _write(self, line: bytes) -> None:
        with self._open() as file:
            size = file.tell()
            if not size or self._max_bytes is None or size + len(line) <= self._max_bytes:
                self._put(file, line)
                return
        self._path.replace(f"{self._path}.1")
        with self._open() as file:
            self._put(file, line)

    def _put(self, file: FileIO, line: bytes) -> None:
        """Write in one call; a line that a full disk cut off is ended first."""
        content = b"\n" + line if self._torn else line
        self._torn = file.write(content) < len(content)
        if self._torn:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _open(self) -> FileIO:
        return open(self._path, "ab", buffering=0, opener=_opener)


def _opener(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
