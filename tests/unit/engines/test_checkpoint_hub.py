from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from reward_serve.engines.checkpoint import CheckpointError, check_hub_id
from tests.fake_service import dead_url

MODEL = "org/judge"


class FakeHub(BaseHTTPRequestHandler):
    """Answers by a model's name, as the hub does."""

    def do_GET(self) -> None:
        status, code = 200, ""
        if "absent" in self.path:
            status, code = 404, "RepoNotFound"
        elif "revision/none" in self.path:
            status, code = 404, "RevisionNotFound"
        elif "busy" in self.path:
            status = 503
        elif self.path.endswith("auth-check"):
            status, code = 403, "GatedRepo"
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.end_headers()
        gated = "manual" if "gated" in self.path else False
        self.wfile.write(json.dumps({"id": MODEL, "gated": gated}).encode())

    def log_message(self, *_: object) -> None: ...


@pytest.fixture(autouse=True)
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), FakeHub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", endpoint)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    yield
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("model", [MODEL, "org/busy"])
def test_what_the_hub_has_or_may_have_later_is_left_to_the_engine(model: str) -> None:
    check_hub_id(model)


@pytest.mark.parametrize(
    ("model", "revision", "remedy"),
    [
        ("org/absent", None, "check the spelling"),
        ("not a name", None, "check the spelling"),
        ("org/gated", None, "accept its terms"),
        (MODEL, "none", "engine.revision"),
    ],
)
def test_what_the_hub_does_not_give_is_refused_with_the_remedy(
    model: str, revision: str | None, remedy: str
) -> None:
    with pytest.raises(CheckpointError, match=remedy):
        check_hub_id(model, revision)


def test_a_hub_that_cannot_be_reached_is_named_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", dead_url())
    with pytest.raises(CheckpointError, match="--local-dir FOLDER"):
        check_hub_id(MODEL)


def test_a_model_in_the_cache_needs_no_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", dead_url())
    repository = tmp_path / "models--org--judge"
    snapshot = repository / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}", encoding="utf-8")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0" * 40, encoding="utf-8")
    check_hub_id(MODEL)
