"""What all pages share: the frame, the theme, and what is kept between them."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from tests.long.lab.ui.conftest import TIMEOUT_MS, Open
from tests.long.lab.ui.using import fits, go_by_keyboard
from tests.service.lab.ui.logs import append, verdict
from tests.service.lab.ui.running import Running

expect.set_options(timeout=TIMEOUT_MS)

PAGES = {"/": "Ask", "/group": "Group", "/verdicts": "Verdicts", "/health": "Health"}


def test_every_page_is_reached_by_mouse_and_fits(
    open_look: Open, running: Running, log: Path
) -> None:
    append(log / "verdicts-judge-1.jsonl", *map(verdict, range(5)))
    page = open_look(running, "/health")
    for path, title in PAGES.items():
        link = page.get_by_role("link", name=title, exact=True)
        link.click()
        expect(page.get_by_role("heading", name=title, level=1)).to_be_visible()
        page.wait_for_url(running.base + path)
        expect(link).to_have_attribute("aria-current", "page")
        page.wait_for_timeout(500)
        assert fits(page), title
        expect(page.get_by_role("main")).to_have_count(1)


def test_every_page_is_reached_by_keyboard(open_look: Open, running: Running) -> None:
    page = open_look(running, "/health")
    for path, title in PAGES.items():
        go_by_keyboard(page, title)
        page.wait_for_url(running.base + path)


def test_what_was_typed_is_there_when_another_page_was_looked_at(
    open_page: Open, running: Running
) -> None:
    page = open_page(running)
    page.get_by_label("Response").fill("kept")
    page.get_by_role("link", name="Health").click()
    expect(page.get_by_role("heading", name="Health")).to_be_visible()
    page.go_back()
    expect(page.get_by_label("Response")).to_have_value("kept")
