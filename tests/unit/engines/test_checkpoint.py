from __future__ import annotations

import json
import struct
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from reward_serve.engines.checkpoint import (
    CheckpointError,
    check_checkpoint,
    check_hub_id,
    folder_digest,
    is_folder,
)
from reward_serve.engines.vllm import check_classifier
from tests.fake_service import dead_url

HEADER = {
    "__metadata__": {"format": "pt"},
    "b": {"dtype": "F32", "shape": [2], "data_offsets": [8, 16]},
    "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
}
TEXT = json.dumps(HEADER).encode()
SAFETENSORS = struct.pack("<Q", len(TEXT)) + TEXT + bytes(16)
INDEX = {"weight_map": {"a": "model.safetensors", "b": "model-2.safetensors"}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint that is whole."""
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "llama"}', encoding="utf-8")
    (folder / "tokenizer.json").write_text("{}", encoding="utf-8")
    (folder / "model.safetensors").write_bytes(SAFETENSORS)
    return folder


@pytest.mark.parametrize("tokenizer", ["tokenizer.json", "tokenizer.model", "tekken.json"])
@pytest.mark.parametrize("weights", ["model.safetensors", "pytorch_model.bin", "model.gguf"])
def test_a_whole_checkpoint_is_its_folder(
    tokenizer: str, weights: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(folder.parent))
    (folder / "tokenizer.json").rename(folder / tokenizer)
    (folder / "model.safetensors").rename(folder / weights)
    assert check_checkpoint(str(folder)) == check_checkpoint("~/checkpoint") == folder


def test_a_missing_folder_is_reported_with_what_to_give_instead(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no folder .*nowhere.*hub id"):
        check_checkpoint(str(tmp_path / "nowhere"))


FAULTS: dict[str, tuple[str, bytes | None]] = {
    r"config\.json is missing .*No such file": ("config.json", None),
    r"config\.json is .*not JSON \(Expecting": ("config.json", b'{"a": '),
    r"has no tokenizer": ("tokenizer.json", None),
    r"has no weights": ("model.safetensors", None),
    r"model\.safetensors is .*truncated": ("model.safetensors", SAFETENSORS[:-1]),
    r"model-2\.safetensors is .*truncated": ("model-2.safetensors", SAFETENSORS[:40]),
    r"model-2\.safetensors is unreadable": (
        "model.safetensors.index.json",
        json.dumps(INDEX).encode(),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_reported_with_the_file_and_the_remedy(fault: str, folder: Path) -> None:
    name, content = FAULTS[fault]
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(content)
    with pytest.raises(CheckpointError, match=rf"engine\.model: .*{fault}") as caught:
        check_checkpoint(str(folder))
    assert str(folder) in str(caught.value)
    assert "copy the model again" in str(caught.value) or "in the same folder" in str(caught.value)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("/models/judge", True),
        ("../judge", True),
        ("~/judge", True),
        ("models/judges/mine", True),
        ("here/inside", True),
        ("Qwen/Qwen2.5-1.5B-Instruct", False),
        ("gpt2", False),
    ],
)
def test_a_folder_is_distinguished_from_a_hub_id(
    model: str, expected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here" / "inside").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert is_folder(model) is expected


CHANGES: dict[str, Callable[[Path], object]] = {
    "an early byte": lambda f: change_byte(f, 0),
    "a late byte": lambda f: change_byte(f, -1),
    "size": lambda f: (f / "model.safetensors").write_bytes(bytes(3 * 2**20 + 1)),
    "a file more": lambda f: (f / "new.json").touch(),
    "name": lambda f: (f / "config.json").rename(f / "konfig.json"),
}


def change_byte(folder: Path, at: int) -> None:
    weights = bytearray((folder / "model.safetensors").read_bytes())
    weights[at] ^= 1
    (folder / "model.safetensors").write_bytes(weights)


@pytest.mark.parametrize("change", CHANGES)
def test_a_digest_changes_with_the_files_and_not_with_their_place(
    change: str, folder: Path
) -> None:
    (folder / "model.safetensors").write_bytes(bytes(3 * 2**20))
    before = folder_digest(folder)
    moved = folder.rename(folder.with_name("elsewhere"))
    assert folder_digest(moved) == before
    CHANGES[change](moved)
    assert folder_digest(moved) != before


def test_a_language_model_is_no_classifier(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"architectures": ["LlamaForSequenceClassification"]}')
    check_classifier(tmp_path)
    config.write_text('{"architectures": ["LlamaForCausalLM"]}')
    with pytest.raises(CheckpointError, match=r"is LlamaForCausalLM, not .* kind: judge"):
        check_classifier(tmp_path)


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
        self.wfile.write(json.dumps({"id": "org/judge", "gated": gated}).encode())

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), FakeHub)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", endpoint)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    yield
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("model", ["org/judge", "org/busy"])
def test_what_the_hub_has_or_may_have_later_is_left_to_the_engine(hub: None, model: str) -> None:
    check_hub_id(model)


@pytest.mark.parametrize(
    ("model", "revision"),
    [("org/absent", None), ("not a name", None), ("org/gated", None), ("org/judge", "none")],
)
def test_what_the_hub_does_not_give_is_refused_with_the_remedy(
    hub: None, model: str, revision: str | None
) -> None:
    with pytest.raises(CheckpointError, match=rf"{model}' is neither .*spelling.*HF_TOKEN"):
        check_hub_id(model, revision)


def test_without_the_hub_a_model_in_the_cache_is_served_and_another_refused(
    hub: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", dead_url())
    with pytest.raises(CheckpointError, match="--local-dir FOLDER"):
        check_hub_id("org/judge")
    repository = tmp_path / "models--org--judge"
    snapshot = repository / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}", encoding="utf-8")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0" * 40, encoding="utf-8")
    check_hub_id("org/judge")
