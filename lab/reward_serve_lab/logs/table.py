"""Verdict logs of several replicas, nodes and runs as one table, in DuckDB.

Complete new lines are copied in parts into temporary files, which DuckDB parses, so that a log of
any size is read once and then followed. Rotated files are recognised by their inode and first
bytes.
"""

from __future__ import annotations

import json
import logging
import re
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb

logger = logging.getLogger(__name__)

_PART_BYTES = 2**25
_PARTS = 8
_POLL_S = 1.0
_PAUSE_S = 0.01
_HEAD_BYTES = 96
_NAMES = ("verdicts-", "rescored-")
_LONE_SURROGATE = re.compile(  # an endpoint's text may have one
    rb"\\u[dD](?<!\\\\u.)"  # starts with what is rare, or the search takes 100 times as long
    rb"(?:[89abAB]..(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..\\u.)[c-fC-F]..)"
)
_FIELDS = json.dumps({
    "time": "DOUBLE",
    **dict.fromkeys(("run", "sample", "group", "request", "model", "template"), "VARCHAR"),
    **dict.fromkeys(("status", "source", "response_tail", "by"), "VARCHAR"),
    **dict.fromkeys(("step", "score", "mean_logprob", "by_rules", "by_model"), "DOUBLE"),
    **dict.fromkeys(("details", "reference", "before"), "JSON"),
    **dict.fromkeys(("response_characters", "tokens"), "BIGINT"),
})  # fmt: skip
_SCHEMA = """
CREATE MACRO finite(text) AS
    CASE WHEN abs(try_cast(text AS DOUBLE)) < 1e11 THEN try_cast(text AS DOUBLE) END;
CREATE SEQUENCE ids;
CREATE TABLE entries (
    id BIGINT, time DOUBLE, run VARCHAR, step DOUBLE, sample VARCHAR, "group" VARCHAR,
    request VARCHAR, model VARCHAR, template VARCHAR, status VARCHAR, source VARCHAR,
    rule VARCHAR, score DOUBLE, characters BIGINT, response VARCHAR, reference VARCHAR,
    tokens BIGINT, mean_logprob DOUBLE, line VARCHAR, by_rules DOUBLE, by_model DOUBLE,
    before JSON, "by" VARCHAR
);
CREATE VIEW verdicts AS
SELECT * EXCLUDE (by_rules, by_model, before, "by") FROM entries
WHERE status <> 'audit' AND before IS NULL;
CREATE VIEW audits AS
SELECT *, (rewarded >= 0.5) = (other >= 0.5) AS agreed FROM (
    SELECT id, time, run, step, sample, "group", request, model, source,
        CASE WHEN before IS NOT NULL THEN finite(before ->> 'score')
             WHEN source = 'rule' THEN by_rules ELSE by_model END AS rewarded,
        CASE WHEN before IS NOT NULL THEN score
             WHEN source = 'rule' THEN by_model ELSE by_rules END AS other,
        CASE WHEN before IS NOT NULL THEN "by"
             WHEN source = 'rule' THEN 'model' ELSE 'rules' END AS "by"
    FROM entries WHERE status = 'audit' OR before IS NOT NULL
) WHERE rewarded IS NOT NULL AND other IS NOT NULL;
"""
_INSERT = """
INSERT INTO entries
SELECT nextval('ids'), coalesce(finite(f.time), 0), f.run, finite(f.step), f.sample, f."group",
    f.request, coalesce(f.model, ''), coalesce(f.template, ''),
    CASE WHEN json_type(line, '$.status') = 'VARCHAR' THEN f.status END,
    coalesce(f.source, ''), coalesce(f.details ->> '$.rule', ''), finite(f.score),
    coalesce(f.response_characters, 0), coalesce(f.response_tail, ''),
    coalesce(array_to_string(from_json(f.reference, '["VARCHAR"]'), chr(10)),
        f.reference ->> '$', ''),
    f.tokens, finite(f.mean_logprob), line, finite(f.by_rules), finite(f.by_model),
    CASE WHEN json_type(f.before) = 'OBJECT' THEN f.before END, f."by"
FROM (SELECT json AS line, json_transform(json, $fields) AS f
      FROM read_ndjson_objects($parts, ignore_errors = true))
"""


@dataclass
class _Followed:
    """A file's first bytes, and how far it has been read."""

    head: bytes
    offset: int = 0


@dataclass(frozen=True)
class Progress:
    """How far the logs have been read.

    Attributes:
        rows: verdicts and audits in the table.
        unreadable: lines that are neither.
        read_bytes: bytes read so far.
        total_bytes: size of all files.
        fault: why a path cannot be read; empty if all can.
    """

    rows: int = 0
    unreadable: int = 0
    read_bytes: int = 0
    total_bytes: int = 0
    fault: str = ""


class VerdictTable:
    """Verdict logs and rescored files as a DuckDB database, in a temporary file.

    ``verdicts`` has a row for each verdict, with the trainer's ``run``, ``step`` and ``sample``; of
    a teacher (source ``teacher``), with the ``tokens`` that it scored and their ``mean_logprob``.
    ``audits`` has a row for each second verdict on a logged request: ``rewarded`` is the score that
    was the reward, ``other`` that of the other side, which is named in ``by``: ``rules``,
    ``model``, or a judge that rescored the log.

    Args:
        paths: files, and folders whose ``verdicts-*.jsonl`` and ``rescored-*.jsonl`` are read.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = list(paths)
        self.progress = Progress()
        self._scratch = tempfile.TemporaryDirectory(prefix="reward-serve-logs-")
        folder = Path(self._scratch.name)
        self._part = folder / "part"
        self._files: dict[tuple[int, int], _Followed] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True, name="verdict-log")
        # Compressing the lines and a checkpoint after each part would take most of the time.
        settings = {"force_compression": "uncompressed", "wal_autocheckpoint": "256MB"}
        settings |= {"memory_limit": "2GB", "temp_directory": str(folder)}
        self._database = duckdb.connect(str(folder / "verdicts.duckdb"), config=dict(settings))
        self._database.execute(_SCHEMA)

    def start(self) -> None:
        """Read and follow the files in a thread."""
        self._thread.start()

    def close(self) -> None:
        """Stop reading, and delete the table."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        self._database.close()
        self._scratch.cleanup()

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a query; may be called in any thread.

        Raises:
            duckdb.Error: the query is invalid, or the table was closed.
        """
        with self._database.cursor() as cursor:
            return cursor.execute(sql, list(values)).fetchall()

    def read_all(self) -> None:
        """Read all complete lines that the files have.

        Raises:
            OSError: a path cannot be read.
        """
        while self.read_new():
            pass

    def read_new(self) -> bool:
        """Read the next part of each file; return whether there may be more.

        Raises:
            OSError: a path cannot be read.
        """
        sizes: dict[Path, int] = {}
        more = False
        parts: list[str] = []
        for path in self._listed():
            try:
                sizes[path] = path.stat().st_size
                part, some_left = self._lines_of(path)
            except FileNotFoundError:  # rotated away
                continue
            more |= some_left
            if part:
                parts.append(self._write(part, len(parts)))
            if len(parts) == _PARTS:
                self._insert(parts)
                parts = []
        self._insert(parts)
        read = sum(followed.offset for followed in self._files.values())
        total = sum(sizes.values())
        ((rows, entries),) = self.rows("SELECT count(status), count(*) FROM entries")
        self.progress = Progress(rows, entries - rows, min(read, total), total)
        return more

    def _listed(self) -> list[Path]:
        files = [
            file for path in self.paths for file in ([path] if path.is_file() else path.iterdir())
        ]
        logs = [file for file in files if file in self.paths or _is_log(file)]
        return sorted(logs, key=lambda path: (-_rotation(path), path.name))

    def _follow(self) -> None:
        while not self._stop.is_set():
            try:
                more = self.read_new()
            except (OSError, duckdb.Error) as error:
                self.progress = replace(self.progress, fault=str(error))
                more = False
            except Exception:
                logger.exception("the verdict log is no longer followed; restart the workbench")
                return
            self._stop.wait(_PAUSE_S if more else _POLL_S)

    def _lines_of(self, path: Path) -> tuple[bytes, bool]:
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
            part = file.read(_PART_BYTES)
            part = part[: part.rfind(b"\n") + 1]  # the rest is still being written
            followed.offset += len(part)
            return part, bool(part) and followed.offset < status.st_size

    def _write(self, part: bytes, number: int) -> str:
        """Write lines to a temporary file."""
        path = self._part.with_suffix(f".{number}.jsonl")
        path.write_bytes(_LONE_SURROGATE.sub(rb"\\ufffd", part))  # DuckDB rejects its line
        return str(path)

    def _insert(self, parts: list[str]) -> None:
        """Insert lines; one that is neither a verdict nor an audit has no status."""
        if parts:  # DuckDB reads several files in parallel
            self._database.execute(_INSERT, {"fields": _FIELDS, "parts": parts})


def _is_log(path: Path) -> bool:
    stem, _, rest = path.name.partition(".jsonl")
    return stem.startswith(_NAMES) and (rest == "" or rest[1:].isdigit())


def _rotation(path: Path) -> int:
    rest = path.name.partition(".jsonl")[2]
    return int(rest[1:]) if rest[1:].isdigit() else 0
