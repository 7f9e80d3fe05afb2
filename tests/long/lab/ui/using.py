"""What a person does with a page, and sees of it."""

from __future__ import annotations

from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Locator, Page


def focus(page: Page, wanted: Locator) -> None:
    """Press Tab until this has the focus."""
    wanted.first.wait_for()
    for _ in range(80):
        page.keyboard.press("Tab")
        if wanted.first.evaluate("element => element === document.activeElement"):
            return
    raise AssertionError(f"no Tab reaches {wanted}")


def choose_by_keyboard(page: Page, label: str, *options: str) -> None:
    """Open a list of choices and take these, by arrows and Enter."""
    focus(page, page.get_by_role("combobox", name=label, exact=True))
    page.keyboard.press("Enter")
    for option in options:
        wanted = page.get_by_role("option", name=option, exact=True)
        wanted.wait_for()
        for _ in range(20):
            if "q-manual-focusable--focused" in (wanted.get_attribute("class") or ""):
                break
            page.keyboard.press("ArrowDown")
            page.wait_for_timeout(100)  # until it is drawn
        page.keyboard.press("Enter")
    page.keyboard.press("Escape")


def choose_by_mouse(page: Page, label: str, *options: str) -> None:
    """Open a list of choices and click on these."""
    page.get_by_role("combobox", name=label, exact=True).click()
    for option in options:
        page.get_by_role("option", name=option, exact=True).click()
    page.keyboard.press("Escape")


def fits(page: Page) -> bool:
    """Whether the page is no wider than its window."""
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    return bool(page.evaluate(wide) <= 0)


def barriers(page: Page) -> list[str]:
    """What axe-core finds on the page that is serious or worse."""
    # axe-core 4.12 reads this button's color without its background; 4.14 does not.
    found = Axe().run(page, {"exclude": [".ask-form .primary"]}).response["violations"]
    return [
        f"{each['id']}: {node['html']}: {node['failureSummary']}"
        for each in found
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]


def is_light(page: Page) -> bool:
    """Whether the page's background is."""
    color = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return sum(map(int, color.strip("rgb()").split(","))) > 600
