from pathlib import Path
from typing import Any

import pytest

from reward_serve_lab.logs.query import PAGE_ROWS, Answer, Filters, ask, choices, rest_of
from reward_serve_lab.logs.table import VerdictTable
from tests.rows import rows
from tests.service.lab.ui.logs import BEGAN, append, verdict


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "verdicts-judge-1.jsonl"


def asked(table: VerdictTable, page: int = 0, **filters: Any) -> Answer:
    table.read_all()
    return ask(table, Filters(**filters), page)


def test_what_is_appended_is_found_and_half_a_line_waits(table: VerdictTable, log: Path) -> None:
    append(log, verdict(1))
    assert asked(table).total == 1
    with log.open("a") as lines:
        lines.write('{"status": "ok", ')
        lines.flush()
        assert asked(table).total == 1
        lines.write('"score": 1.0}\n')
    assert asked(table).total == 2
    assert table.progress.unreadable == 0


def test_a_rotated_log_is_read_once_and_a_new_file_whole(table: VerdictTable, log: Path) -> None:
    append(log, *map(verdict, range(10)))
    assert asked(table).total == 10
    log.rename(log.with_name(log.name + ".1"))
    append(log, *map(verdict, range(10, 13)))
    assert asked(table).total == 13
    log.write_text("")  # the same inode, as a file system gives it to the next file
    append(log, *map(verdict, range(100, 102)))
    assert asked(table).total == 15


@pytest.mark.parametrize(("filters", "count"), rows(__file__, "filters"))
def test_filters(table: VerdictTable, log: Path, filters: dict[str, Any], count: int) -> None:
    append(log, *map(verdict, range(21)))
    answer = asked(table, **filters)
    assert (answer.total, len(answer.rows)) == (count, count)


def test_a_page_has_fifty_and_charts_count_every_verdict(table: VerdictTable, log: Path) -> None:
    assert asked(table) == Answer(statuses=[{}] * 48)
    append(log, *map(verdict, range(120)))
    answer = asked(table)
    assert (answer.total, len(answer.rows), answer.rows[0].time) == (120, PAGE_ROWS, BEGAN + 119)
    assert (answer.scores[0], answer.scores[-1], sum(answer.scores)) == (34, 69, 103)
    assert sum(map(len, answer.points.values())) == 103
    assert sum(sum(column.values()) for column in answer.statuses) == 120
    assert choices(table)["status"] == ["ok", "unparseable"]
    oldest = asked(table, page=2).rows
    assert [row.time for row in oldest] == [BEGAN + n for n in range(19, -1, -1)]
    row = oldest[14]
    assert (row.reference, row.response) == ("5", "She has 5 left.\n#### 5")
    assert rest_of(table, row.id)["fingerprint"] == "0123456789abcdef"


@pytest.mark.parametrize(
    ("line", "verdicts", "unreadable"),
    [
        (b"", 0, 0),
        (b"not JSON", 0, 1),
        (b'{"status": 3}', 0, 1),
        (b"[" * 100_000, 0, 1),
        (b'{"status": "ok", "pad": "' + b"x" * 3 * 2**20 + b'"}', 1, 0),
        (b'{"status": "ok", "response_tail": "\\ud800", "reference": ["1", "\\udfff"]}', 1, 0),
        (b'{"status": "ok", "response_tail": "\\ud83d\\ude00", "reference": ["1"]}', 1, 0),
        (b'{"status": "ok", "score": 1, "time": 1e999, "response_characters": true}', 1, 0),
        (b'{"status": "ok", "score": NaN}', 1, 0),
        (b'{"status": "ok", "response_tail": "caf\xff"}', 0, 1),
        (b'{"status": "ok", "score": 1' + b"0" * 400 + b', "details": [], "model": {}}', 1, 0),
    ],
)
def test_a_strange_verdict_is_read_and_what_is_none_is_counted(
    table: VerdictTable, log: Path, line: bytes, verdicts: int, unreadable: int
) -> None:
    log.write_bytes(b'{"status": "ok"}\n' + line + b'\n{"status": "ok"}\n')
    log.with_name("notes.jsonl").write_text('{"status": "ok"}\n')
    assert (asked(table).total, table.progress.unreadable) == (2 + verdicts, unreadable)


def audit(number: int, by_rules: float, by_model: float) -> dict[str, Any]:
    line = {"status": "audit", "by_rules": by_rules, "by_model": by_model, "score": None}
    return {**verdict(number), **line, "source": "rule" if number % 2 else "judge"}


def test_logs_of_several_nodes_and_rescored_files_are_one_table(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("a", "b")]
    for number, folder in enumerate(folders):
        folder.mkdir()
        keys = {"run": f"run-{number}", "step": "3", "sample": "7-1"}
        append(folder / "verdicts-judge-1.jsonl", verdict(number, **keys))
        append(folder / "verdicts-judge-1.jsonl", audit(number, 1.0, 0.25))
    before = {"score": 1.0, "status": "ok", "fingerprint": "x"}
    again = [verdict(5, before=before, score=0.0, by="other"), verdict(6, before=before)]
    append(folders[1] / "rescored-all.jsonl", *again)
    table = VerdictTable(folders)
    table.read_all()
    verdicts = 'SELECT run, step, sample, "group" FROM verdicts ORDER BY run'
    assert table.rows(verdicts) == [(f"run-{n}", 3.0, "7-1", "problem-0") for n in range(2)]
    audits = 'SELECT source, rewarded, other, "by", agreed FROM audits ORDER BY time'
    assert table.rows(audits) == [
        ("judge", 0.25, 1.0, "rules", False),
        ("rule", 1.0, 0.25, "model", False),
        ("rule", 1.0, 0.0, "other", False),
    ]
    table.close()
