"""The workbench over the real service: the bundled judge on Ray Serve and vLLM."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.service.lab.ui.running import FLAGS, chromium, workbench

expect.set_options(timeout=90_000)

RIGHT_IN_WORDS = (
    "She sells thirty loaves for four each, so she takes in one hundred and twenty dollars."
)
LONG = "She counts the loaves again and again.\n" * 60 + RIGHT_IN_WORDS


@pytest.mark.slow
def test_ask_shows_what_the_judge_saw_and_thought(url: str, tmp_path: Path) -> None:
    path = chromium()
    with workbench(url, log=tmp_path) as running, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(running.url)
        page.locator("h1").wait_for()
        page.wait_for_function("window.did_handshake")
        page.get_by_role("link", name="Ask", exact=True).click()
        page.get_by_label("Reference").fill("120")
        page.get_by_label("Response").fill(LONG)
        page.get_by_role("button", name="Ask", exact=True).click()
        card = page.locator(".verdict")
        expect(card.get_by_text("decided by judge")).to_be_visible()
        expect(card.locator(".bars dd")).to_have_count(2)
        expect(card.locator(".text-box .cut").first).to_be_visible()
        expect(card.locator(".text-box .field-part").first).to_be_visible()
        page.get_by_role("button", name="Attack it").click()
        expect(page.get_by_text("wrong responses")).to_be_visible()
        browser.close()
