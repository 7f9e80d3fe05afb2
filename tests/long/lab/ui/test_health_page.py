"""Health: what serves, wide, narrow, light, dark."""

from playwright.sync_api import expect

from tests.fake_service import FakeService, Reply
from tests.long.lab.ui.conftest import Open
from tests.service.lab.ui.running import Running

MODEL = {
    "name": "judge",
    "kind": "judge",
    "ready": True,
    "items": 7,
    "cache": {"hits": 30, "misses": 90},
    "start_s": {"engine": 1.5, "first verdict": 0.3, "total": 2.0},
    "fingerprint": "0123456789abcdef",
}


def test_health(open_look: Open, running: Running, fake_service: FakeService) -> None:
    fake_service.replies["/v1/models"] = Reply({"models": [MODEL], "version": "1.2.3"})
    page = open_look(running)
    page.get_by_role("link", name="Health").click()
    expect(page.get_by_text("1.2.3")).to_be_visible()
    card = page.locator(".card", has_text="judge")
    for text in ("hits 30, misses 90", "2.0 s", "7"):
        expect(card.get_by_text(text, exact=True)).to_be_visible()
    expect(card.get_by_text("0123456789abcdef")).to_be_hidden()
    card.get_by_text("Fingerprint").click()
    expect(card.get_by_text("0123456789abcdef")).to_be_visible()
