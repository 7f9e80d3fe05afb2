"""Tokens: a sequence by the teacher's log-probability, beside the student's."""

import json

from playwright.sync_api import FilePayload, Page, expect

from reward_serve_lab.ui.text import is_hidden
from tests.fake_service import FakeService, Reply
from tests.long.lab.ui.conftest import Open
from tests.long.lab.ui.test_hostile import INJECTIONS, no_markup
from tests.service.lab.ui.running import Running

ROWS = "table.rows tbody tr"
TEACHER = [-0.05, -0.5, -1.5, -3.0, -9.0]  # one of each shade
SEQUENCE = {
    "token_ids": [7, 12, 5, 4, 9, 3],
    "tokens": ["Q: ", "So", " <b>18", "\n", "\u202e", "."],
    "student_logprobs": [-0.25, -0.5, -1.0, -1.0, -1.0],
}


def answer(service: FakeService, logprobs: list[float], start: int = 1) -> None:
    fields = {"id": None, "status": "ok", "start": start, "logprobs": logprobs, "model": "teacher"}
    service.replies["/v1/logprobs"] = Reply(fields)


def ask(page: Page, sequence: object) -> None:
    text = sequence if isinstance(sequence, str) else json.dumps(sequence)
    page.get_by_label("Sequence").fill(text)
    page.get_by_role("button", name="Ask the teacher").click()


def test_teacher_and_student_are_side_by_side(
    open_look: Open, running: Running, fake_service: FakeService
) -> None:
    answer(fake_service, TEACHER)
    page = open_look(running, "/tokens")
    ask(page, SEQUENCE)
    expect(page.locator(ROWS)).to_have_count(5)
    teacher, student = page.locator(".text-box").all()
    for shade in range(5):
        expect(teacher.locator(f".p{shade}").first).to_be_visible()
    expect(teacher.locator(".p0")).to_have_text("So")
    expect(teacher.locator(".p2")).to_have_attribute("title", "token 3: -1.5000, probability 0.22")
    expect(teacher.locator(".unseen")).to_have_text("U+202E")
    expect(student.locator(".p1")).to_have_count(2)
    expect(page.locator(ROWS).nth(1).locator("td")).to_have_text(
        ["2", "5", "-0.5000", "-0.5000", "0.0000", "<b>18"]
    )
    expect(page.get_by_text("teacher − student: mean -2.0600")).to_be_visible()
    sent = [call.body for call in fake_service.calls if call.path == "/v1/logprobs"]
    assert set(sent[-1]) == {"token_ids", "encoding_format"}


def test_a_long_sequence_is_uploaded_and_paged(
    open_look: Open, running: Running, fake_service: FakeService
) -> None:
    answer(fake_service, [-0.25] * 1200, start=300)
    page = open_look(running, "/tokens")
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Upload a file").click()
    content = json.dumps({"token_ids": [*range(1500)], "start": 300}).encode()
    file: FilePayload = {"name": "long.json", "mimeType": "application/json", "buffer": content}
    chooser.value.set_files(file)
    expect(page.get_by_label("Sequence")).to_have_value(content.decode())
    page.get_by_role("button", name="Ask the teacher").click()
    expect(page.locator(ROWS)).to_have_count(500)
    expect(page.locator(".text-box")).to_have_count(1)
    page.get_by_role("button", name="3", exact=True).click()
    expect(page.locator(ROWS)).to_have_count(200)
    expect(page.locator(ROWS).nth(0).locator("td")).to_have_text(
        ["1300", "1300", "-0.2500", "1300"]
    )
    page.get_by_role("link", name="Health").click()
    page.get_by_role("link", name="Tokens").click()
    expect(page.get_by_label("Sequence")).to_have_value(content.decode())


def test_tokens_stay_text(open_page: Open, running: Running, fake_service: FakeService) -> None:
    tokens = [text.replace("\ud800", "") for text in INJECTIONS]
    answer(fake_service, [-1.0] * (len(tokens) - 1))
    page = open_page(running, "/tokens")
    ask(page, {"token_ids": [*range(len(tokens))], "tokens": tokens})
    expect(page.locator(ROWS)).to_have_count(len(tokens) - 1)
    no_markup(page)
    expect(page.locator(".text-box")).to_contain_text(tokens[1])
    assert not any(map(is_hidden, page.locator(".text-box").inner_text().replace("\u00a0", "")))


def test_what_has_no_logprobs_says_why(
    open_page: Open, running: Running, fake_service: FakeService
) -> None:
    page = open_page(running, "/tokens")
    ask(page, "{")
    expect(page.get_by_text("Invalid JSON")).to_be_visible()
    ask(page, {**SEQUENCE, "student_logprobs": [-1.0]})
    expect(page.get_by_text("student_logprobs: has 1 values; send 5")).to_be_visible()
    ask(page, SEQUENCE)
    expect(page.get_by_text("invalid: model: 'rule' gives no log-probabilities")).to_be_visible()
    late = {"id": None, "status": "timeout", "reason": "60 s passed"}
    fake_service.replies["/v1/logprobs"] = Reply(late, 504)
    ask(page, SEQUENCE)
    expect(page.get_by_text("timeout: 60 s passed")).to_be_visible()
    turns = [{"role": "user", "content": "9 * 2?"}]
    for asked in ({"messages": turns, "response_token_ids": [5, 6]}, SEQUENCE):
        answer(fake_service, [-1.0])
        ask(page, asked)
        expect(page.get_by_text("was not answered in full")).to_be_visible()
        ask(page, "{")
        expect(page.get_by_text("Invalid JSON")).to_be_visible()
    expect(page.locator(ROWS)).to_have_count(0)
