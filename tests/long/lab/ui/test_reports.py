"""Reports as files: they open offline, and neither run nor load what they show."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.fake_service import FakeService
from tests.long.lab.ui.conftest import barriers, fits
from tests.unit.lab.cli.test_rescore import MARKUP, logged


@pytest.mark.parametrize("command", ["rescore", "eval"])
@pytest.mark.parametrize("width", [1280, 400])
def test_a_report_opens_offline_and_asks_no_host(
    browser: Browser, fake_service: FakeService, tmp_path: Path, command: str, width: int
) -> None:
    lines = [{**logged(n), "correct": n % 2 == 0, "response": MARKUP} for n in range(32)]
    rows, report = tmp_path / "rows.jsonl", tmp_path / "report.html"
    rows.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    asked = "--with" if command == "rescore" else "--url"
    ways = [command, str(rows), asked, fake_service.url, "--html", str(report)]
    subprocess.run([sys.executable, "-m", "reward_serve", *ways], check=True)
    context = browser.new_context(viewport={"width": width, "height": 900}, offline=True)
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("dialog", lambda dialog: faults.append(dialog.message))
    page.on("console", lambda message: faults.append(message.text))
    page.on("request", lambda request: faults.append(request.url))
    page.goto(report.as_uri())
    page.locator("details").first.click()
    assert page.locator("details[open] pre", has_text="<script>alert(1)").first.is_visible()
    assert faults == [report.as_uri()]
    assert fits(page)
    assert not barriers(page)
    context.close()
