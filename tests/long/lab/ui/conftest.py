from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.fake_service import FakeService
from tests.service.lab.ui.running import FLAGS, Running, chromium, workbench

Open = Callable[..., Page]
TIMEOUT_MS = 60_000
expect.set_options(timeout=TIMEOUT_MS)
LOOKS = [(1280, "light"), (1280, "dark"), (400, "light"), (400, "dark")]


def choose_by_mouse(page: Page, label: str, *options: str) -> None:
    """Open a list of choices and click on these."""
    page.get_by_role("combobox", name=label, exact=True).click()
    for option in options:
        page.get_by_role("option", name=option, exact=True).click()
    page.keyboard.press("Escape")
    expect(page.get_by_role("option")).to_have_count(0)  # a closing list takes clicks


def fits(page: Page) -> bool:
    """Whether the page is no wider than its window."""
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    return bool(page.evaluate(wide) <= 0)


def barriers(page: Page) -> list[str]:
    """What axe-core finds on the page that is serious or worse."""
    # axe-core 4.12 reads this button's color without its background; the bar shows while it loads.
    axe_report = Axe().run(page, {"exclude": [".ask-form .primary", ".q-loading-bar"]}).response
    return [
        f"{violation['id']}: {node['html']}: {node['failureSummary']}"
        for violation in axe_report["violations"]
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"]
    ]


def is_light(page: Page) -> bool:
    """Whether the page's background is."""
    color = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return sum(map(int, color.strip("rgb()").split(","))) > 600


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test of the pages' look in every window and colour scheme."""
    if "look" in metafunc.fixturenames:
        metafunc.parametrize("look", LOOKS, ids="{0[0]}-{0[1]}".format)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Of a module alone: while it runs, the main thread has an event loop."""
    path = chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Open]:
    """Opens pages; afterwards none may have failed, asked elsewhere, or run what it was shown."""
    contexts, faults = [], []

    def open_page(running: Running, path: str = "/", width: int = 1280, **options: Any) -> Page:
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        page = context.new_page()
        page.set_default_timeout(TIMEOUT_MS)
        page.on("pageerror", lambda error: faults.append(f"error: {error}"))
        page.on("dialog", lambda dialog: faults.append(f"dialog: {dialog.message}"))
        page.on("popup", lambda popup: faults.append(f"popup: {popup.url}"))

        def seen(request: Any) -> None:
            if not request.url.startswith((running.base, "data:", "blob:")):
                faults.append(f"asked {request.url}")

        page.on("request", seen)
        page.goto(running.at(path))
        page.locator("h1").wait_for()
        page.wait_for_function("window.did_handshake")
        return page

    yield open_page
    for context in contexts:
        for page in context.pages:
            if page.evaluate("window.pwned"):
                faults.append("a script of what was shown has run")
        context.close()
    assert not faults


@pytest.fixture
def open_look(look: tuple[int, str], open_page: Open) -> Iterator[Open]:
    """Opens a page wide or narrow, light or dark; afterwards it must fit and be accessible."""
    width, scheme = look
    opened: list[Page] = []

    def open_look(running: Running, path: str = "/") -> Page:
        page = open_page(running, path, width, color_scheme=scheme)
        assert is_light(page) == (scheme == "light")
        opened.append(page)
        return page

    yield open_look
    for page in opened:
        assert fits(page)
        assert not barriers(page)


@pytest.fixture(scope="module")
def fake_service() -> Iterator[FakeService]:
    with FakeService() as service:
        yield service


@pytest.fixture(autouse=True)
def own_replies(fake_service: FakeService) -> Iterator[None]:
    """Each test starts with the real rule's replies."""
    yield
    fake_service.replies.clear()


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("log")


@pytest.fixture(scope="module")
def running(browser: Browser, fake_service: FakeService, log: Path) -> Iterator[Running]:
    """A workbench over a service that scores by the real rule, with an empty verdict log."""
    with workbench(fake_service.url, log=log) as running:
        yield running
