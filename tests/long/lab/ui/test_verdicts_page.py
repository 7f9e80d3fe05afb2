"""Verdicts: the log in a table, wide and narrow, light and dark."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.long.lab.ui.conftest import Open, choose_by_mouse
from tests.service.lab.ui.logs import append, verdict
from tests.service.lab.ui.running import Running

ROWS = "table.rows tbody tr"


def test_verdicts_are_filtered_drawn_turned_searched_and_opened(
    open_look: Open, running: Running, log: Path, request: pytest.FixtureRequest
) -> None:
    mine = request.node.callspec.id
    rows = [verdict(n, template=mine, response_tail=f"Mouse {n}.") for n in range(60)]
    append(log / f"verdicts-mouse-{mine}.jsonl", *rows)
    page = open_look(running, "/verdicts")
    listed = page.locator(ROWS)
    choose_by_mouse(page, "template", mine)
    expect(page.get_by_text("page 1 of 2 · 60 verdicts")).to_be_visible()
    for title in ("Scores", "Score against length", "Statuses over time"):
        chart = page.locator("figure.chart").filter(has_text=title)
        expect(chart.locator(".nicegui-echart svg path").first).to_be_attached()
    page.get_by_role("button", name="Older").click()
    expect(listed).to_have_count(10)
    page.get_by_role("button", name="Newer").click()
    expect(listed).to_have_count(50)
    for label, value, count in (("status", "unparseable", 8), ("decided by", "judge", 26)):
        choose_by_mouse(page, label, value)
        expect(listed).to_have_count(count)
        choose_by_mouse(page, label, "any")
    page.get_by_label("score from").fill("0.5")
    expect(listed).to_have_count(35)
    page.get_by_label("text").fill("mouse 5.")
    expect(listed).to_have_count(1)
    listed.first.click()
    expect(page.get_by_role("dialog")).to_contain_text("Mouse 5.")
    page.get_by_role("button", name="Open in Ask").click()
    expect(page.get_by_label("Response")).to_have_value("Mouse 5.")
    expect(page.get_by_label("Reference")).to_have_value("5")


def test_the_table_follows_or_says_why_not(open_page: Open, running: Running, log: Path) -> None:
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
