from __future__ import annotations

import logging
import os
import resource
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from reward_serve.lines import LineFile

logger = logging.getLogger("reward_serve.test_lines")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_only_the_owner_can_read_a_file_and_a_folder_that_it_creates(tmp_path: Path) -> None:
    file = LineFile(tmp_path / "new" / "lines", logger, max_bytes=4)
    file.append("one")
    file.append("two")

    assert mode(tmp_path / "new") == 0o700
    assert mode(tmp_path / "new" / "lines") == mode(tmp_path / "new" / "lines.1") == 0o600


def test_a_folder_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir(mode=0o755)
    LineFile(tmp_path / "shared" / "lines", logger).create()
    assert mode(tmp_path / "shared") == 0o755


def test_a_full_file_is_renamed_in_place_of_the_one_before_it(tmp_path: Path) -> None:
    file = LineFile(tmp_path / "lines", logger, max_bytes=8)
    for line in ("a", "b", "c", "d", "e", "longer than all", "f"):
        file.append(line)

    assert (tmp_path / "lines").read_text() == "f\n"
    assert (tmp_path / "lines.1").read_text() == "longer than all\n"


def test_a_full_disk_is_one_warning_and_its_end_another(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "lines"
    file = LineFile(path, logger)
    for times in (3, 2):
        path.unlink(missing_ok=True)
        path.symlink_to("/dev/full")
        for _ in range(times):
            file.append("lost")
        path.unlink()
        file.append("kept")
        file.append("kept")

    assert path.read_text() == "kept\nkept\n"
    assert [record.getMessage() for record in caplog.records] == [
        f"{path}: No space left on device; its lines are lost until it can be written again",
        f"{path} is written again; 3 lines were lost",
        f"{path}: No space left on device; its lines are lost until it can be written again",
        f"{path} is written again; 2 lines were lost",
    ]
    assert capsys.readouterr().err == ""


def test_a_line_that_a_full_disk_cut_off_does_not_spoil_the_next(tmp_path: Path) -> None:
    file = LineFile(tmp_path / "lines", logger)
    file.append("first")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))  # a write is cut short, as by a full disk
    file.append("second")
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    file.append("third")

    assert (tmp_path / "lines").read_text() == "first\nseco\nthird\n"
