"""Which folder has which tier of tests, and what a unit test may not do.

A unit test needs no Ray, no vLLM, no torch, no other process and no network. What its file imports
is checked as it is collected, what it starts and connects to while it runs.
"""

import os
import sys
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from xdist.scheduler.loadfile import LoadFileScheduling  # type: ignore[import-untyped]

HEAVY = ("ray", "vllm", "torch")
ROOT = Path(__file__).parents[1]

UNIT = "tests/unit"
SERVICE = "tests/service"
CLUSTER = "tests/service/integration"
"""Shares one Ray cluster, and so runs in one process."""

PAGES = "tests/long/lab"
"""Needs a browser, and no cluster."""

LONG = ("tests/long", "examples/tests", "loadtests/tests")
"""Only `make test-all` runs these, except ``SMOKE``."""

SMOKE = (
    "examples/tests/grpo/test_results.py",
    "examples/tests/gsm8k/test_prepare_dataset.py",
    "loadtests/tests/test_chaos.py",
    "loadtests/tests/test_outcomes.py",
    "loadtests/tests/test_figures.py",
)
"""One quick file of each area."""


_sampled = False


def share(whole: int, sample: int) -> int:
    """How many cases of a long table to run: all, or with ``-m "not slow"`` a sample."""
    return sample if _sampled else whole


def pytest_configure(config: pytest.Config) -> None:
    """Make up fewer examples in `make test`, and let no console depend on who started it."""
    global _sampled
    for name in ("COLUMNS", "LINES"):  # which readline sets for the processes of pytest-xdist
        os.environ.pop(name, None)
    _sampled = config.option.markexpr == "not slow"
    hypothesis.settings.load_profile(
        os.environ.get("HYPOTHESIS_PROFILE", "sample" if _sampled else "fixed")
    )


def _is_in(path: Path, *places: str) -> bool:
    return any(path.is_relative_to(ROOT / place) for place in places)


def is_unit(path: Path) -> bool:
    """Whether the file at ``path`` has unit tests."""
    return _is_in(path, UNIT)


def shares_cluster(path: Path) -> bool:
    """Whether the file's tests share the cluster, or start one of their own."""
    return _is_in(path, CLUSTER, "tests/long") and not _is_in(path, PAGES)


def is_long(path: Path) -> bool:
    """Whether `make test` leaves the file at ``path`` out."""
    return _is_in(path, *LONG) and not _is_in(path, *SMOKE)


class Scheduling(LoadFileScheduling):  # type: ignore[misc]
    """A file runs in one process; so do all files that share the cluster, or start their own."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "cluster" if shares_cluster(ROOT / file) else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling:
    """Give the cluster's tests, which take longest, to the first process at once."""
    config.option.loadscopereorder = False
    return Scheduling(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With one process the cluster's tests come last, with two first; those that kill end them."""
    has_companion = hasattr(config, "workerinput")

    def place(item: pytest.Item) -> tuple[bool, bool]:
        kills = item.get_closest_marker("kills") is not None
        return shares_cluster(item.path) != has_companion, kills

    items.sort(key=place)
    for item in items:
        if is_long(item.path):
            item.add_marker(pytest.mark.slow)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Do not even import what `make test` leaves out."""
    leaves_out = _sampled and collection_path.is_file()
    return True if leaves_out and is_long(collection_path) else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print a line for each reason to skip tests."""
    skipped = terminalreporter.stats.get("skipped", [])
    for reason, count in Counter(report.longrepr[2] for report in skipped).items():
        terminalreporter.write_line(f"{count} {reason[0].lower()}{reason[1:]}")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Fail a file of unit tests that imports what they do without."""
    before = set(sys.modules)
    report = yield
    imported = [name for name in HEAVY if name in sys.modules and name not in before]
    if imported and isinstance(collector, pytest.Module) and is_unit(collector.path):
        report.outcome = "failed"
        report.longrepr = (
            f"{collector.nodeid} imports {', '.join(imported)}: import it where it is needed, or "
            f"move the file to {SERVICE}"
        )
    return report


_running: str | None = None
_faults: list[str] = []


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if _running is None:
        return
    if event in ("subprocess.Popen", "os.fork", "os.posix_spawn"):
        _faults.append(f"started a process: {event} {arguments[:1]}")
    elif event == "import" and arguments[0] in HEAVY:
        _faults.append(f"imported {arguments[0]}")
    elif event == "socket.connect":
        address = arguments[1]
        if isinstance(address, tuple) and address[0] not in ("127.0.0.1", "::1", "localhost"):
            _faults.append(f"connected to {address}")


sys.addaudithook(_watch)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a unit test that starts a process, leaves this machine or imports what is heavy."""
    global _running
    _running = item.nodeid if is_unit(item.path) else None
    _faults.clear()
    try:
        result = yield
    finally:
        _running = None
    assert not _faults, f"a unit test {'; '.join(dict.fromkeys(_faults))}"
    return result
