"""Texts that want to be more than text: none is obeyed, hidden, or sent elsewhere."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from reward_serve_lab.ui.text import is_hidden
from tests.fake_service import FakeService, Reply
from tests.long.lab.ui.conftest import Open
from tests.rows import rows
from tests.service.lab.ui.logs import append, verdict
from tests.service.lab.ui.running import Running

INJECTIONS = [*rows(__file__, "injections"), "a" + "\u0336\u0301" * 500]


def no_markup(page: Page) -> None:
    made = "main script, main iframe, main img, main base, main meta, main link, main style"
    assert page.locator(made).count() == 0
    assert page.locator("main a[href^=javascript]").count() == 0
    assert page.locator("main #clickme").count() == 0


@pytest.fixture
def hostile_log(log: Path) -> Path:
    fields = ("status", "source", "template", "label", "id", "group", "model")
    rows = [
        verdict(n, response_tail=text, reference=text, **dict.fromkeys(fields, text))
        for n, text in enumerate(INJECTIONS)
    ]
    for row, text in zip(rows, INJECTIONS, strict=True):
        row |= {"details": {"rule": text, text: text}, text: text}
        row["probabilities"] = {text: 0.5}
    append(log / "verdicts-judge-1.jsonl", *rows)
    return log


def test_the_log_is_shown_as_text(open_page: Open, running: Running, hostile_log: Path) -> None:
    page = open_page(running, "/verdicts")
    rows = page.locator("table.rows tbody tr")
    expect(rows).to_have_count(len(INJECTIONS))
    no_markup(page)
    for place in range(rows.count()):
        assert not any(map(is_hidden, rows.nth(place).inner_text().replace("\u00a0", "")))
    expect(rows.filter(has_text="<script>window.pwned = 1</script>").first).to_be_visible()
    expect(rows.filter(has_text="U+202E").first).to_be_visible()
    for place in range(len(INJECTIONS)):
        rows.nth(place).click()
        expect(page.get_by_role("dialog")).to_be_visible()
        no_markup(page)
        assert page.locator(".sheet script, .sheet img, .sheet iframe, .sheet a").count() == 0
        page.get_by_role("button", name="Close").click()
        expect(page.get_by_role("dialog")).to_have_count(0)
    page.reload()  # the first reply of the server carries the texts, too
    expect(rows).to_have_count(len(INJECTIONS))
    page.get_by_role("combobox", name="template").click()
    expect(page.get_by_role("option").first).to_be_visible()


def test_ask_shows_every_injection_as_text(open_page: Open, running: Running) -> None:
    page = open_page(running)
    text = "\n".join(INJECTIONS).replace("\ud800", "")
    for field in ("Question", "Response"):
        page.get_by_label(field).fill(text)
    page.get_by_label("Reference").fill("18 <b>bold</b>")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator(".verdict")).to_be_visible()
    no_markup(page)
    content = page.locator(".verdict .text-box").first.text_content() or ""
    assert "<script>window.pwned = 1</script>" in content
    assert "U+202E4321U+202C" in content and "U+001B[31m" in content
    assert not any(is_hidden(character) for character in content)


def test_markup_stays_text(open_page: Open, running: Running, fake_service: FakeService) -> None:
    text = INJECTIONS[0] + INJECTIONS[2]
    model = {"name": text, "kind": text, "templates": [text], "ready": True, "fingerprint": text}
    fake_service.replies["/v1/models"] = Reply({"models": [model], "version": text})
    fake_service.replies["/v1/explain"] = Reply({"detail": text}, 500)
    page = open_page(running, "/health")
    expect(page.locator(".card")).to_contain_text(text)
    no_markup(page)
    page.get_by_role("link", name="Ask", exact=True).click()
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text(text)
    page.get_by_label("templates").click()
    expect(page.get_by_role("option")).to_contain_text(text[:60])
    no_markup(page)
