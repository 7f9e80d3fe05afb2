"""Ask: one response, by mouse and by keyboard, wide and narrow, light and dark."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from reward_serve.explanation import Explanation
from reward_serve.schema import ScoreResult, Status
from reward_serve_lab.ui.ask import requests_of
from reward_serve_lab.ui.shell import Draft
from tests.fake_service import FakeService, Reply
from tests.long.lab.ui.conftest import TIMEOUT_MS, Open
from tests.long.lab.ui.using import choose_by_keyboard, choose_by_mouse, focus
from tests.service.lab.ui.running import Running

expect.set_options(timeout=TIMEOUT_MS)

RESPONSE = "9 * 2 = 18, so\n#### 18"


def fill(page: Page, reference: str, response: str) -> None:
    page.get_by_label("Reference").fill(reference)
    page.get_by_label("Response").fill(response)


def ask(page: Page) -> None:
    page.get_by_role("button", name="Ask", exact=True).click()


def asked(service: FakeService) -> list[dict[str, object]]:
    return [call.body for call in service.calls if call.path == "/v1/explain"]


def test_ask_by_mouse(open_look: Open, running: Running) -> None:
    page = open_look(running)
    fill(page, "18", RESPONSE)
    choose_by_mouse(page, "modes", "label")
    ask(page)
    card = page.locator(".verdict")
    expect(card.get_by_role("heading", name="label")).to_be_visible()
    expect(card.locator(".score.big")).to_have_text("1")
    expect(card.get_by_text("decided by rule")).to_be_visible()
    expect(card.locator(".text-box .match")).to_have_text("#### 18")
    expect(card.get_by_text("total")).to_be_visible()
    page.get_by_role("button", name="Copy as curl").click()
    page.wait_for_function("navigator.clipboard.readText().then(text => text.includes('curl -s'))")


def test_a_template_without_rules_is_said_to_have_none(
    open_page: Open, running: Running, fake_service: FakeService
) -> None:
    says = ScoreResult(score=0.5, status=Status.OK, source="judge", model="r", template="graded")
    found = Explanation(result=says, model=says)
    fake_service.replies["/v1/explain"] = Reply(found.model_dump(mode="json"))
    try:
        page = open_page(running, "/")
        fill(page, "18", RESPONSE)
        ask(page)
        expect(page.get_by_text("No rules: the template has none")).to_be_visible()
    finally:
        fake_service.replies.clear()


def test_ask_by_keyboard(open_look: Open, running: Running) -> None:
    page = open_look(running)
    focus(page, page.get_by_role("textbox", name="Reference"))
    page.keyboard.type("18")
    choose_by_keyboard(page, "modes", "label")
    focus(page, page.get_by_role("textbox", name="Response"))
    page.keyboard.type("It is 19.\n#### 19")
    page.keyboard.press("Control+Enter")
    card = page.locator(".verdict")
    expect(card.get_by_role("heading", name="label")).to_be_visible()
    expect(card.locator(".score.big")).to_have_text("0")
    expect(card.locator(".text-box .match")).to_have_text("#### 19")
    focus(page, page.get_by_role("button", name="Copy as Python"))
    page.keyboard.press("Enter")
    page.wait_for_function("navigator.clipboard.readText().then(text => text.includes('It is 19'))")
    focus(page, page.get_by_role("button", name="Attack it"))
    page.keyboard.press("Enter")
    expect(page.get_by_text("scored: 0 earned a reward")).to_be_visible()
    row = page.get_by_role("row", name="opens in Ask").first
    focus(page, row)
    page.keyboard.press("Enter")
    expect(page.get_by_text("An attack from the suite.")).to_be_visible()


def test_control_enter_asks_of_the_last_character(
    open_page: Open, running: Running, fake_service: FakeService
) -> None:
    page = open_page(running)
    page.get_by_label("Response").focus()
    for text in ("1", "12", "123"):
        page.keyboard.type(text[-1])
        page.keyboard.press("Control+Enter")
        page.locator(".verdict .text-box", has_text=text).wait_for()
        assert asked(fake_service)[-1]["response"] == text
        expect(page.get_by_label("Response")).to_be_focused()


def test_models_templates_and_modes_stand_side_by_side(
    open_page: Open, running: Running, fake_service: FakeService
) -> None:
    models = [{"name": name, "ready": True, "templates": ["plain"]} for name in ("rule", "other")]
    models[1]["templates"] = ["strict"]
    fake_service.replies["/v1/models"] = Reply({"models": models, "version": "0"})
    try:
        page = open_page(running)
        fill(page, "18", RESPONSE)
        before = len(asked(fake_service))
        choose_by_mouse(page, "models", "rule", "other")
        choose_by_mouse(page, "templates", "plain", "strict")
        choose_by_mouse(page, "modes", "label", "generate")
        ask(page)
        expect(page.locator(".verdict")).to_have_count(8)
        expect(page.get_by_role("heading", name="other · strict · generate")).to_be_visible()
        sent = {
            (body["model"], body["template"], body["options"]["mode"])  # type: ignore[index]
            for body in asked(fake_service)[before:]
        }
        assert len(sent) == 8
    finally:
        fake_service.replies.clear()


def test_more_combinations_than_fit_are_refused() -> None:
    many = Draft(models=["a", "b", "c"], templates=["d", "e", "f"])
    with pytest.raises(
        ValueError, match="9 combinations of models, templates and modes; at most 8"
    ):
        requests_of(many)


def test_an_attack_needs_a_reference_and_opens_in_ask(open_page: Open, running: Running) -> None:
    page = open_page(running)
    page.get_by_role("button", name="Attack it").click()
    expect(page.get_by_text("An attack needs a reference.")).to_be_visible()
    page.get_by_label("Reference").fill("18")
    page.get_by_role("button", name="Attack it").click()
    expect(page.get_by_text("scored: 0 earned a reward")).to_be_visible()
    page.locator("table.rows tbody tr").first.click()
    expect(page.get_by_text("An attack from the suite.")).to_be_visible()
    expect(page.get_by_label("Response")).not_to_have_value("")


def test_attacks_that_were_not_judged_are_no_success(
    open_page: Open, running: Running, fake_service: FakeService
) -> None:
    models = [{"name": "other", "ready": True}]  # its requests reach the rule, which is not it
    fake_service.replies["/v1/models"] = Reply({"models": models, "version": "0"})
    try:
        page = open_page(running)
        page.get_by_label("Reference").fill("18")
        choose_by_mouse(page, "models", "other")
        page.get_by_role("button", name="Attack it").click()
        expect(page.get_by_text("wrong responses: none was scored.")).to_be_visible()
        why = "invalid: model: no model is named 'other'"
        expect(page.locator(".message.warn", has_text=why)).to_be_visible()
        expect(page.locator(".message.ok")).to_have_count(0)
        expect(page.locator("table.rows .reason").first).to_contain_text(
            "no model is named 'other'"
        )
    finally:
        fake_service.replies.clear()


LONG = {
    "lines": ("So far, so good; it goes on for long. " * 5 + "\n", 190_000),
    "pairs": ("\U0001f600" * 50 + "\n", 120_000),  # some lie where a part ends
    "controls": ("\x01" * 100 + "\n", 120_000),  # seven characters each in a message
}


@pytest.mark.parametrize("kind", ["lines", "pairs", "controls"])
def test_a_long_item_is_pasted_asked_and_shown(
    open_page: Open, running: Running, fake_service: FakeService, kind: str
) -> None:
    unit, size = LONG[kind]
    ending = "\n#### 18"
    room = size - len("18") - len(ending)
    response = (unit * (room // len(unit) + 1))[:room] + ending
    page = open_page(running)
    fill(page, "18", response)
    ask(page)
    card = page.locator(".verdict")
    expect(card.locator(".score.big")).to_have_text("1")
    expect(card.locator(".text-box .match")).to_have_text("#### 18")
    expect(card.get_by_text("characters not shown").first).to_be_visible()
    assert asked(fake_service)[-1]["response"] == response
