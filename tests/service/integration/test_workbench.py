"""The workbench over the real service: the bundled judge on Ray Serve and vLLM."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from reward_serve.schema import MAX_ITEM_BYTES
from tests.service.lab.ui.running import FLAGS, Running, chromium, workbench

expect.set_options(timeout=90_000)
pytestmark = pytest.mark.slow

RIGHT_IN_WORDS = (
    "She sells thirty loaves for four each, so she takes in one hundred and twenty dollars."
)
LONG = "She counts the loaves again and again.\n" * 60 + RIGHT_IN_WORDS


@pytest.fixture(scope="module")
def page(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A page of a workbench over the judge."""
    path = chromium()
    with workbench(url, log=tmp_path_factory.mktemp("log")) as running, sync_playwright() as driver:
        browser: Browser = driver.chromium.launch(executable_path=path, args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        _go(page, running)
        yield page
        browser.close()


def _go(page: Page, running: Running) -> None:
    page.goto(running.url)
    page.locator("h1").wait_for()
    page.wait_for_function("window.did_handshake")


def test_ask_shows_what_the_judge_saw_and_thought(page: Page) -> None:
    page.get_by_role("link", name="Ask", exact=True).click()
    page.get_by_label("Reference").fill("120")
    page.get_by_label("Response").fill(LONG)
    page.get_by_role("button", name="Ask", exact=True).click()
    card = page.locator(".verdict")
    expect(card.get_by_text("decided by judge")).to_be_visible()
    expect(card.locator(".bars dd")).to_have_count(2)
    expect(card.locator(".text-box .cut").first).to_be_visible()
    expect(card.locator(".text-box .field-part").first).to_be_visible()
    expect(card.get_by_text("characters cut")).to_be_visible()
    expect(card.get_by_text("prompt tokens")).to_be_visible()


def test_the_longest_item_is_pasted_and_judged(page: Page) -> None:
    page.get_by_role("link", name="Ask", exact=True).click()
    page.get_by_label("Reference").fill("120")
    room = MAX_ITEM_BYTES - len("120") - len(RIGHT_IN_WORDS)
    long = "So. " * (room // 4) + " " * (room % 4) + RIGHT_IN_WORDS
    page.get_by_label("Response").fill(long)
    page.get_by_role("button", name="Ask", exact=True).click()
    card = page.locator(".verdict")
    expect(card.get_by_text("decided by judge")).to_be_visible()
    expect(card.locator(".text-box", has_text=RIGHT_IN_WORDS).first).to_be_visible()
    page.get_by_label("Response").fill(long + ".")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(card.locator(".message")).to_contain_text(f"{MAX_ITEM_BYTES}")


def test_group_compares_rule_and_judge(page: Page) -> None:
    page.get_by_role("link", name="Group").click()
    page.get_by_role("button", name="Example").click()
    page.get_by_role("button", name="Score the group").click()
    rows = page.locator("table.rows tbody tr")
    expect(rows).to_have_count(4)
    expect(rows.nth(2)).to_contain_text("abstain")
    expect(rows.nth(2)).to_contain_text("1 (")


def test_the_suite_attacks_the_judge_and_health_names_it(page: Page) -> None:
    page.get_by_role("link", name="Ask", exact=True).click()
    page.get_by_label("Reference").fill("120")
    page.get_by_role("button", name="Attack it").click()
    expect(page.get_by_text("wrong responses")).to_be_visible()
    page.get_by_role("link", name="Health").click()
    expect(page.locator(".card")).to_contain_text("judge")
    expect(page.locator(".card")).to_contain_text("hits")
