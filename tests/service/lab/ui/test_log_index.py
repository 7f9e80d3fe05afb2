from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reward_serve_lab.ui.log_index import MAX_LINE_BYTES, LogIndex, parsed
from reward_serve_lab.ui.log_query import PAGE_ROWS, Answer, Filters, ask, rest_of
from tests.service.lab.ui.logs import BEGAN, append, verdict


@pytest.fixture
def index(tmp_path: Path) -> Iterator[LogIndex]:
    folder = tmp_path / "log"
    folder.mkdir()
    index = LogIndex(folder)
    yield index
    index.close()


def read_all(index: LogIndex) -> None:
    while index.read_new():
        pass


def asked(index: LogIndex, page: int = 0, **filters: Any) -> Answer:
    read_all(index)
    return ask(index.path, Filters(**filters), page)


def test_the_newest_verdict_comes_first_and_pages_hold_fifty(index: LogIndex) -> None:
    append(index.folder / "verdicts-judge-1.jsonl", *map(verdict, range(120)))
    answer = asked(index)
    assert (answer.total, len(answer.rows)) == (120, PAGE_ROWS)
    assert answer.rows[0].time == BEGAN + 119
    assert [row.time for row in asked(index, page=2).rows] == [BEGAN + n for n in range(19, -1, -1)]


def test_what_is_appended_is_found_and_half_a_line_waits(index: LogIndex) -> None:
    path = index.folder / "verdicts-judge-1.jsonl"
    append(path, verdict(1))
    assert asked(index).total == 1
    with path.open("a") as lines:
        lines.write('{"status": "ok", ')
        lines.flush()
        assert asked(index).total == 1
        lines.write('"score": 1.0}\n')
    assert asked(index).total == 2
    assert index.progress.unreadable == 0


def test_a_rotated_log_is_read_once(index: LogIndex) -> None:
    path = index.folder / "verdicts-judge-1.jsonl"
    append(path, *map(verdict, range(10)))
    read_all(index)
    path.rename(path.with_name(path.name + ".1"))
    append(path, *map(verdict, range(10, 13)))
    assert asked(index).total == 13


def test_a_new_file_with_a_deleted_ones_number_is_read_from_its_start(index: LogIndex) -> None:
    path = index.folder / "verdicts-judge-1.jsonl"
    append(path, *map(verdict, range(10)))
    read_all(index)
    path.write_text("")  # the same inode, as a file system gives it to the next file
    append(path, *map(verdict, range(100, 103)))
    assert asked(index).total == 13


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        ({"status": "unparseable"}, 3),
        ({"source": "rule"}, 9),
        ({"rule": "marker"}, 10),
        ({"template": "final_answer"}, 21),
        ({"template": "other"}, 0),
        ({"lowest": 0.5}, 12),
        ({"highest": 0.5}, 6),
        ({"since": BEGAN + 15}, 6),
        ({"text": "has 2 LEFT"}, 1),
        ({"text": "%"}, 0),
        ({"text": "_"}, 0),
        ({"source": "rule", "lowest": 0.5, "text": "left"}, 6),
    ],
)
def test_filters(index: LogIndex, filters: dict[str, Any], count: int) -> None:
    append(index.folder / "verdicts-judge-1.jsonl", *map(verdict, range(21)))
    answer = asked(index, **filters)
    assert (answer.total, len(answer.rows)) == (count, count)


def test_the_charts_count_what_fits(index: LogIndex) -> None:
    append(index.folder / "verdicts-judge-1.jsonl", *map(verdict, range(21)))
    answer = asked(index)
    assert (answer.scores[0], answer.scores[-1], sum(answer.scores)) == (6, 12, 18)
    assert sum(map(len, answer.points.values())) == 18
    assert sum(sum(column.values()) for column in answer.statuses) == 21
    assert index.choices["status"] == {"ok", "unparseable"}


def test_an_empty_log_has_an_answer(index: LogIndex) -> None:
    assert asked(index) == Answer(statuses=[{}] * 48)


def test_the_rest_of_a_line_is_kept_for_its_row(index: LogIndex) -> None:
    append(index.folder / "verdicts-judge-1.jsonl", verdict(5))
    (row,) = asked(index).rows
    assert rest_of(index.path, row.id)["fingerprint"] == "0123456789abcdef"
    assert (row.reference, row.response) == ("5", "She has 5 left.\n#### 5")


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"not JSON",
        b"[]",
        b"{}",
        b'{"status": 3}',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_what_is_no_verdict_is_skipped(line: bytes) -> None:
    assert parsed(line) is None


@pytest.mark.parametrize(
    "line",
    [
        b'{"status": "ok", "response_tail": "\\ud800", "reference": ["1", "\\udfff"]}',
        b'{"status": "ok", "score": NaN, "time": 1e999, "response_characters": true}',
        b'{"status": "ok", "score": 1' + b"0" * 400 + b', "details": [], "template": {"a": 1}}',
    ],
)
def test_a_strange_verdict_is_kept_and_read(index: LogIndex, line: bytes) -> None:
    (index.folder / "verdicts-judge-1.jsonl").write_bytes(line + b"\n")
    assert asked(index).total == 1


def test_other_files_are_left_alone_and_unreadable_lines_are_counted(index: LogIndex) -> None:
    (index.folder / "notes.jsonl").write_text('{"status": "ok"}\n')
    (index.folder / "verdicts-judge-1.jsonl.bak").write_text('{"status": "ok"}\n')
    (index.folder / "verdicts-judge-1.jsonl").write_text("garbage\n")
    assert asked(index).total == 0
    assert index.progress.unreadable == 1


@pytest.mark.parametrize(
    ("size", "unreadable"),
    [
        (3 * MAX_LINE_BYTES // 4, 0),
        (MAX_LINE_BYTES + 1, 0),  # its newline is not counted
        (MAX_LINE_BYTES + 2, 1),
        (3 * MAX_LINE_BYTES, 1),
    ],
)
def test_a_long_line_is_read_whole_or_counted_once(
    index: LogIndex, size: int, unreadable: int
) -> None:
    long = b'{"status": "ok", "pad": "'
    long += b"x" * (size - len(long) - 3) + b'"}\n'
    short = b'{"status": "ok"}\n'
    (index.folder / "verdicts-judge-1.jsonl").write_bytes(short + long + short)
    assert asked(index).total == 3 - unreadable
    assert index.progress.unreadable == unreadable


def test_the_rest_of_a_long_line_is_skipped_when_it_is_written_later(index: LogIndex) -> None:
    path = index.folder / "verdicts-judge-1.jsonl"
    path.write_bytes(b"[" * MAX_LINE_BYTES)
    read_all(index)
    with path.open("ab") as lines:
        lines.write(b"[[")
        lines.flush()
        read_all(index)
        lines.write(b']\n{"status": "ok"}\n')
    assert (asked(index).total, index.progress.unreadable) == (1, 1)


def test_the_thread_follows_the_folder_and_ends(index: LogIndex) -> None:
    append(index.folder / "verdicts-judge-1.jsonl", verdict(1))
    index.start()
    for _ in range(200):
        if index.progress.rows:
            break
        index._stop.wait(0.05)
    assert index.progress.rows == 1
