"""Verdicts: the log in a table, by mouse and by keyboard, wide and narrow, light and dark."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from reward_serve_lab.ui.log_query import MAX_CHARTED
from tests.long.lab.ui.conftest import TIMEOUT_MS, Open
from tests.long.lab.ui.using import choose_by_keyboard, choose_by_mouse, focus
from tests.service.lab.ui.logs import append, verdict
from tests.service.lab.ui.running import Running

expect.set_options(timeout=TIMEOUT_MS)

ROWS = "table.rows tbody tr"


def test_verdicts_by_mouse(
    open_look: Open, running: Running, log: Path, request: pytest.FixtureRequest
) -> None:
    mine = request.node.callspec.id
    rows = [verdict(n, template=mine, response_tail=f"Mouse {n}.") for n in range(60)]
    append(log / f"verdicts-mouse-{mine}.jsonl", *rows)
    page = open_look(running, "/verdicts")
    shown = page.locator(ROWS)
    choose_by_mouse(page, "template", mine)
    expect(page.get_by_text("page 1 of 2 · 60 verdicts")).to_be_visible()
    page.get_by_role("button", name="Older").click()
    expect(shown).to_have_count(10)
    page.get_by_role("button", name="Newer").click()
    expect(shown).to_have_count(50)
    page.get_by_label("text").fill("mouse 5.")
    expect(shown).to_have_count(1)
    shown.first.click()
    expect(page.get_by_role("dialog")).to_contain_text("Mouse 5.")
    page.get_by_role("button", name="Open in Ask").click()
    expect(page.get_by_label("Response")).to_have_value("Mouse 5.")
    expect(page.get_by_label("Reference")).to_have_value("5")


def test_verdicts_by_keyboard(
    open_look: Open, running: Running, log: Path, request: pytest.FixtureRequest
) -> None:
    mine = request.node.callspec.id
    rows = [verdict(n, template=f"keys-{mine}", response_tail=f"Key {n}.") for n in range(60)]
    append(log / f"verdicts-keys-{mine}.jsonl", *rows)
    page = open_look(running, "/verdicts")
    shown = page.locator(ROWS)
    choose_by_keyboard(page, "template", f"keys-{mine}")
    expect(page.get_by_text("page 1 of 2 · 60 verdicts")).to_be_visible()
    focus(page, page.get_by_role("button", name="Older"))
    page.keyboard.press("Enter")
    expect(shown).to_have_count(10)
    focus(page, page.get_by_label("text"))
    page.keyboard.type("key 1")
    expect(shown).to_have_count(11)
    focus(page, shown.first)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_contain_text("Key 18.")
    focus(page, page.get_by_role("button", name="Open in Ask"))
    page.keyboard.press("Enter")
    expect(page.get_by_label("Response")).to_have_value("Key 18.")


FILTERED = [
    ("status", "unparseable", 3),
    ("decided by", "judge", 9),
    ("rule", "marker", 10),
]


def test_each_filter_leaves_what_fits_it(open_page: Open, running: Running, log: Path) -> None:
    now = time.time()
    rows = [verdict(n, template="filtered", time=now - n) for n in range(21)]
    append(log / "verdicts-judge-1.jsonl", *rows, {**rows[0], "time": now - 7200})
    page = open_page(running, "/verdicts")
    shown = page.locator(ROWS)
    choose_by_mouse(page, "template", "filtered")
    expect(shown).to_have_count(22)
    choose_by_mouse(page, "time", "last hour")
    expect(shown).to_have_count(21)
    for label, value, count in FILTERED:
        choose_by_mouse(page, label, value)
        expect(shown).to_have_count(count)
        choose_by_mouse(page, label, "any")
        expect(shown).to_have_count(21)
    page.get_by_label("score from").fill("0.5")
    expect(shown).to_have_count(12)
    page.get_by_label("score from").fill("")
    page.get_by_label("to", exact=True).fill("0.5")
    expect(shown).to_have_count(6)


def test_the_charts_show_scores_lengths_and_statuses(
    open_page: Open, running: Running, log: Path
) -> None:
    append(log / "verdicts-judge-2.jsonl", *(verdict(n, template="drawn") for n in range(21)))
    page = open_page(running, "/verdicts")
    choose_by_mouse(page, "template", "drawn")
    expect(page.locator(ROWS)).to_have_count(21)
    assert series(page, "Scores")[0]["data"] == [6, *[None] * 18, 12]
    by_source = {each["name"]: each["data"] for each in series(page, "Score against length")}
    assert len(by_source) == 2
    assert len(by_source["rule"]) == 9
    statuses = {each["name"]: each["data"] for each in series(page, "Statuses over time")}
    assert sum(map(bool, statuses["unparseable"])) == 3
    assert sum(map(bool, statuses["ok"])) == 18


def series(page: Page, title: str) -> list[dict[str, Any]]:
    """The series that a chart draws."""
    chart = page.locator("figure.chart").filter(has_text=title).locator(".nicegui-echart")
    expect(chart.locator("svg path").first).to_be_attached()
    drawn: list[dict[str, Any]] = chart.evaluate(
        "c => getElement(c.id.slice(1)).chart.getOption().series"
    )
    return drawn


def test_the_table_follows_the_log_until_it_is_stopped(
    open_page: Open, running: Running, log: Path
) -> None:
    path = log / "verdicts-judge-3.jsonl"
    append(path, verdict(1, template="live"))
    page = open_page(running, "/verdicts")
    rows = page.locator(ROWS)
    choose_by_mouse(page, "template", "live")
    expect(rows).to_have_count(1)
    append(path, verdict(1000, template="live", response_tail="This one is new."))
    expect(rows.first).to_contain_text("This one is new.")
    page.get_by_role("switch", name="Follow").click()
    append(path, verdict(1001, template="live"))
    page.wait_for_timeout(3000)
    expect(rows).to_have_count(2)
    page.get_by_role("switch", name="Follow").click()
    expect(rows).to_have_count(3)


def test_a_verdict_leaves_the_last_ten_minutes_as_they_pass(
    open_page: Open, running: Running, log: Path
) -> None:
    page = open_page(running, "/verdicts")
    choose_by_mouse(page, "time", "last 10 min")
    leaving = verdict(1, template="leaving", time=time.time() - 600 + 8)
    append(log / "verdicts-judge-4.jsonl", leaving)
    choose_by_mouse(page, "template", "leaving")
    expect(page.locator(ROWS)).to_have_count(1)
    expect(page.locator(ROWS)).to_have_count(0)


def test_a_log_that_cannot_be_read_is_a_message(
    open_page: Open, running: Running, log: Path
) -> None:
    page = open_page(running, "/verdicts")
    moved = log.rename(log.with_name("elsewhere"))
    try:
        expect(page.get_by_text("The log cannot be read")).to_be_visible()
    finally:
        moved.rename(log)
    expect(page.get_by_text("The log cannot be read")).to_have_count(0)


MANY = [100_000, pytest.param(1_000_000, marks=pytest.mark.timeout(3600))]
NAVIGATION_S = 10.0


@pytest.mark.parametrize("count", MANY)
def test_a_large_log_does_not_freeze_the_page(
    open_page: Open, running: Running, log: Path, count: int
) -> None:
    name = f"many-{count}"
    block = f"{json.dumps(verdict(7, template=name, response_tail='x' * 100))}\n" * 10_000
    with (log / f"verdicts-{name}.jsonl").open("w") as lines:
        for _ in range(count // 10_000):
            lines.write(block)
    page = open_page(running, "/verdicts")
    status = page.locator(".log-status")
    expect(status).to_contain_text("reading")
    slowest = 0.0
    while "reading" in status.inner_text():
        slowest = max(slowest, to_health_and_back(page))
        expect(status).to_contain_text("verdicts read")
    assert 0 < slowest < NAVIGATION_S
    choose_by_mouse(page, "template", name)
    expect(page.get_by_text(f"· {count:,} verdicts")).to_be_visible()
    expect(page.get_by_text(f"the charts count the newest {MAX_CHARTED:,}")).to_have_count(
        int(count > MAX_CHARTED)
    )
    assert to_health_and_back(page) < NAVIGATION_S


def to_health_and_back(page: Page) -> float:
    began = time.monotonic()
    for title in ("Health", "Verdicts"):
        page.get_by_role("link", name=title).click()
        page.get_by_role("heading", name=title, level=1).wait_for()
    return time.monotonic() - began
