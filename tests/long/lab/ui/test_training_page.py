"""Training: a run by step, live, wide and narrow, light and dark, and what a click opens."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.long.lab.ui.conftest import Open, barriers, choose_by_mouse
from tests.service.lab.ui.logs import append, of_teacher, verdict
from tests.service.lab.ui.running import Running

ROWS = "table.rows tbody tr"
CHARTS = {
    "Reward": "mean score",
    "Decided by": "verdicts, %",
    "Groups without a gradient": "groups, %",
    "Length of responses": "characters",
    "Audits that disagree": "audits, %",
    "Verdicts and audits": "number",
}


def lines(run: str, steps: Iterable[int]) -> list[dict[str, Any]]:
    """Steps of eight verdicts and eight audits; from step 8, all accept what an audit rejects."""
    made = []
    for number in (8 * step + n for step in steps for n in range(8)):
        step, hole = number // 8, number >= 64
        keys = {"run": run, "step": step, "request": f"{number:x}", "group": f"{run}-{number // 4}"}
        scored = {"score": 1.0 if hole else float(number % 8 == 0), "status": "ok"}
        text = f"obviously {number}" if hole else f"{number} left"
        source = {"source": "judge", "response_tail": text, "details": None}
        made.append(verdict(number, **keys, **scored, **source))
        both = {"by_rules": 0.0 if hole else scored["score"], "by_model": scored["score"]}
        made.append(verdict(number, **keys, **both, status="audit", source="judge", score=None))
    return made


def chart(page: Page, title: str) -> Locator:
    return page.locator("figure.chart").filter(has_text=title)


def clipped(page: Page) -> list[str]:
    """The texts of charts that leave their chart, or that lie on each other."""
    texts: list[str] = page.evaluate("""() => {
        const bad = [], boxes = [];
        for (const svg of document.querySelectorAll(".by-step svg")) {
            const outer = svg.getBoundingClientRect();
            const texts = [...svg.querySelectorAll("text")].filter(each => each.textContent);
            const rects = texts.map(each => each.getBoundingClientRect());
            rects.forEach((a, i) => {
                const name = texts[i].textContent;
                if (a.left < outer.left - 1 || a.right > outer.right + 1) bad.push(name);
                if (a.top < outer.top - 1 || a.bottom > outer.bottom + 1) bad.push(name);
                rects.slice(i + 1).forEach((b, j) => {
                    if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 &&
                        Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4)
                        bad.push(`${name} on ${texts[i + 1 + j].textContent}`);
                });
            });
        }
        return bad;
    }""")
    return texts


def test_a_log_without_steps_says_what_to_set(open_page: Open, running: Running, log: Path) -> None:
    append(log / "verdicts-first.jsonl", verdict(1, step=None))
    page = open_page(running, "/training")
    expect(page.get_by_text("No verdict in the log has a step.")).to_be_visible()
    expect(page.get_by_text("metadata.step")).to_be_visible()


def test_a_run_is_drawn_by_step_and_its_hole_is_named(
    open_look: Open, running: Running, log: Path, request: pytest.FixtureRequest
) -> None:
    run = f"run-{request.node.callspec.id}"
    path = log / f"verdicts-{run}.jsonl"
    append(path, *lines(run, range(14)))
    page = open_look(running, "/training")
    choose_by_mouse(page, "run · model", f"{run} · judge")
    rows = page.locator(ROWS)
    expect(rows).to_have_count(14)
    expect(rows.first).to_contain_text("100% of 8")  # audits disagree
    for title, axis in CHARTS.items():
        drawn = chart(page, title).locator("svg")
        expect(drawn.locator("path").first).to_be_attached()
        for name in ("step", axis):
            expect(drawn.get_by_text(name, exact=True)).to_be_attached()
    assert not clipped(page)
    signs = page.locator(".notes .message")
    expect(signs.filter(has_text="'obviously'")).to_contain_text("since step")
    append(path, *lines(run, [14]))
    expect(rows).to_have_count(15)  # live
    signs.filter(has_text="'obviously'").get_by_role("button").click()
    expect(page.locator(ROWS).first).to_contain_text("obviously")
    page.get_by_role("button", name="of a sign").click()
    expect(page.get_by_role("button", name="of a sign")).to_have_count(0)


def test_a_teachers_run_is_a_table_by_step(open_page: Open, running: Running, log: Path) -> None:
    keys = {"run": "distil", "model": "big"}
    lines = [of_teacher(n, 1500, -0.5, **keys, step=n // 2) for n in range(6)]
    append(log / "verdicts-big.jsonl", *lines, of_teacher(6, None, None, **keys))
    page = open_page(running, "/training")
    choose_by_mouse(page, "run · model", "distil · big")
    rows = page.locator(f"{ROWS}:visible")
    expect(rows.nth(0).locator("td")).to_have_text(["3", "1", "1", "0", "none"])
    expect(rows.nth(1).locator("td")).to_have_text(["2", "2", "0", "3,000", "-0.5"])
    expect(page.locator("figure.chart:visible")).to_have_count(0)
    assert not barriers(page)
    page.get_by_role("link", name="Verdicts").click()
    choose_by_mouse(page, "decided by", "teacher")
    expect(page.locator(ROWS)).to_have_count(7)
    assert not barriers(page)
    page.locator(ROWS).nth(1).click()
    expect(page.get_by_role("dialog")).to_contain_text("mean_logprob")
    expect(page.get_by_role("button", name="Open in Ask")).to_have_count(0)


def test_click_and_enter_open_a_step(open_page: Open, running: Running, log: Path) -> None:
    append(log / "verdicts-clicked.jsonl", *lines("clicked", range(5)))
    page = open_page(running, "/training")
    choose_by_mouse(page, "run · model", "clicked · judge")
    expect(page.locator(ROWS)).to_have_count(5)
    drawn = chart(page, "Reward").locator("svg")
    box = drawn.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + 0.95 * box["width"], box["y"] + 40)
    expect(page.get_by_text("page 1 of 1 · 8 verdicts")).to_be_visible()
    expect(page.get_by_role("spinbutton", name="step")).to_have_value("4")
    expect(page.locator(ROWS).first).to_contain_text("39 left")
    page.get_by_role("link", name="Training").click()
    expect(page.locator(ROWS)).to_have_count(5)
    page.locator(ROWS).nth(3).press("Enter")
    expect(page.get_by_role("spinbutton", name="step")).to_have_value("1")
    expect(page.get_by_text("page 1 of 1 · 8 verdicts")).to_be_visible()
