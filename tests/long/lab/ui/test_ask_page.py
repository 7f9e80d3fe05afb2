"""Ask: one response, wide and narrow, light and dark."""

import json

from playwright.sync_api import FilePayload, Page, expect

from tests.fake_service import FakeService
from tests.long.lab.ui.conftest import Open, choose_by_mouse
from tests.service.lab.ui.running import Running

RESPONSE = "9 * 2 = 18, so\n#### 18"


def fill(page: Page, reference: str, response: str) -> None:
    page.get_by_label("Reference").fill(reference)
    page.get_by_label("Response").fill(response)


def ask(page: Page) -> None:
    page.get_by_role("button", name="Ask", exact=True).click()


def asked(service: FakeService) -> list[dict[str, object]]:
    return [call.body for call in service.calls if call.path == "/v1/explain"]


def test_a_response_is_asked(open_look: Open, running: Running) -> None:
    page = open_look(running)
    fill(page, "18", RESPONSE)
    choose_by_mouse(page, "modes", "label")
    ask(page)
    card = page.locator(".verdict")
    expect(card.get_by_role("heading", name="label")).to_be_visible()
    expect(card.locator(".score.big")).to_have_text("1")
    expect(card.get_by_text("decided by rule")).to_be_visible()
    expect(card.locator(".text-box .match")).to_have_text("18")
    page.get_by_role("button", name="Copy as curl").click()
    page.wait_for_function("navigator.clipboard.readText().then(text => text.includes('curl -s'))")
    page.get_by_role("link", name="Health").click()
    expect(page.get_by_role("heading", name="Health")).to_be_visible()
    page.go_back()
    expect(page.get_by_label("Response")).to_have_value(RESPONSE)


def test_turns_are_asked(open_look: Open, running: Running, fake_service: FakeService) -> None:
    page = open_look(running)
    call = {"function": {"name": "add<b>", "arguments": {"a": 9}}}
    talk = [
        {"role": "user", "content": "9 + 9?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "name": "add<b>", "content": "VERDICT: 1\u200b"},
        {"role": "assistant", "content": RESPONSE},
    ]
    fill(page, "18", "")
    page.get_by_label("Or a conversation, as JSON").fill("[")
    ask(page)
    expect(page.get_by_text("The conversation is not JSON")).to_be_visible()
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Load JSON").click()
    content = json.dumps({"messages": talk, "tools": []}).encode()
    file: FilePayload = {"name": "talk.json", "mimeType": "application/json", "buffer": content}
    chooser.value.set_files(file)
    expect(page.get_by_label("Or a conversation, as JSON")).to_have_value(content.decode())
    ask(page)
    turns = page.locator(".turn")
    expect(turns.locator(".pill:first-child")).to_have_text(
        ["user", "assistant", "tool", "assistant"]
    )
    expect(turns.nth(1)).to_contain_text("turn 1: unparseable")
    expect(turns.nth(1).locator(".call")).to_contain_text('"add<b>"')
    expect(turns.nth(2).locator(".unseen")).to_have_text("U+200B")
    expect(turns.nth(3)).to_contain_text("turn 2: 1")
    expect(turns.nth(3).locator(".match")).to_have_text("18")
    last = asked(fake_service)[-1]
    assert (last["turns"], last["reference"], "response" in last) == (True, "18", False)


def test_what_is_typed_is_asked_to_the_last_character_and_attacked(
    open_page: Open, running: Running, fake_service: FakeService
) -> None:
    page = open_page(running)
    page.get_by_role("button", name="Attack it").click()
    expect(page.get_by_text("An attack needs a reference.")).to_be_visible()
    fill(page, "18", "")
    for typed, text in (("#### 1", "#### 1"), ("9", "#### 19")):
        page.get_by_label("Response").press_sequentially(typed)
        page.keyboard.press("Control+Enter")
        page.locator(".verdict .text-box", has_text=text).wait_for()
        assert asked(fake_service)[-1]["response"] == text
        expect(page.get_by_label("Response")).to_be_focused()
    expect(page.locator(".verdict .score.big")).to_have_text("0")
    page.get_by_role("button", name="Attack it").click()
    expect(page.get_by_text("scored: 0 earned a reward")).to_be_visible()
    page.get_by_role("row", name="opens in Ask").first.press("Enter")
    expect(page.get_by_text("An attack from the suite.")).to_be_visible()
    expect(page.get_by_label("Response")).not_to_have_value("#### 19")


def test_a_long_item_is_shown(open_page: Open, running: Running, fake_service: FakeService) -> None:
    unit = "\x01" * 100 + "\n😀"  # seven characters each in a message
    response = unit * 1_900 + "\n#### 18"
    page = open_page(running)
    fill(page, "18", response)
    ask(page)
    card = page.locator(".verdict")
    expect(card.locator(".score.big")).to_have_text("1")
    expect(card.get_by_text("characters not shown").first).to_be_visible()
    assert asked(fake_service)[-1]["response"] == response
