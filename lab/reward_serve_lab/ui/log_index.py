"""An index of the verdict log on disk: a folder of any size is read once and then followed.

A thread copies ``verdicts-*.jsonl`` in blocks into a temporary SQLite file, so that a page reads
fifty rows and never the log. Rotated files are recognised by their inode and first bytes.
"""

from __future__ import annotations

import json
import logging
import math
import sqlite3
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

logger = logging.getLogger(__name__)

MAX_CHOICES = 100
"""Maximum number of values that a filter lists."""

CHOSEN = {"status": 1, "source": 2, "rule": 3, "template": 5}
"""Filters that list values, and their columns in a verdict."""

_BLOCK_BYTES = 2**20
_POLL_S = 1.0
_PAUSE_S = 0.01
_HEAD_BYTES = 96

_SCHEMA = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = OFF;
CREATE TABLE verdicts (
    id INTEGER PRIMARY KEY, time REAL, status TEXT, source TEXT, rule TEXT, score REAL,
    template TEXT, model TEXT, step REAL, characters INTEGER
);
CREATE INDEX by_time ON verdicts (time, id);
CREATE TABLE texts (id INTEGER PRIMARY KEY, response TEXT, reference TEXT, rest TEXT);
"""


@dataclass
class _Followed:
    """A file's first bytes, and how far it has been read."""

    head: bytes
    offset: int = 0


@dataclass(frozen=True)
class Progress:
    """How far the log has been read.

    Attributes:
        rows: verdicts in the index.
        unreadable: lines that are not verdicts.
        read_bytes: bytes read so far.
        total_bytes: size of all files.
        fault: why the folder cannot be read; empty if it can.
    """

    rows: int = 0
    unreadable: int = 0
    read_bytes: int = 0
    total_bytes: int = 0
    fault: str = ""


class LogIndex:
    """Follows a folder of verdict logs.

    Args:
        folder: ``verdict_log.folder`` of the deployments file.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._scratch = tempfile.TemporaryDirectory(prefix="reward-serve-ui-")
        self.path = Path(self._scratch.name, "verdicts.sqlite")
        self._files: dict[tuple[int, int], _Followed] = {}
        self._next_id = 1
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True, name="verdict-log")
        self.progress = Progress()
        self.choices: dict[str, set[str]] = {name: set() for name in CHOSEN}
        self._database = sqlite3.connect(self.path, check_same_thread=False)
        self._database.executescript(_SCHEMA)

    def start(self) -> None:
        """Start reading in a thread."""
        self._thread.start()

    def close(self) -> None:
        """Stop reading and remove the index."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        self._database.close()
        self._scratch.cleanup()

    def read_new(self) -> bool:
        """Read the next block of each file; return whether there may be more.

        Raises:
            OSError: the folder cannot be read.
        """
        sizes: dict[Path, int] = {}
        more = False
        unreadable = self.progress.unreadable
        listed = [p for p in self.folder.iterdir() if _is_log(p)]
        for path in sorted(listed, key=lambda p: (-_rotation(p), p.name)):
            try:
                sizes[path] = path.stat().st_size
                lines, some_left = self._lines_of(path)
            except FileNotFoundError:  # rotated away
                continue
            more |= some_left
            unreadable += self._insert(lines)
        read = sum(followed.offset for followed in self._files.values())
        total = sum(sizes.values())
        self.progress = Progress(self._next_id - 1, unreadable, min(read, total), total)
        return more

    def _follow(self) -> None:
        while not self._stop.is_set():
            try:
                more = self.read_new()
            except (OSError, sqlite3.Error) as error:
                self.progress = Progress(**{**vars(self.progress), "fault": str(error)})
                more = False
            except Exception:
                logger.exception("the verdict log is no longer followed; restart the workbench")
                return
            self._stop.wait(_PAUSE_S if more else _POLL_S)

    def _lines_of(self, path: Path) -> tuple[list[bytes], bool]:
        """The next complete lines of a file, and whether it has more."""
        with path.open("rb") as file:
            status = path.stat()
            head = file.read(_HEAD_BYTES)
            key = (status.st_dev, status.st_ino)
            followed = self._files.get(key)
            # A new file may reuse the inode of a deleted one.
            if followed is None or not head.startswith(followed.head):
                followed = self._files[key] = _Followed(head)
            if len(followed.head) < _HEAD_BYTES:
                followed.head = head
            file.seek(followed.offset)
            lines = file.readlines(_BLOCK_BYTES)
            if lines and not lines[-1].endswith(b"\n"):
                lines.pop()  # still being written
            followed.offset += sum(map(len, lines))
            return lines, bool(lines) and followed.offset < status.st_size

    def _insert(self, lines: list[bytes]) -> int:
        """Insert lines; return the number of those that are not verdicts."""
        verdicts, texts, unreadable = [], [], 0
        for line in lines:
            row = parsed(line)
            if row is None:
                unreadable += bool(line.strip())
                continue
            verdict, text = row
            self._record_choices(verdict)
            verdicts.append((self._next_id, *verdict))
            texts.append((self._next_id, *text))
            self._next_id += 1
        with self._database:
            self._database.executemany(
                f"INSERT INTO verdicts VALUES ({','.join('?' * 10)})", verdicts
            )
            self._database.executemany("INSERT INTO texts VALUES (?, ?, ?, ?)", texts)
        return unreadable

    def _record_choices(self, verdict: tuple[Any, ...]) -> None:
        """Record the values of each filter, up to ``MAX_CHOICES``."""
        for name, column in CHOSEN.items():
            known = self.choices[name]
            if verdict[column] and verdict[column] not in known and len(known) < MAX_CHOICES:
                self.choices[name] = known | {verdict[column]}


def parsed(line: bytes) -> tuple[tuple[Any, ...], tuple[str, str, str]] | None:
    """A line's values for the two tables; None if it is not a verdict."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict) or not isinstance(entry.get("status"), str):
        return None
    details = entry.get("details")
    rule = details.get("rule") if isinstance(details, Mapping) else None
    verdict = (
        _number(entry.get("time")) or 0.0,
        _text(entry["status"]),
        _text(entry.get("source") or ""),
        _text(rule or ""),
        _number(entry.get("score")),
        _text(entry.get("template") or ""),
        _text(entry.get("model") or ""),
        _number(entry.get("step")),
        int(_number(entry.get("response_characters")) or 0),
    )
    reference = entry.get("reference")
    references = reference if isinstance(reference, list) else [reference or ""]
    texts = (
        _text(entry.pop("response_tail", "") or ""),
        "\n".join(map(_text, references)),
        json.dumps(entry),
    )
    return verdict, texts


def _is_log(path: Path) -> bool:
    stem, _, rest = path.name.partition(".jsonl")
    return stem.startswith("verdicts-") and (rest == "" or rest[1:].isdigit())


def _rotation(path: Path) -> int:
    rest = path.name.partition(".jsonl")[2]
    return int(rest[1:]) if rest else 0


def _text(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text.encode("utf-8", "replace").decode()  # SQLite rejects lone surrogates


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
