"""What one caller, data set, web page or endpoint could do to others, as an attack reported it.

A row's own service and the trainer's key: ``tests/unit/clients/test_verl.py``.
"""

import asyncio
import contextlib
import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import duckdb
import httpx
import psutil
import pytest

from reward_serve.app import ingress_options
from reward_serve.config.app import ServerConfig
from reward_serve.config.models import JudgeModel
from reward_serve.engines.base import Prompt, RefusedError, Sampling
from reward_serve.engines.openai import OpenAIEngine
from reward_serve.http import api
from reward_serve.reward_models.chat import ChatRequest
from reward_serve.schema import Status, failure
from reward_serve_lab.evaluation import rescored
from reward_serve_lab.evaluation.rescored import RescoreError, read_rollouts
from reward_serve_lab.logs.query import Filters, ask
from reward_serve_lab.logs.steps import by_step
from reward_serve_lab.logs.table import VerdictTable
from tests.fake_ingress import BEARER, GOOD, KEYS, OTHER_BEARER, served
from tests.fake_service import FakeService, Reply
from tests.rows import rows
from tests.service.cli.test_serve import Service, until
from tests.service.engines.test_openai import ASKED, KEY, Endpoint, completion
from tests.unit.lab.fakes import invoke, written


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


async def test_half_open_bodies_count_for_their_key_and_others_have_their_places() -> None:
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
    assert "send 65536 bytes/s" in json.loads(body["body"])["detail"]


@pytest.mark.parametrize("sent", rows(__file__, "headers"))
def test_a_keyless_loopback_service_refuses_what_a_page_could_send(sent: dict[str, str]) -> None:
    simple = {"Content-Type": "text/plain", **sent}
    local, remote, keyed = served(), served(), served(KEYS)
    local.base_url = keyed.base_url = "http://127.0.0.1:8000"  # which becomes scope["server"]
    remote.base_url = "http://10.0.0.1:8000"
    content = json.dumps(GOOD)
    reply = local.post("/v1/score", content=content, headers=simple)
    assert reply.status_code == 403
    assert f"{next(iter(sent))}: " in reply.json()["detail"]
    local.base_url = "http://[::ffff:127.0.0.1]:8000"  # of a service at [::]
    assert local.get("/v1/models", headers={"Host": "localhost", **sent}).status_code == 403
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


@pytest.mark.parametrize("url", rows(__file__, "urls"))
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
        at = {"model": "m", "base_url": f"{endpoint.url}/v1", "max_retries": 0}
        config = JudgeModel.model_validate({"name": "m", "kind": "remote", "remote": at})
        with pytest.raises(RuntimeError, match=r"the endpoint .*307"):
            await OpenAIEngine(config).generate(Prompt(()), Sampling(8))
        assert (len(endpoint.calls), len(inside.calls)) == (1, 0)


@pytest.mark.parametrize("code", [200, 400, 401, 429, 500])
@pytest.mark.parametrize("message", [f"unknown key {KEY}", "x" * 280 + KEY])
async def test_an_endpoints_echo_of_its_key_is_in_no_result(
    code: int, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    replies: list[Any] = [httpx.Response(code, json={"error": {"message": message}})]
    if code == 200:
        replies += [completion(message), completion(None, finish_reason="x") | {"error": message}]
        escaped = "".join(f"\\u{ord(c):04x}" for c in KEY)
        replies.append(
            httpx.Response(200, text=json.dumps(completion(message)).replace(KEY, escaped))
        )
    for reply in replies:
        result = await Endpoint(reply).scorer(mode="generate").score(ASKED)
        visible = f"{result}{caplog.text}"
        assert KEY[:9] not in visible


def test_only_known_arguments_of_chat_templates_are_passed_on() -> None:
    turns = [{"role": "user", "content": "?"}]
    for name in ("chat_template", "tokenize", "tools", "messages", "add_generation_prompt"):
        with pytest.raises(ValueError, match=f"chat_template_kwargs.{name}"):
            ChatRequest.model_validate({"messages": turns, "chat_template_kwargs": {name: "x"}})
    given = {"enable_thinking": False, "reasoning_effort": "low"}
    request = ChatRequest.model_validate({"messages": turns, "chat_template_kwargs": given})
    assert request.passed_on["chat_template_kwargs"] == given


HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"


@pytest.mark.parametrize("command", ["ask", "score", "eval", "attack", "rescore"])
def test_no_terminal_obeys_a_service(command: str, service: FakeService, tmp_path: Path) -> None:
    row = {"question": "9 + 9?", "response": "#### 18", "reference": "18", "correct": True}
    rows = written(tmp_path, row)
    arguments: dict[str, list[object]] = {
        "ask": ["?", "#### 18", "--url", service.url],
        "score": [rows, "--url", service.url, "--out", tmp_path / "out"],
        "eval": [rows, "--url", service.url],
        "attack": ["--url", service.url, "--family", "null_responses"],
        "rescore": [rows, "--with", service.url],
    }
    service.replies["/v1/score/batch"] = Reply({"detail": HOSTILE}, 422)
    refused = invoke(command, *arguments[command])
    failed = failure(Status.ERROR, HOSTILE, source="judge").model_dump(mode="json")
    service.replies["/v1/score/batch"] = Reply({"results": [failed]})
    answered = invoke(command, *arguments[command])
    printed = refused.output + answered.output
    assert r"\x1b]0;owned" in printed
    assert set(HOSTILE) & set(printed) <= set("]0;owned[2J31m")


def test_files_with_responses_are_their_owners_alone(service: FakeService, tmp_path: Path) -> None:
    rows = written(
        tmp_path, {"question": "?", "response": "18", "reference": "18", "correct": True}
    )
    out = {name: tmp_path / name for name in ("scored", "results", "page", "attacked", "rescored")}
    url = ("--url", service.url)
    invoke("score", rows, *url, "--out", out["scored"])
    invoke("eval", rows, *url, "--results", out["results"], "--html", out["page"])
    invoke("attack", *url, "--family", "null_responses", "--out", out["attacked"])
    invoke("rescore", rows, "--with", service.url, "--out", out["rescored"])
    assert {name: oct(file.stat().st_mode & 0o777) for name, file in out.items()} == (
        dict.fromkeys(out, "0o600")
    )


@pytest.mark.parametrize("field", ["score", "time", "step"])
def test_a_row_of_an_absurd_number_does_not_blind_the_workbench(field: str, tmp_path: Path) -> None:
    row = {"status": "ok", "model": "m", "time": 1.0, "step": 1, "score": 0.5, "run": "r"}
    rows = [row, *({**row, field: number} for number in (1e308, -1e308, 1e299))]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "verdicts-a.jsonl").write_text(lines, encoding="utf-8")
    table = VerdictTable([tmp_path])
    try:
        table.read_all()
        answer = ask(table, Filters(), 0)
        assert (answer.total, sum(answer.scores) >= 1) == (4, True)
        assert by_step(table, "r", "m")
        assert all(map(time.localtime, [verdict.time for verdict in answer.rows]))
    finally:
        table.close()


def test_a_parquet_name_is_no_pattern(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder := tmp_path / "score=0").mkdir()
    for name in ("a*", "ab", "score=0/p"):
        values = f"SELECT '{name}' AS response, 1.0 AS score"
        duckdb.execute(f"COPY ({values}) TO '{tmp_path / name}.parquet' (FORMAT parquet)")
    monkeypatch.chdir(tmp_path)
    rollouts, _ = read_rollouts(Path("a*.parquet"))
    assert [rollout.request["response"] for rollout in rollouts] == ["a*"]
    ((rollout,), _) = read_rollouts(folder / "p.parquet")
    assert rollout.score == 1.0  # of the row, not of its folder's name


@pytest.mark.parametrize("bound", ["MAX_LINE_BYTES", "MAX_BYTES"])
def test_rescore_has_a_bound(bound: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rescored, bound, 2**20)
    lines = 1 if bound == "MAX_LINE_BYTES" else 2**10
    row = json.dumps({"response": "x" * (2**22 // lines)}).encode() + b"\n"
    (file := tmp_path / "bomb.jsonl.gz").write_bytes(gzip.compress(row * lines))
    with pytest.raises(RescoreError, match=r"bomb.jsonl.gz:\d+: a row may have .* split them"):
        read_rollouts(file)


def test_a_parquet_bomb_is_refused_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rescored, "MAX_BYTES", 2**26)
    file = tmp_path / "bomb.parquet"
    values = "SELECT repeat('x', 100000) AS response FROM range(2000)"  # 200 MB in 2 KB
    duckdb.execute(f"COPY ({values}) TO '{file}' (FORMAT parquet, COMPRESSION zstd)")
    with pytest.raises(RescoreError, match="Out of Memory"):
        read_rollouts(file)


SCORES = "from reward_serve import RewardClient as C; print(C('reward', timeout_s=60).score({}))"


def test_ray_under_serve_is_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH"):  # of the tests' own cluster
        monkeypatch.delenv(name, raising=False)
    service, job = Service(tmp_path / "log", HOME=str(tmp_path)), tmp_path / "job"
    try:
        until(service.serves, 400, service.log)
        codes = list[int]()
        for process in psutil.Process(service.process.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                for here in {conn.laddr for conn in process.net_connections() if not conn.raddr}:
                    host = here.ip if here.ip not in ("0.0.0.0", "::") else "127.0.0.1"
                    url = f"http://{host}:{here.port}/api/job_agent/jobs/"
                    with contextlib.suppress(httpx.HTTPError):
                        body = {"entrypoint": f"touch {job}"}
                        codes.append(httpx.post(url, json=body, timeout=5).status_code)
        assert 401 in codes
        assert 200 not in codes
        time.sleep(5)
        assert not job.exists()
        assert (tmp_path / ".ray" / "reward_serve_token").stat().st_mode & 0o077 == 0

        lines = service.log().splitlines()
        (printed,) = [line for line in lines if line.startswith("for your own ray.init: ")]
        (by_handle,) = [line for line in lines if line.startswith("REWARD_SERVE_APP=reward ")]
        address = {"RAY_ADDRESS": by_handle.rpartition("=")[2], "HOME": str(tmp_path)}
        clean = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")} | address
        token = dict(setting.split("=", 1) for setting in printed.split()[4:])
        for command, variables in (
            (["-c", SCORES.format(GOOD)], {}),
            (["-m", "ray.scripts.scripts", "status"], token),
        ):
            done = subprocess.run(
                [sys.executable, *command],
                env=clean | variables, capture_output=True, text=True, timeout=120, check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            assert "score=1.0" in done.stdout or "Resources" in done.stdout
        stranger = clean | {"HOME": str(tmp_path / "elsewhere")}
        done = subprocess.run(
            [sys.executable, "-c", SCORES.format(GOOD)],
            env=stranger, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert "score=1.0" not in done.stdout
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(service.process.pid, signal.SIGTERM)
        service.process.wait(90)
