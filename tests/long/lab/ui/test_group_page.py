"""Group: pasted and uploaded samples, by mouse and by keyboard, wide and narrow, light and dark."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

from reward_serve.explanation import Explanation, RuleOutcome
from reward_serve.schema import ScoreResult, Status
from reward_serve_lab.ui.group import COMPARED_AT_ONCE
from reward_serve_lab.ui.samples import EXAMPLE, MAX_SAMPLES
from reward_serve_lab.ui.service import BATCH_ITEMS
from tests.fake_service import Call, FakeService, Reply
from tests.long.lab.ui.conftest import TIMEOUT_MS, Open
from tests.long.lab.ui.using import choose_by_keyboard, choose_by_mouse, focus
from tests.service.lab.ui.running import Running

expect.set_options(timeout=TIMEOUT_MS)


def score(page: Page, text: str | None = None) -> None:
    if text is not None:
        page.get_by_label("Samples").fill(text)
    page.get_by_role("button", name="Score the group").click()


def upload(page: Page, path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Upload a file").click()
    chooser.value.set_files(path)


def lines(*samples: dict[str, Any]) -> str:
    return "\n".join(json.dumps(sample, ensure_ascii=False) for sample in samples)


def test_group_by_mouse(open_look: Open, running: Running) -> None:
    page = open_look(running, "/group")
    page.get_by_role("button", name="Example").click()
    expect(page.get_by_label("Samples")).not_to_have_value("")
    score(page)
    rows = page.locator("table.rows tbody tr")
    expect(rows).to_have_count(4)
    expect(rows.nth(0)).to_contain_text("+1.155")
    expect(rows.nth(1)).to_contain_text("-0.577")
    expect(rows.nth(2)).to_contain_text("left out")
    expect(rows.nth(0)).to_contain_text("right")  # what the rule says, explained
    choose_by_mouse(page, "advantages", "Dr. GRPO, no deviation")
    expect(rows.nth(0)).to_contain_text("+0.667")
    rows.nth(1).click()
    expect(page.get_by_label("Response")).to_have_value("36 * 4 = 144\n#### 144")


def test_group_by_keyboard(open_look: Open, running: Running) -> None:
    page = open_look(running, "/group")
    focus(page, page.get_by_role("textbox", name="Samples, as JSON lines"))
    page.keyboard.insert_text(EXAMPLE)
    focus(page, page.get_by_role("button", name="Score the group"))
    page.keyboard.press("Enter")
    rows = page.locator("table.rows tbody tr")
    expect(rows).to_have_count(4)
    choose_by_keyboard(page, "advantages", "RLOO, leave one out")
    expect(rows.nth(0)).to_contain_text("+1.000")
    focus(page, rows.first)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Response")).to_have_value("36 * 4 = 144\n#### 144")
    expect(page.get_by_text("Sample 2 of a group.")).to_be_visible()


def test_a_file_is_uploaded_and_shown_in_the_field(
    open_page: Open, running: Running, tmp_path: Path
) -> None:
    page = open_page(running, "/group")
    upload(page, tmp_path / "group.jsonl", "\ufeff" + EXAMPLE)
    expect(page.locator("table.rows tbody tr")).to_have_count(4)
    expect(page.get_by_label("Samples")).to_have_value(EXAMPLE)


def test_a_file_that_is_too_large_is_refused_with_the_limit(
    open_page: Open, running: Running, tmp_path: Path
) -> None:
    page = open_page(running, "/group")
    upload(page, tmp_path / "large.jsonl", "x" * (8 * 2**20 + 1))
    expect(page.get_by_text("The file is over 8 MiB.")).to_be_visible()


def test_a_line_that_is_no_sample_is_named(open_page: Open, running: Running) -> None:
    page = open_page(running, "/group")
    score(page, '{"response": "18"}\nnot JSON')
    expect(page.get_by_text("line 2: is not JSON")).to_be_visible()
    score(page, '{"response": "18"}\n' * (MAX_SAMPLES + 1))
    expect(page.get_by_text(f"{MAX_SAMPLES + 1:,} samples; the page accepts")).to_be_visible()


def test_a_sample_without_a_score_shows_its_reason(open_page: Open, running: Running) -> None:
    page = open_page(running, "/group")
    fine = {"reference": "18", "response": "#### 18"}
    score(page, lines(fine, {**fine, "model": "other"}))
    rows = page.locator("table.rows tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.nth(1).locator(".reason")).to_contain_text("no model is named 'other'")
    expect(rows.nth(0).locator(".reason")).to_have_count(0)


def test_where_rule_and_judge_disagree_is_counted_and_marked(
    open_page: Open, running: Running, fake_service: FakeService
) -> None:
    says_one = ScoreResult(score=1.0, status=Status.OK, source="judge", model="rule")
    rule = RuleOutcome(outcome="wrong", score=0.0, rule="absent")
    found = Explanation(result=says_one, rule=rule, model=says_one)
    fake_service.replies["/v1/explain"] = Reply(found.model_dump(mode="json"))
    try:
        page = open_page(running, "/group")
        score(page, EXAMPLE)
        expect(page.get_by_text("rule and judge disagree on 4")).to_be_visible()
        expect(page.locator("table.rows tbody tr.differs")).to_have_count(4)
    finally:
        fake_service.replies.clear()


def step(groups: int, size: int) -> list[dict[str, Any]]:
    """A training step's samples; every other group has no gradient."""
    return [
        {
            "group": f"problem-{group}",
            "reference": str(group + 18),
            "response": f"{'So it is. ' * 200}\n#### {group + 18 + (n % 2) * (group % 2)}",
        }
        for group in range(groups)
        for n in range(size)
    ]


def test_a_training_step_is_uploaded_scored_in_batches_and_compared_on_request(
    open_page: Open, running: Running, fake_service: FakeService, tmp_path: Path
) -> None:
    before = len(fake_service.calls)
    page = open_page(running, "/group")
    score(page, EXAMPLE)
    expect(page.locator("table.rows tbody tr")).to_have_count(4)
    upload(page, tmp_path / "step.jsonl", lines(*step(128, 8)))
    expect(page.get_by_text("1,024 samples in 128 groups")).to_be_visible()
    expect(page.get_by_text("no gradient from 64 groups")).to_be_visible()
    expect(page.locator("table.rows tbody tr")).to_have_count(1024)
    expect(page.get_by_label("Samples")).to_have_value("")  # two MiB of samples do not fit
    done = f"Rules and judge compared: {COMPARED_AT_ONCE} of 1,024"
    expect(page.get_by_text(done)).to_be_visible()
    page.get_by_role("button", name=f"Compare {COMPARED_AT_ONCE} more").click()
    done = f"Rules and judge compared: {2 * COMPARED_AT_ONCE} of 1,024"
    expect(page.get_by_text(done)).to_be_visible()
    row = page.locator("table.rows tbody tr").nth(2 * COMPARED_AT_ONCE - 1)
    expect(row).to_contain_text("wrong")
    sizes = [
        len(call.body["requests"])
        for call in fake_service.calls[before:]
        if call.path == "/v1/score/batch"
    ]
    assert sizes == [4] + [BATCH_ITEMS] * 8


def test_a_group_of_1024_is_one_table(
    open_page: Open, running: Running, fake_service: FakeService
) -> None:
    page = open_page(running, "/group")
    samples = [{"reference": "18", "response": f"#### {18 + n % 2}"} for n in range(1024)]
    score(page, lines(*samples))
    expect(page.locator("table.rows")).to_have_count(1)
    expect(page.locator("table.rows tbody tr")).to_have_count(1024)
    expect(page.get_by_text("mean 0.500")).to_be_visible()


def test_what_a_sample_has_and_ask_has_not_is_said(open_page: Open, running: Running) -> None:
    sample = {
        "reference": ["18", "eighteen"],
        "response": "18\u2028#### 18",
        "messages": [{"role": "user", "content": "9 * 2?"}],
        "options": {"mode": "label"},
    }
    page = open_page(running, "/group")
    score(page, lines(sample))
    page.locator("table.rows tbody tr").click()
    expect(page.get_by_text("This is the first of its 2 references.")).to_be_visible()
    expect(page.get_by_text("Its messages are not shown here")).to_be_visible()
    expect(page.get_by_label("Reference")).to_have_value("18")
    expect(page.locator(".q-chip", has_text="label")).to_be_visible()


def test_an_explanation_refused_as_overloaded_can_be_asked_again(
    open_page: Open, running: Running, fake_service: FakeService
) -> None:
    full = ScoreResult(score=None, status=Status.OVERLOADED, reason="full", model="rule")
    fake_service.replies["/v1/explain"] = Reply(Explanation(result=full).model_dump(mode="json"))
    try:
        page = open_page(running, "/group")
        score(page, EXAMPLE)
        expect(page.get_by_text("Rules and judge compared: 0 of 4")).to_be_visible()
        again = page.get_by_role("button", name="Compare 4 more")
        expect(again).to_be_visible()
        fake_service.replies.clear()
        again.click()
        expect(page.locator("table.rows tbody tr").first).to_contain_text("right")
        expect(again).to_have_count(0)
    finally:
        fake_service.replies.clear()


def test_of_two_texts_that_are_scored_at_once_the_last_is_shown(
    open_page: Open, running: Running, fake_service: FakeService, tmp_path: Path
) -> None:
    let_go = threading.Event()

    def hold_the_first(call: Call) -> None:
        if call.path == "/v1/score/batch" and len(call.body["requests"]) == 4:
            let_go.wait(60)

    fake_service.before_reply = hold_the_first
    try:
        page = open_page(running, "/group")
        score(page, EXAMPLE)
        expect(page.get_by_text("Scoring 4 samples …")).to_be_visible()
        upload(page, tmp_path / "later.jsonl", lines({"reference": "18", "response": "#### 18"}))
        rows = page.locator("table.rows tbody tr")
        expect(rows).to_have_count(1)
        let_go.set()
        page.wait_for_timeout(1000)
        expect(rows).to_have_count(1)
    finally:
        let_go.set()
        fake_service.before_reply = lambda call: None
