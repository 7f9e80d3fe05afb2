"""Who is let in, what leaves the process, and what a service that gives no answer looks like."""

import httpx
from playwright.sync_api import Page, expect

from tests.fake_service import FakeService, Reply, dead_url
from tests.long.lab.ui.conftest import Open
from tests.service.lab.ui.running import Running, workbench

KEY = "a-key-that-nobody-may-see-0123456789"
SOCKET = "/_nicegui_ws/socket.io/?EIO=4&transport="


def test_without_the_token_nothing_is_served(running: Running) -> None:
    for path in ("/", "/verdicts", SOCKET + "polling", "/_nicegui/static/nicegui.css", "/none"):
        assert httpx.get(running.base + path).status_code == 403, path
    assert httpx.post(running.base + SOCKET + "polling", content=b"40").status_code == 403


def test_no_browser_gets_the_services_key(open_page: Open, fake_service: FakeService) -> None:
    with workbench(fake_service.url, key=KEY) as running:
        assert KEY not in running.url
        page = open_page(running)
        frames: list[str] = []
        page.on("websocket", lambda ws: ws.on("framereceived", lambda f: frames.append(str(f))))
        page.reload()
        page.get_by_label("Reference").fill("18")
        page.get_by_label("Response").fill("#### 18")
        page.get_by_role("button", name="Ask", exact=True).click()
        expect(page.locator(".verdict")).to_be_visible()
        expect(page.get_by_text("authorization: Bearer $REWARD_SERVE_API_KEY")).to_be_visible()
        assert frames and KEY not in page.content() + "".join(frames)
    asked = [call for call in fake_service.calls if call.path == "/v1/explain"]
    assert asked[-1].headers["authorization"] == f"Bearer {KEY}"


def score_everywhere(page: Page) -> None:
    """Ask, then score a group."""
    page.get_by_role("button", name="Ask", exact=True).click()
    page.locator(".answers .message").first.wait_for()
    page.get_by_role("link", name="Group").click()
    page.get_by_role("button", name="Example").click()
    page.get_by_role("button", name="Score the group").click()


def test_a_locked_service(open_page: Open, running: Running, fake_service: FakeService) -> None:
    locked = Reply({"detail": "give a key"}, 401)
    fake_service.replies |= dict.fromkeys(
        ("/v1/models", "/v1/explain", "/v1/score/batch", "/ready"), locked
    )
    page = open_page(running)
    expect(page.get_by_text("locked", exact=True)).to_be_visible()
    score_everywhere(page)
    expect(page.get_by_text("The service requires an API key.")).to_be_visible()
    page.get_by_role("link", name="Health").click()
    expect(page.get_by_text("Start the workbench with REWARD_SERVE_API_KEY")).to_be_visible()


def test_a_service_that_explains_nothing_still_scores(
    open_page: Open, running: Running, fake_service: FakeService
) -> None:
    detail = "explain: is off in this deployment; set server.explain: true"
    fake_service.replies["/v1/explain"] = Reply({"detail": detail}, 404)
    page = open_page(running)
    page.get_by_label("Reference").fill("18")
    page.get_by_label("Response").fill("#### 18")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator(".verdict .score.big")).to_have_text("1")
    expect(page.get_by_text("explanations off")).to_be_visible()


def test_a_service_that_is_down_is_a_message_and_so_are_missing_settings(open_page: Open) -> None:
    with workbench(dead_url()) as running:
        page = open_page(running)
        expect(page.get_by_text("no answer")).to_be_visible()
        score_everywhere(page)
        expect(page.get_by_text("Cannot reach")).to_be_visible()
        page.get_by_role("link", name="Verdicts").click()
        expect(page.get_by_text("--log FOLDER")).to_be_visible()
