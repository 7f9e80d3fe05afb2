"""Group: pasted and uploaded samples, wide and narrow, light and dark."""

import json
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

from reward_serve.explanation import Explanation, RuleOutcome
from reward_serve.schema import ScoreResult, Status
from reward_serve_lab.ui.group import COMPARED_AT_ONCE
from reward_serve_lab.ui.samples import EXAMPLE
from tests.fake_service import FakeService, Reply
from tests.long.lab.ui.conftest import Open, choose_by_mouse
from tests.service.lab.ui.running import Running

ROWS = "table.rows tbody tr"


def score(page: Page, text: str) -> None:
    page.get_by_label("Samples").fill(text)
    page.get_by_role("button", name="Score the group").click()


def upload(page: Page, path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Upload a file").click()
    chooser.value.set_files(path)


def lines(*samples: dict[str, Any]) -> str:
    return "\n".join(json.dumps(sample, ensure_ascii=False) for sample in samples)


def test_a_group_has_advantages_and_a_row_opens_in_ask(open_look: Open, running: Running) -> None:
    page = open_look(running, "/group")
    page.get_by_role("button", name="Example").click()
    expect(page.get_by_label("Samples")).to_have_value(EXAMPLE)
    page.get_by_role("button", name="Score the group").click()
    rows = page.locator(ROWS)
    expect(rows).to_have_count(4)
    expect(rows.nth(0)).to_contain_text("+1.155")
    expect(rows.nth(1)).to_contain_text("-0.577")
    expect(rows.nth(2)).to_contain_text("left out")
    expect(rows.nth(0)).to_contain_text("right")  # what the rule says, explained
    choose_by_mouse(page, "advantages", "Dr. GRPO, no deviation")
    expect(rows.nth(0)).to_contain_text("+0.667")
    rows.nth(0).focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Response")).to_have_value("36 * 4 = 144\n#### 144")
    expect(page.get_by_text("Sample 2 of a group.")).to_be_visible()


def test_faults_of_uploads_are_named(open_page: Open, running: Running, tmp_path: Path) -> None:
    page = open_page(running, "/group")
    upload(page, tmp_path / "large.jsonl", "x" * (8 * 2**20 + 1))
    expect(page.get_by_text("The file is over 8 MiB.")).to_be_visible()
    upload(page, tmp_path / "group.jsonl", "\ufeff" + EXAMPLE)
    expect(page.locator(ROWS)).to_have_count(4)
    expect(page.get_by_label("Samples")).to_have_value(EXAMPLE)
    fine = {"reference": "18", "response": f"{'So it is. ' * 250}\n#### 18"}
    upload(page, tmp_path / "step.jsonl", lines(*[fine] * 1024))
    expect(page.get_by_text("1,024 samples")).to_be_visible()
    expect(page.locator(ROWS)).to_have_count(1024)
    expect(page.get_by_label("Samples")).to_have_value("")  # 2.5 MiB of samples do not fit
    more = f"Compare {COMPARED_AT_ONCE} more"
    page.get_by_role("button", name=more).click()
    done = f"Rules and judge compared: {2 * COMPARED_AT_ONCE} of 1,024"
    expect(page.get_by_text(done)).to_be_visible()
    score(page, '{"response": "18"}\nnot JSON')
    expect(page.get_by_text("line 2: is not JSON")).to_be_visible()
    score(page, lines(fine, {**fine, "model": "other"}))
    expect(page.locator(ROWS)).to_have_count(2)
    expect(page.locator(ROWS).nth(1)).to_contain_text("no model is named 'other'")


def test_where_rule_and_judge_disagree_is_counted_and_what_was_refused_asked_again(
    open_page: Open, running: Running, fake_service: FakeService
) -> None:
    full = ScoreResult(score=None, status=Status.OVERLOADED, reason="full", model="rule")
    fake_service.replies["/v1/explain"] = Reply(Explanation(result=full).model_dump(mode="json"))
    page = open_page(running, "/group")
    score(page, EXAMPLE)
    more = page.get_by_role("button", name="Compare 4 more")
    expect(more).to_be_visible()
    says_one = ScoreResult(score=1.0, status=Status.OK, source="judge", model="rule")
    rule = RuleOutcome(outcome="wrong", score=0.0, rule="absent")
    explanation = Explanation(result=says_one, rule=rule, model=says_one)
    fake_service.replies["/v1/explain"] = Reply(explanation.model_dump(mode="json"))
    more.click()
    expect(page.get_by_text("rule and judge disagree on 4")).to_be_visible()
    expect(page.locator("table.rows tbody tr.differs")).to_have_count(4)
