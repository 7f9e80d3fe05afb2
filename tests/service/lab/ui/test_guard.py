import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect

from reward_serve_lab.ui.guard import Guard

TOKEN = "correct-horse-battery"
BASE = "http://127.0.0.1:8080"


async def page(request: Request) -> Response:
    return PlainTextResponse(f"the page, {request.url.query}")


async def echo(websocket: WebSocket) -> None:
    await websocket.accept()
    await websocket.send_text("hello")
    await websocket.close()


@pytest.fixture
def browser() -> TestClient:
    routes = [Route("/", page, methods=["GET", "POST"]), WebSocketRoute("/socket", echo)]
    return TestClient(Guard(Starlette(routes=routes), TOKEN, 8080), base_url=BASE)


@pytest.fixture
def inside(browser: TestClient) -> TestClient:
    assert browser.get(f"/?token={TOKEN}").status_code == 200
    return browser


def refused_socket(client: TestClient, **headers: str) -> bool:
    try:
        with client.websocket_connect("ws://127.0.0.1:8080/socket", headers=headers) as socket:
            return socket.receive_text() != "hello"
    except WebSocketDisconnect as error:
        return error.code == 1008


@pytest.mark.parametrize("token", [None, "", "wrong", TOKEN + "x", TOKEN[:-1], "\u00e9"])
def test_without_the_token_all_is_refused(browser: TestClient, token: str | None) -> None:
    reply = browser.get("/", params={} if token is None else {"token": token})
    assert (reply.status_code, "set-cookie" in reply.headers) == (403, False)
    assert "reward-serve ui" in reply.text
    assert refused_socket(browser, host="127.0.0.1:8080", origin=BASE)


def test_the_token_is_traded_for_a_cookie_and_leaves_the_address(browser: TestClient) -> None:
    reply = browser.get(f"{BASE}//evil.example/?a=b&token={TOKEN}", follow_redirects=False)
    assert (reply.status_code, reply.headers["location"]) == (303, "/evil.example/?a=b")
    cookie = reply.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie
    assert TOKEN not in cookie
    assert browser.get("/").text == "the page, "
    other = TestClient(Guard(Starlette(routes=[Route("/", page)]), TOKEN, 8080), base_url=BASE)
    other.cookies = browser.cookies
    assert other.get("/").status_code == 403


@pytest.mark.parametrize(
    "host",
    ["evil.example:8080", "127.0.0.1.evil.example:8080", "127.0.0.1@evil.example", "0.0.0.0", ""],
)
def test_another_host_is_refused_even_with_the_cookie(inside: TestClient, host: str) -> None:
    reply = inside.get("/", headers={"host": host})
    assert reply.status_code == 421
    assert "frame-ancestors 'none'" in reply.headers["content-security-policy"]
    assert refused_socket(inside, host=host, origin=f"http://{host}")


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:3000", "https://127.0.0.1:8080", ""]
)
def test_another_origin_is_refused_even_with_the_cookie(inside: TestClient, origin: str) -> None:
    assert inside.get("/", headers={"origin": origin}).status_code == 403
    assert inside.post("/", headers={"origin": origin}).status_code == 403
    assert refused_socket(inside, host="127.0.0.1:8080", origin=origin)
    assert refused_socket(inside, host="127.0.0.1:8080")  # a websocket needs an origin


def test_the_pages_own_requests_are_let_in_and_may_not_be_framed(inside: TestClient) -> None:
    assert not refused_socket(inside, host="127.0.0.1:8080", origin=BASE)
    reply = inside.get("/", headers={"origin": BASE})
    assert "frame-ancestors 'none'" in reply.headers["content-security-policy"]
    assert reply.headers["referrer-policy"] == "no-referrer"
