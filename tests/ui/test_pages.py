"""Each page in a real browser, by mouse and by keyboard, wide and narrow, light and dark."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from reward_serve.ui.samples import EXAMPLE
from tests.ui.conftest import TIMEOUT_MS, Open
from tests.ui.logs import append, verdict
from tests.ui.running import Running

expect.set_options(timeout=TIMEOUT_MS)

LOOKS = [(1280, "light"), (1280, "dark"), (400, "light"), (400, "dark")]
PAGES = {"/": "Ask", "/group": "Group", "/verdicts": "Verdicts", "/health": "Health"}
RESPONSE = "9 * 2 = 18, so\n#### 18"


def focus(page: Page, role: str, name: str) -> None:
    """Press Tab until what has this role and name has the focus."""
    wanted = page.get_by_role(role, name=name, exact=True).first  # type: ignore[arg-type]
    wanted.wait_for()
    for _ in range(60):
        page.keyboard.press("Tab")
        if wanted.evaluate("element => element === document.activeElement"):
            return
    raise AssertionError(f"no Tab reaches {role} {name!r}")


def fits(page: Page) -> bool:
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    return bool(page.evaluate(wide) <= 0)


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_every_page_fits_its_window_in_light_and_dark(
    open_page: Open, running: Running, log: Path, width: int, scheme: Any
) -> None:
    append(log / "verdicts-judge-1.jsonl", *map(verdict, range(5)))
    page = open_page(running, width=width, color_scheme=scheme)
    for path, title in PAGES.items():
        page.get_by_role("link", name=title, exact=True).click()
        expect(page.get_by_role("heading", name=title, level=1)).to_be_visible()
        page.wait_for_url(running.base + path)
        expect(page.get_by_role("link", name=title, exact=True)).to_have_attribute(
            "aria-current", "page"
        )
        page.wait_for_timeout(500)
        assert fits(page), title
    color = page.evaluate("getComputedStyle(document.body).backgroundColor")
    lightness = sum(map(int, color.strip("rgb()").split(",")))
    assert (lightness > 600) == (scheme == "light")


@pytest.mark.parametrize("width", [1280, 400])
def test_ask_by_mouse(open_page: Open, running: Running, width: int) -> None:
    page = open_page(running, width=width)
    page.get_by_label("Reference").fill("18")
    page.get_by_label("Response").fill(RESPONSE)
    page.get_by_role("button", name="Ask", exact=True).click()
    card = page.locator(".verdict")
    expect(card.locator(".score.big")).to_have_text("1")
    expect(card.get_by_text("decided by rule")).to_be_visible()
    expect(card.locator(".text-box .match")).to_have_text("#### 18")
    expect(card.get_by_text("total")).to_be_visible()
    assert fits(page)
    page.get_by_role("button", name="Copy as curl").click()
    page.wait_for_function("navigator.clipboard.readText().then(text => text.includes('curl -s'))")


def test_ask_by_keyboard(open_page: Open, running: Running) -> None:
    page = open_page(running)
    focus(page, "textbox", "Reference")
    page.keyboard.type("18")
    focus(page, "textbox", "Response")
    page.keyboard.type("It is 19.\n#### 19")
    page.wait_for_timeout(500)
    page.keyboard.press("Control+Enter")
    expect(page.locator(".verdict .score.big")).to_have_text("0")
    focus(page, "button", "Copy as Python")


def test_models_stand_side_by_side(open_page: Open, running: Running) -> None:
    page = open_page(running)
    page.get_by_label("Reference").fill("18")
    page.get_by_label("Response").fill(RESPONSE)
    page.get_by_role("combobox", name="modes").click()
    for mode in ("label", "generate"):
        page.get_by_role("option", name=mode).click()
        expect(page.locator(".q-chip", has_text=mode)).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator(".verdict")).to_have_count(2)


def test_the_attack_suite_by_one_click_and_an_attack_opens_in_ask(
    open_page: Open, running: Running
) -> None:
    page = open_page(running)
    page.get_by_label("Reference").fill("18")
    page.get_by_role("button", name="Attack it").click()
    expect(page.get_by_text("none of which is right: 0 earned a reward")).to_be_visible()
    row = page.locator("table.rows tbody tr").first
    row.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("An attack of the suite.")).to_be_visible()
    expect(page.get_by_label("Response")).not_to_have_value("")


@pytest.mark.parametrize("width", [1280, 400])
def test_group_by_mouse(open_page: Open, running: Running, width: int) -> None:
    page = open_page(running, "/group", width)
    page.get_by_role("button", name="Example").click()
    expect(page.get_by_label("Samples")).not_to_have_value("")
    page.get_by_role("button", name="Score the group").click()
    rows = page.locator("table.rows tbody tr")
    expect(rows).to_have_count(4)
    expect(rows.nth(0)).to_contain_text("+1.155")
    expect(rows.nth(1)).to_contain_text("-0.577")
    expect(rows.nth(2)).to_contain_text("left out")
    expect(rows.nth(0)).to_contain_text("right")  # what the rule says, explained
    assert fits(page)
    rows.nth(1).click()
    expect(page.get_by_label("Response")).to_have_value("36 * 4 = 144")


def test_group_by_keyboard_and_by_upload(open_page: Open, running: Running, tmp_path: Path) -> None:
    page = open_page(running, "/group")
    focus(page, "textbox", "Samples, as JSON lines")
    page.keyboard.insert_text(EXAMPLE.splitlines()[0])
    page.wait_for_timeout(500)
    focus(page, "button", "Score the group")
    page.keyboard.press("Enter")
    expect(page.locator("table.rows tbody tr")).to_have_count(1)
    path = tmp_path / "group.jsonl"
    path.write_text(EXAMPLE, encoding="utf-8")
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Upload a file").click()
    chooser.value.set_files(path)
    expect(page.locator("table.rows tbody tr")).to_have_count(4)


def test_a_line_that_is_no_sample_is_named(open_page: Open, running: Running) -> None:
    page = open_page(running, "/group")
    page.get_by_label("Samples").fill('{"response": "18"}\nnot JSON')
    page.get_by_role("button", name="Score the group").click()
    expect(page.get_by_text("line 2: is not JSON")).to_be_visible()


def test_verdicts_filter_page_follow_and_open(open_page: Open, running: Running, log: Path) -> None:
    path = log / "verdicts-judge-2.jsonl"
    append(path, *(verdict(n, template="paged") for n in range(60)))
    page = open_page(running, "/verdicts")
    rows = page.locator("table.rows tbody tr")
    page.get_by_label("text").fill("has 59 left")
    expect(rows).to_have_count(1)
    page.get_by_label("text").fill("")
    page.get_by_role("combobox", name="template").click()
    page.get_by_role("option", name="paged").click()
    expect(page.get_by_text("page 1 of 2 · 60 verdicts")).to_be_visible()
    page.get_by_role("button", name="Older").click()
    expect(rows).to_have_count(10)
    page.get_by_role("button", name="Newer").click()
    expect(rows).to_have_count(50)
    append(path, verdict(1000, template="paged", response_tail="This one is new."))
    expect(rows.first).to_contain_text("This one is new.")
    page.get_by_label("score from").fill("0.5")
    expect(rows.locator(".score.low")).to_have_count(0)


def test_verdicts_by_keyboard(open_page: Open, running: Running, log: Path) -> None:
    append(log / "verdicts-judge-3.jsonl", verdict(2000, response_tail="By keyboard."))
    page = open_page(running, "/verdicts")
    expect(page.locator("table.rows tbody tr").first).to_contain_text("By keyboard.")
    page.locator("table.rows tbody tr").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_contain_text("By keyboard.")
    focus(page, "button", "Open in Ask")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Response")).to_have_value("By keyboard.")
    expect(page.get_by_label("Reference")).to_have_value("2000")


def test_what_was_typed_is_there_when_another_page_was_looked_at(
    open_page: Open, running: Running
) -> None:
    page = open_page(running)
    page.get_by_label("Response").fill("kept")
    page.wait_for_timeout(600)
    page.get_by_role("link", name="Health").click()
    expect(page.get_by_role("heading", name="Health")).to_be_visible()
    page.go_back()
    expect(page.get_by_label("Response")).to_have_value("kept")


def test_the_theme_that_was_chosen_stays(open_page: Open, running: Running) -> None:
    page = open_page(running, color_scheme="light")
    page.get_by_role("button", name="Light or dark").click()
    page.wait_for_selector("body.body--dark")
    page.wait_for_function("document.cookie.includes('theme=dark')")
    page.reload()
    page.wait_for_selector("body.body--dark")


def test_a_hundred_thousand_verdicts_do_not_freeze_the_page(
    open_page: Open, running: Running, log: Path
) -> None:
    line = json.dumps(verdict(7, template="many"))
    (log / "verdicts-judge-4.jsonl").write_text(f"{line}\n" * 100_000)
    page = open_page(running, "/verdicts")
    slowest = 0.0
    for _ in range(20):
        began = time.monotonic()
        page.get_by_role("link", name="Health").click()
        page.get_by_role("heading", name="Health", level=1).wait_for()
        page.get_by_role("link", name="Verdicts").click()
        page.get_by_role("heading", name="Verdicts", level=1).wait_for()
        slowest = max(slowest, time.monotonic() - began)
        if page.get_by_text("100,0").count():
            break
    assert slowest < 30
    page.get_by_role("combobox", name="template").click()
    page.get_by_role("option", name="many").click()
    expect(page.get_by_text("100,000 verdicts")).to_be_visible()
