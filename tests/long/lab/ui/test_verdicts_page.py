"""Verdicts: the log in a table, wide and narrow, light and dark."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.long.lab.ui.conftest import Open, choose_by_mouse
from tests.service.lab.ui.logs import append, verdict
from tests.service.lab.ui.running import Running

ROWS = "table.rows tbody tr"


def test_verdicts_are_turned_searched_and_opened(
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


def test_filters_and_charts(open_page: Open, running: Running, log: Path) -> None:
    now = time.time()
    rows = [verdict(n, template="filtered", time=now - n) for n in range(21)]
    append(log / "verdicts-judge-1.jsonl", *rows, {**rows[0], "time": now - 7200})
    page = open_page(running, "/verdicts")
    shown = page.locator(ROWS)
    choose_by_mouse(page, "template", "filtered")
    expect(shown).to_have_count(22)
    choose_by_mouse(page, "time", "last hour")
    expect(shown).to_have_count(21)
    for title in ("Scores", "Score against length", "Statuses over time"):
        chart = page.locator("figure.chart").filter(has_text=title)
        expect(chart.locator(".nicegui-echart svg path").first).to_be_attached()
    for label, value, count in (("status", "unparseable", 3), ("decided by", "judge", 9)):
        choose_by_mouse(page, label, value)
        expect(shown).to_have_count(count)
        choose_by_mouse(page, label, "any")
    page.get_by_label("score from").fill("0.5")
    expect(shown).to_have_count(12)


def test_the_table_follows_the_log_and_names_what_stops_it(
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
    moved = log.rename(log.with_name("elsewhere"))
    try:
        expect(page.get_by_text("The log cannot be read")).to_be_visible()
    finally:
        moved.rename(log)
    expect(page.get_by_text("The log cannot be read")).to_have_count(0)


def test_a_large_log_does_not_freeze_the_page(open_page: Open, running: Running, log: Path) -> None:
    block = f"{json.dumps(verdict(7, template='many', response_tail='x' * 100))}\n" * 10_000
    with (log / "verdicts-many.jsonl").open("w") as lines:
        for _ in range(30):
            lines.write(block)
    page = open_page(running, "/verdicts")
    expect(page.locator(".log-status")).to_contain_text("reading")
    for title in ("Health", "Verdicts"):
        page.get_by_role("link", name=title).click()
        page.get_by_role("heading", name=title, level=1).wait_for()
    choose_by_mouse(page, "template", "many")
    expect(page.get_by_text("· 300,000 verdicts; the charts count")).to_be_visible()
