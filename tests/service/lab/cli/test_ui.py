import socket

import pytest
from typer.testing import CliRunner

from reward_serve.cli.main import cli
from tests.fake_service import free_port

runner = CliRunner(env={"COLUMNS": "200", "TERM": "dumb"})


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["--log", "/no/such/folder"], "--log: /no/such/folder does not exist"),
        (["--url", "ftp://example"], "--url: 'ftp://example' is not an HTTP URL"),
        (["--url", "http://[::1"], "--url:"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(arguments: list[str], fault: str) -> None:
    reply = runner.invoke(cli, ["ui", "--port", str(free_port()), *arguments])
    assert (reply.exit_code, fault in reply.output) == (2, True), reply.output


def test_a_port_that_is_taken_is_named_and_no_address_printed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        reply = runner.invoke(cli, ["ui", "--port", str(port)])
    assert (reply.exit_code, "choose another --port" in reply.output) == (1, True)
    assert "token" not in reply.output


def test_a_key_that_no_header_carries_is_refused_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REWARD_SERVE_API_KEY", "s\u00e9cret")
    reply = runner.invoke(cli, ["ui", "--port", str(free_port())])
    assert (reply.exit_code, "REWARD_SERVE_API_KEY" in reply.output) == (2, True)
    assert "s\u00e9cret" not in reply.output
