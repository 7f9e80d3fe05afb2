"""Stored rollouts, the file of what another judge says of them, and the comparison of both."""

from __future__ import annotations

import fcntl
import glob
import gzip
import json
import math
import time
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from statistics import fmean
from typing import Any, BinaryIO, NamedTuple

from pydantic import ConfigDict

from reward_serve.client.rows import conversation_of, texts_of
from reward_serve.schema import ScoreResult, Status
from reward_serve_lab.evaluation.bulk import RIGHT
from reward_serve_lab.evaluation.json_lines import LinesError, all_valid, parse_lines
from reward_serve_lab.evaluation.metrics import wilson

NAMES = {
    "response": ("response", "response_tail", "output", "output_response", "completion"),
    "question": ("question", "input", "input_prompt", "prompt"),
    "reference": ("reference", "gts", "ground_truth"),
    "score": ("score", "reward"),
    "sample": ("sample", "uid"),
}
"""A field's names: ours, in verdict logs, verl's and SkyRL's dumps and TRL's completions."""

FINAL = {Status.OK, Status.UNPARSEABLE, Status.TRUNCATED}
"""A judge's answers. Other results are not kept, but asked for again."""

MAX_LINE_BYTES, MAX_BYTES = 2**26, 2**33
"""Of a stored row, and of all that are read, uncompressed."""

MAX_SAMPLES = 200
"""Of each kind of flip, in a report."""

_SENT = ("messages", "tools", "turns", "rubric")
_KEYS = ("run", "step", "sample", "group")
_ABOUT = ("time", *_KEYS, "request", "model")
_RESULT = {"status", "score", "source", "reason", "fingerprint"}


class RescoreError(RuntimeError):
    """Rollouts or results cannot be used; the message has the remedy."""


class Rollout(NamedTuple):
    """A stored response.

    Attributes:
        key: digest of the stored line; of equal lines, those after the first have a number too.
        score: its score; None if absent.
        group: what a prompt's samples share: run, step, and the group or else the prompt.
        line: what its line of results begins with: the key to ``before``.
        request: the score request.
        is_cut: whether the log has only the response's end.
    """

    key: str
    score: float | None
    group: str | None
    line: dict[str, Any]
    request: dict[str, Any]
    is_cut: bool


def read_rollouts(path: Path, score: str | None = None) -> tuple[list[Rollout], list[str]]:
    """The rollouts of a file of JSON lines or Parquet or of a folder, and the other lines' faults.

    JSON lines may be compressed (``.gz``). Of a folder, the verdict logs are read; if it has none,
    all such files but ``rescored-*``.

    Args:
        path: the file or folder.
        score: the column of the score; default: one of ``NAMES``.

    Raises:
        OSError: a file cannot be read.
        RescoreError: there are none, they are of a redacted log, or none has the column.
    """
    rollouts, columns, seen = [], set[str](), Counter[str]()
    files, faults = _files(path)
    for place, line in _lines(files):
        digest = sha256(line).hexdigest()[:16]
        seen[digest] += 1
        try:
            row = json.loads(line)
            if not isinstance(row, dict):
                raise ValueError("is no object; write one per line")
            columns |= row.keys()
            if row.get("status") != "audit" and row.get("source") != "teacher":
                key = digest if seen[digest] == 1 else f"{digest}-{seen[digest]}"
                rollouts.append(_rollout(key, row, score))
        except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
            faults.append(f"{place}: {error}")
    if score and columns and score not in columns:
        raise RescoreError(f"--score {score}: no row has it; choose from {sorted(columns)}")
    if not rollouts:
        raise RescoreError("; ".join([f"{path}: has no rows with a response", *faults[:1]]))
    return rollouts, faults


def _files(path: Path) -> tuple[list[Path], list[str]]:
    """The files to read, and what is said of those that are left out."""
    if not path.is_dir():
        return [path], []
    paths = [file for kind in ("jsonl", "jsonl.gz", "parquet") for file in path.glob(f"*.{kind}")]
    others = [file for file in paths if not file.name.startswith("rescored-")]
    files = sorted(path.glob("verdicts-*.jsonl*")) or sorted(others)
    left_out = sorted({*path.glob("*.gz")} - {*paths, *files})
    return files, [f"{file}: is left out; unpack it, or name it .jsonl.gz" for file in left_out]


def _lines(files: Iterable[Path]) -> Iterator[tuple[str, bytes]]:
    read = 0
    for file in files:
        opened = gzip.open if file.suffix == ".gz" else open
        with opened(file, "rb") as stored:
            lines: Iterator[bytes] = iter(partial(stored.readline, MAX_LINE_BYTES + 1), b"")
            if file.suffix == ".parquet":
                import duckdb

                try:
                    limited = duckdb.connect(config={"memory_limit": f"{MAX_BYTES}B"})
                    rows = limited.execute(
                        "select to_json(t) from read_parquet(?, hive_partitioning = false) t",
                        [glob.escape(str(file))],
                    )
                except duckdb.Error as error:
                    raise RescoreError(str(error)) from None
                lines = (row[0].encode() for row in iter(rows.fetchone, None))
            try:
                for number, line in enumerate(lines, 1):
                    read += len(line)
                    if len(line) > MAX_LINE_BYTES or read > MAX_BYTES:
                        raise RescoreError(
                            f"{file}:{number}: a row may have {MAX_LINE_BYTES >> 20} MiB and all "
                            f"rows {MAX_BYTES >> 30} GiB; split them into several runs"
                        )
                    if line.strip():
                        yield f"{file}:{number}", line.strip()
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise RescoreError(f"{file}: {error}; compress it again") from None


def _rollout(key: str, row: dict[str, Any], column: str | None) -> Rollout:
    extras = row.get("env_extras")  # in SkyRL's, the row of the data set
    row = (extras.get("reward_spec") or {} if isinstance(extras, dict) else {}) | row
    values = {
        field: next((row[name] for name in of if row.get(name) is not None), None)
        for field, of in NAMES.items()
    }
    question, response = values["question"], values["response"]
    request = {name: row[name] for name in _SENT if row.get(name) is not None}
    if isinstance(question, list):  # TRL's, of conversations
        request = conversation_of(request, [*question, *(response or ())], request.get("tools", ()))
    elif response is not None:
        request |= {"response": response} | ({"question": question} if question else {})
    elif "response_characters" in row:
        raise RescoreError(
            "the log is redacted (verdict_log.redact) and has no texts; give the trainer's own "
            "rollouts, or set redact: false for the next run"
        )
    elif "messages" not in request:
        raise ValueError(f"response: is missing; name it {', '.join(NAMES['response'])}")
    if references := texts_of(values["reference"]):
        request["reference"] = references[0] if len(references) == 1 else references
    is_replaced = 1 in (row.get("undecided"), row.get("fallback"))  # by our adapter for verl
    score = None if is_replaced else _score(row, (column,) if column else NAMES["score"])
    origin = {name: _scalar(values.get(name, row.get(name))) for name in _ABOUT}
    status = _scalar(row.get("status")) or ("absent" if score is None else "ok")
    before = {"score": score, "status": status, "fingerprint": _scalar(row.get("fingerprint"))}
    prompt = origin["group"]
    if prompt in (None, ""):
        prompt = question or request.get("messages", [])[:-1] or None
    group = None if prompt is None else json.dumps([origin["run"], origin["step"], prompt])
    is_cut = "response_tail" in row and row.get("response_characters", 0) > len(str(response))
    return Rollout(key, score, group, {"key": key, **origin, "before": before}, request, is_cut)


def _score(row: Mapping[str, Any], names: Iterable[str]) -> float | None:
    """The score in the first of these columns that has one, as a number or its text."""
    name, value = next(((n, row[n]) for n in names if row.get(n) not in (None, "")), ("", "nan"))
    try:
        score = float(sum(value) if isinstance(value, list) else value)  # SkyRL's, of tokens
    except (TypeError, ValueError):
        raise ValueError(f"{name}: {str(value)[:80]!r} is no number; write one") from None
    return score if math.isfinite(score) else None


def _scalar(value: Any) -> Any:
    return value if isinstance(value, str | int | float) else None


def sampled(rollouts: Sequence[Rollout], count: float) -> list[Rollout]:
    """About ``count`` rollouts, or below 1 that share: whole groups, the same for every judge."""
    ranks = [sha256((rollout.group or rollout.key).encode()).digest() for rollout in rollouts]
    count = round(count if count >= 1 else count * len(ranks))
    last = sorted(ranks)[: max(1, count)][-1:]
    return [rollout for rollout, rank in zip(rollouts, ranks, strict=True) if [rank] <= last]


class Rescored(ScoreResult):
    """A line of results: a rollout's ``line``, the result, and ``by`` which judge."""

    model_config = ConfigDict(extra="allow")

    key: str
    by: str


class RescoredFile:
    """Appends a judge's results to those that a file has; a last line that was cut off is dropped.

    Args:
        file: the file, opened to read and append.
        by: the judge's name with a digest of its settings.
        rollouts: all rollouts.

    Attributes:
        lines: the results by key.

    Raises:
        OSError: the file cannot be written.
        RescoreError: it is of another judge, of other rollouts or of another kind, or in use.
    """

    def __init__(self, file: BinaryIO, by: str, rollouts: Sequence[Rollout]) -> None:
        self._file, self._by = file, by
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.seek(0)
            content = file.read()
            whole = content[: content.rfind(b"\n") + 1]
            self.lines = {line.key: line for line in all_valid(parse_lines(whole, Rescored))}
            if others := {line.by for line in self.lines.values()} - {by}:
                raise RescoreError(f"its scores are by {', '.join(others)}, and this judge is {by}")
            if strangers := self.lines.keys() - {rollout.key for rollout in rollouts}:
                raise RescoreError(f"{len(strangers)} of its rows are not in the input")
        except BlockingIOError:
            raise RescoreError(f"{file.name}: another process is writing it") from None
        except (LinesError, RescoreError) as error:
            raise RescoreError(f"{file.name}: {error}; give another --out") from None
        file.truncate(len(whole))

    def append(self, rollouts: Sequence[Rollout], results: Sequence[ScoreResult]) -> None:
        """Write the results that are answers; raises ``OSError``."""
        for rollout, result in zip(rollouts, results, strict=True):
            if result.status in FINAL:
                fields = result.model_dump(mode="json", include=_RESULT)
                line = {**rollout.line, **fields, "by": self._by}
                line["time"] = line["time"] or round(time.time(), 3)
                self.lines[rollout.key] = Rescored.model_validate(line)
                self._file.write(f"{json.dumps(line)}\n".encode())
        self._file.flush()


def compare(rollouts: Sequence[Rollout], lines: Mapping[str, Rescored]) -> dict[str, Any]:
    """What the other judge changed, as JSON data.

    A score of at least 0.5 is right. ``moves`` are from verdict to verdict; agreement and McNemar's
    exact test are of the rows that both judges decided.
    """
    from scipy.stats import binomtest  # type: ignore[import-untyped]

    pairs = [(rollout, lines[rollout.key]) for rollout in rollouts if rollout.key in lines]
    verdicts = ("right", "wrong", "absent")
    moves = {f"{before} to {other}": 0 for before in verdicts for other in verdicts}
    samples: dict[str, list[dict[str, Any]]] = {}
    for old, new in pairs:
        kind = f"{_verdict(old.score)} to {_verdict(new.score)}"
        moves[kind] += 1
        if kind not in ("right to right", "wrong to wrong", "absent to absent"):
            samples.setdefault(kind, []).append(_sample(old, new))
    agreed = moves["right to right"] + moves["wrong to wrong"]
    lost, won = moves["right to wrong"], moves["wrong to right"]
    both = agreed + lost + won
    return {
        "n": len(pairs),
        "cut": sum(old.is_cut for old, _ in pairs),
        "both_decided": both,
        "agreement": agreed / both if both else None,
        "agreement_interval": wilson(agreed, both),
        "mcnemar_p": float(binomtest(lost, lost + won).pvalue) if lost + won else 1.0,
        "moves": moves,
        "groups": _groups(rollouts, lines),
        "fingerprints": {
            "before": _counts(old.line["before"]["fingerprint"] for old, _ in pairs),
            "after": _counts(new.fingerprint for _, new in pairs),
        },
        "samples": {kind: some[:MAX_SAMPLES] for kind, some in samples.items()},
    }


def _sample(old: Rollout, new: Rescored) -> dict[str, Any]:
    keys = [f"{name} {old.line[name]}" for name in _KEYS if old.line[name] is not None]
    scores = {"before": old.score, "after": new.score, "reason": new.reason}
    return {"name": ", ".join(keys) or old.key, "key": old.key, **scores, **old.request}


def _verdict(score: float | None) -> str:
    return "absent" if score is None else "right" if score >= RIGHT else "wrong"


def _counts(values: Iterable[str | None]) -> dict[str, int]:
    return dict(Counter(value or "unknown" for value in values).most_common())


def _groups(rollouts: Sequence[Rollout], lines: Mapping[str, Rescored]) -> dict[str, int]:
    """Counts over groups with a row that was scored again; their other rows keep their score."""
    groups: dict[str, list[Rollout]] = {}
    for rollout in rollouts:
        groups.setdefault(rollout.group or rollout.key, []).append(rollout)
    counts = dict.fromkeys(("n", "mixed", "lose_gradient", "gain_gradient", "rows", "signs"), 0)
    for group in groups.values():
        again = [lines.get(rollout.key) for rollout in group]
        if len(group) == 1 or not any(again):
            continue
        old = _centred([rollout.score for rollout in group])
        new = _centred([b.score if b else a.score for a, b in zip(group, again, strict=True)])
        counts["n"] += 1
        counts["mixed"] += not all(again)
        counts["lose_gradient"] += any(old) and not any(new)
        counts["gain_gradient"] += any(new) and not any(old)
        counts["rows"] += len(group)
        counts["signs"] += sum(a * b < 0 for a, b in zip(old, new, strict=True))
    return counts


def _centred(scores: Sequence[float | None]) -> list[float]:
    """GRPO's advantages before the division: less the mean of the decided, and 0 where absent."""
    decided = [score for score in scores if score is not None]
    if len(set(decided)) < 2:
        return [0.0] * len(scores)
    mean = fmean(decided)
    return [0.0 if score is None else score - mean for score in scores]
