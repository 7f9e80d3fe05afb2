from __future__ import annotations

import signal
from pathlib import Path

import pytest

from loadtests.load import __main__ as loadtest


def test_the_web_page_binds_loopback_and_result_files_are_written_either_way() -> None:
    headless, web = (loadtest.command_line(Path("out"), web) for web in (False, True))

    assert "--headless" in headless
    assert "--headless" not in web
    assert web[web.index("--web-host") + 1] == "127.0.0.1"
    for line in (headless, web):
        assert {"out/report.html", "out/locust", "out/summary.json"} < set(line)


def test_locusts_exit_code_is_returned_and_signal_handlers_are_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    monkeypatch.setattr(loadtest, "_LOCUSTFILE", tmp_path / "none.py")
    monkeypatch.setenv("PYTHONWARNINGS", "ignore")

    assert loadtest.run([]) == 1
    assert handlers == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
