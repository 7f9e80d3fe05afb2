"""Health: what serves and how busy it is, wide, narrow, light, dark."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.fake_service import Call, FakeService, Reply
from tests.long.lab.ui.conftest import Open
from tests.service.lab.ui.running import Running, workbench

METRICS = """# TYPE ray_reward_serve_requests_total counter
ray_reward_serve_requests_total{deployment="judge",replica="a",status="ok",source="rule"} %d
ray_reward_serve_requests_total{deployment="judge",replica="b",status="error",source=""} 3
# TYPE ray_reward_serve_items gauge
ray_reward_serve_items{deployment="judge",replica="a"} 4
ray_reward_serve_items{deployment="judge",replica="b"} 1
# TYPE ray_reward_serve_cache_total counter
ray_reward_serve_cache_total{deployment="judge",outcome="hits"} 30
ray_reward_serve_cache_total{deployment="judge",outcome="misses"} 90
# TYPE ray_reward_serve_latency_seconds histogram
ray_reward_serve_latency_seconds_bucket{deployment="judge",le="0.1"} 60
ray_reward_serve_latency_seconds_bucket{deployment="judge",le="0.3"} 123
ray_reward_serve_latency_seconds_bucket{deployment="judge",le="+Inf"} 123
"""
MODEL = {
    "name": "judge",
    "kind": "judge",
    "ready": True,
    "items": 7,
    "cache": {"hits": 30, "misses": 90},
    "start_s": {"engine": 1.5, "first verdict": 0.3, "total": 2.0},
    "fingerprint": "0123456789abcdef",
}
CELLS = ["judge", "2", "5", r"[\d,]+\.\d", "105 ms", "280 ms", "25%", r"[\d,]+", "3"]


@pytest.fixture
def measured(fake_service: FakeService) -> Iterator[Running]:
    """A workbench over a judge whose metrics count 1,000 verdicts more at every look."""
    looks = iter(range(120, 10**9, 1000))

    def count(call: Call) -> None:
        if call.path == "/metrics":
            fake_service.replies["/metrics"] = Reply((METRICS % next(looks)).encode())

    fake_service.before_reply = count
    with workbench(fake_service.url, metrics=f"{fake_service.url}/metrics") as running:
        yield running
    fake_service.before_reply = lambda call: None


def test_health(open_look: Open, measured: Running, fake_service: FakeService) -> None:
    fake_service.replies["/v1/models"] = Reply({"models": [MODEL], "version": "1.2.3"})
    page = open_look(measured)
    page.get_by_role("link", name="Health").click()
    expect(page.get_by_text("1.2.3")).to_be_visible()
    cells = page.locator("table.rows tbody tr td")
    for place, text in enumerate(CELLS):
        expect(cells.nth(place)).to_have_text(re.compile(f"^({text})$"))
    card = page.locator(".card", has_text="judge")
    for text in ("hits 30, misses 90", "2.0 s", "7"):
        expect(card.get_by_text(text, exact=True)).to_be_visible()
    expect(card.get_by_text("0123456789abcdef")).to_be_hidden()
    card.get_by_text("Fingerprint").click()
    expect(card.get_by_text("0123456789abcdef")).to_be_visible()
