import logging
from pathlib import Path

import pytest

from reward_serve.lines import LineFile

logger = logging.getLogger("reward_serve.test_lines")


def test_a_full_disk_is_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "lines"
    file = LineFile(path, logger)
    file.create()
    for _ in range(2):
        path.unlink()
        path.symlink_to("/dev/full")
        file.append("lost")
        file.append("lost")
        path.unlink()
        file.append("kept")

    assert path.read_text() == "kept\n"
    warning = f"{path}: No space left on device; its lines are lost until it can be written again"
    assert [record.getMessage() for record in caplog.records] == [warning] * 2
