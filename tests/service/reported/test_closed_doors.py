"""What one caller, data set, web page or endpoint could do to others, as an attack reported it.

A row's own service and the trainer's key: ``tests/unit/clients/test_verl.py``.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from reward_serve.app import ingress_options
from reward_serve.config.app import ServerConfig
from reward_serve.http import api
from reward_serve.config.engine import RemoteConfig
from reward_serve.engines.base import Prompt, RefusedError, Sampling
from reward_serve.engines.openai import OpenAIEngine
from reward_serve.reward_models.chat import ChatRequest
from tests.fake_ingress import BEARER, GOOD, KEYS, OTHER_BEARER, served
from tests.fake_service import FakeService, Reply
from tests.service.engines.test_openai import ASKED, KEY, Endpoint, completion


def asking(app: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://service")


async def half_open(app: Any, part: bytes = b"", every_s: float = 3600) -> list[dict[str, Any]]:
    """What is answered to a caller whose body does not end."""
    sent = []

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(every_s)
        return {"type": "http.request", "body": part, "more_body": True}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(name.lower().encode(), value.encode()) for name, value in BEARER.items()]
    scope = {"type": "http", "method": "POST", "path": "/v1/score", "headers": headers}
    await app({**scope, "query_string": b""}, receive, send)
    return sent


async def test_half_open_bodies_of_a_key_count_for_it_and_others_and_probes_have_their_places() -> (
    None
):
    app = served(KEYS, max_ongoing_requests=2).app
    waiting = [asyncio.create_task(half_open(app)) for _ in range(2)]
    await asyncio.sleep(0)
    async with asking(app) as http:
        refused = await half_open(app)
        other = await http.post("/v1/score", json=GOOD, headers=OTHER_BEARER)
        assert (await http.get("/health")).status_code == 200
    assert (refused[0]["status"], other.status_code) == (429, 200)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    async with asking(app) as http:
        assert (await http.post("/v1/score", json=GOOD, headers=BEARER)).status_code == 200
    server = ServerConfig(max_ongoing_requests=2, api_keys_env="KEYS")
    assert ingress_options(server, keys=3)["max_ongoing_requests"] > 6  # of Serve, for probes


@pytest.mark.parametrize(("part", "every_s"), [(b"", 3600), (b" ", 0.01)])
async def test_a_body_that_stops_or_trickles_is_408(
    part: bytes, every_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "_BODY_S", 0.2)
    async with asyncio.timeout(10):
        start, body = await half_open(served(KEYS).app, part, every_s)
    assert start["status"] == 408
    assert (b"connection", b"close") in start["headers"]
    assert "send at least 65536 bytes/s" in json.loads(body["body"])["detail"]


@pytest.mark.parametrize(
    "sent",
    [
        {"Host": "evil.example:8000"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "[::1"},
        {"Origin": "http://evil.example"},
        {"Origin": "http://localhost.evil.example:8000"},
        {"Origin": "null"},
    ],
)
def test_a_keyless_loopback_service_refuses_what_a_web_page_could_send(
    sent: dict[str, str],
) -> None:
    simple = {"Content-Type": "text/plain", **sent}
    local, remote, keyed = served(), served(), served(KEYS)
    local.base_url = keyed.base_url = "http://127.0.0.1:8000"  # which becomes scope["server"]
    remote.base_url = "http://10.0.0.1:8000"
    content = json.dumps(GOOD)
    reply = local.post("/v1/score", content=content, headers=simple)
    assert reply.status_code == 403
    assert f"{next(iter(sent))}: " in reply.json()["detail"]
    assert local.get("/v1/models", headers=sent).status_code == 403
    for client in (remote, keyed):
        answered = client.post("/v1/score", content=content, headers=simple | BEARER)
        assert answered.status_code == 200


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost:8000", "LOCALHOST", "[::1]:8000"])
def test_curl_clients_tunnels_and_pages_of_this_machine_need_no_setting(host: str) -> None:
    client = served()
    client.base_url = "http://127.0.0.1:8000"
    form = {"Content-Type": "application/x-www-form-urlencoded"}  # of `curl -d`
    for sent in ({}, {"Origin": "http://127.0.0.1:8000"}):
        headers = {"Host": host, **form, **sent}
        reply = client.post("/v1/score", content=json.dumps(GOOD), headers=headers)
        assert reply.json()["score"] == 1.0


def with_image(url: str) -> Prompt:
    image = {"type": "image_url", "image_url": {"url": url}}
    return Prompt([{"role": "user", "content": [{"type": "text", "text": "See:"}, image]}])


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest",
        "file:///etc/passwd",
        "https://images.example.evil.example/a",
        "https://images.example@evil.example/a",
        "https://evil.example\\@images.example/a",
        "//images.example/a",
        "None",
    ],
)
async def test_a_callers_address_reaches_an_endpoint_only_by_allowed_hosts(url: str) -> None:
    endpoint = Endpoint(completion("1"))
    engine = endpoint.engine(image_hosts=["images.example"])
    with pytest.raises(RefusedError, match=r"is no data: URL.*remote\.image_hosts"):
        await engine.generate(with_image(url), Sampling(8))
    for allowed in ("https://Images.Example:8443/a.png?b", "data:image/png;base64,AA=="):
        await engine.generate(with_image(allowed), Sampling(8))
    with pytest.raises(RefusedError):
        await endpoint.engine().generate(with_image("https://images.example/a"), Sampling(8))
    assert len(endpoint.asked) == 2


async def test_an_endpoints_redirect_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with FakeService() as inside, FakeService() as endpoint:
        inside.replies["/v1/chat/completions"] = Reply(completion("1"))
        to = {"Location": f"{inside.url}/v1/chat/completions"}
        endpoint.replies["/v1/chat/completions"] = Reply({}, 307, to)
        config = RemoteConfig(model="m", base_url=f"{endpoint.url}/v1", max_retries=0)
        with pytest.raises(RuntimeError, match="the endpoint: "):
            await OpenAIEngine(config).generate(Prompt(()), Sampling(8))
        assert (len(endpoint.calls), len(inside.calls)) == (1, 0)


@pytest.mark.parametrize("code", [200, 400, 401, 429, 500])
@pytest.mark.parametrize("said", [f"unknown key {KEY}", "x" * 280 + KEY])
async def test_an_endpoints_echo_of_its_key_is_in_no_result(
    code: int, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    replies: list[Any] = [httpx.Response(code, json={"error": {"message": said}})]
    if code == 200:
        replies += [completion(said), completion(None, finish_reason="x") | {"error": said}]
    for reply in replies:
        result = await Endpoint(reply).scorer(mode="generate").score(ASKED)
        shown = f"{result}{caplog.text}"
        assert KEY[:9] not in shown


def test_only_known_arguments_of_chat_templates_are_passed_on() -> None:
    turns = [{"role": "user", "content": "?"}]
    for name in ("chat_template", "tokenize", "tools", "messages", "add_generation_prompt"):
        with pytest.raises(ValueError, match=f"chat_template_kwargs.{name}"):
            ChatRequest.model_validate({"messages": turns, "chat_template_kwargs": {name: "x"}})
    given = {"enable_thinking": False, "reasoning_effort": "low"}
    request = ChatRequest.model_validate({"messages": turns, "chat_template_kwargs": given})
    assert request.passed_on["chat_template_kwargs"] == given
