from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reward_serve.engines.checkpoint import (
    CheckpointError,
    check_checkpoint,
    folder_digest,
    is_folder,
)


def safetensors(header: Any = None, body: bytes = bytes(16)) -> bytes:
    if header is None:
        header = {
            "__metadata__": {"format": "pt"},
            "b": {"dtype": "F32", "shape": [2], "data_offsets": [8, 16]},
            "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
        }
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint that is whole."""
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "llama"}', encoding="utf-8")
    (folder / "tokenizer.json").write_text("{}", encoding="utf-8")
    (folder / "model.safetensors").write_bytes(safetensors())
    return folder


def test_a_whole_checkpoint_is_its_folder(folder: Path) -> None:
    assert check_checkpoint(str(folder)) == folder


def test_a_home_folder_is_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder.parent))
    assert check_checkpoint("~/checkpoint") == folder


@pytest.mark.parametrize("name", ["tokenizer.model", "vocab.json", "tekken.json"])
def test_another_tokenizer_file_will_do(name: str, folder: Path) -> None:
    (folder / "tokenizer.json").rename(folder / name)
    assert check_checkpoint(str(folder)) == folder


@pytest.mark.parametrize("name", ["pytorch_model.bin", "consolidated.pt", "model.gguf"])
def test_other_weights_will_do(name: str, folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / name)
    assert check_checkpoint(str(folder)) == folder


def test_a_missing_folder_is_reported_with_what_to_give_instead(tmp_path: Path) -> None:
    for missing in (tmp_path / "nowhere", tmp_path / "file"):
        (tmp_path / "file").touch()
        with pytest.raises(CheckpointError, match=r"no folder .*hub id") as caught:
            check_checkpoint(str(missing))
        assert str(missing) in str(caught.value)


def turn_into_a_folder(checkpoint: Path) -> None:
    (checkpoint / "config.json").unlink()
    (checkpoint / "config.json").mkdir()


FAULTS: list[tuple[str, Callable[[Path], object], str]] = [
    ("no config", lambda f: (f / "config.json").unlink(), r"cannot read .*config\.json"),
    ("a folder", turn_into_a_folder, r"cannot read .*config\.json"),
    (
        "broken JSON",
        lambda f: (f / "config.json").write_text('{"a": '),
        r"config\.json is not JSON",
    ),
    ("empty config", lambda f: (f / "config.json").write_text(""), r"config\.json is not JSON"),
    ("no text", lambda f: (f / "config.json").write_bytes(b"\xff\xfe{}"), r"config\.json is not"),
    ("no tokenizer", lambda f: (f / "tokenizer.json").unlink(), r"has no tokenizer"),
    ("no weights", lambda f: (f / "model.safetensors").unlink(), r"has no weights"),
    (
        "truncated",
        lambda f: (f / "model.safetensors").write_bytes(safetensors()[:-1]),
        r"model\.safetensors is .*truncated .*\(.*not fully covered",
    ),
    (
        "trailing bytes",
        lambda f: (f / "model.safetensors").write_bytes(safetensors() + b"\0"),
        r"model\.safetensors is .*truncated .*\(.*not fully covered",
    ),
    (
        "cut in the header",
        lambda f: (f / "model.safetensors").write_bytes(safetensors()[:40]),
        r"model\.safetensors is .*truncated .*\(.*invalid header length",
    ),
    (
        "header cut to the file",
        lambda f: (f / "model.safetensors").write_bytes(struct.pack("<Q", 10) + b'{"a": {"da'),
        r"model\.safetensors is .*truncated .*\(",
    ),
    (
        "empty",
        lambda f: (f / "model.safetensors").write_bytes(b""),
        r"model\.safetensors is .*truncated .*\(",
    ),
    (
        "a git-lfs pointer",
        lambda f: (f / "model.safetensors").write_text(
            f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 99\n"
        ),
        r"model\.safetensors is .*truncated .*\(",
    ),
    (
        "a second shard",
        lambda f: (f / "model-2.safetensors").write_bytes(safetensors()[:-1]),
        r"model-2\.safetensors is .*truncated",
    ),
    (
        "tensor without offsets",
        lambda f: (f / "model.safetensors").write_bytes(safetensors({"a": {"dtype": "F32"}})),
        r"model\.safetensors is .*truncated .*\(",
    ),
]


@pytest.mark.parametrize(
    ("damage", "message"), [fault[1:] for fault in FAULTS], ids=[fault[0] for fault in FAULTS]
)
def test_a_fault_is_reported_with_the_file_and_the_remedy(
    damage: Callable[[Path], object], message: str, folder: Path
) -> None:
    damage(folder)
    with pytest.raises(CheckpointError, match=rf"engine\.model: .*{message}") as caught:
        check_checkpoint(str(folder))
    assert str(folder) in str(caught.value)
    assert "copy the model again" in str(caught.value) or "in the same folder" in str(caught.value)


@pytest.mark.parametrize(
    "header",
    [
        pytest.param([], id="a list"),
        pytest.param({"a": {"data_offsets": [0]}}, id="one offset"),
        pytest.param({"a": {"data_offsets": [0, "16"]}}, id="an offset in quotes"),
    ],
)
def test_a_header_of_another_shape_is_reported_too(header: Any, folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(safetensors(header))
    with pytest.raises(CheckpointError):
        check_checkpoint(str(folder))


def test_weights_that_are_a_link_to_nowhere_are_reported(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to(folder / "../blobs/0123")
    with pytest.raises(CheckpointError):
        check_checkpoint(str(folder))


def test_a_shard_that_the_index_names_and_the_folder_lacks_is_reported(folder: Path) -> None:
    index = {"weight_map": {"a": "model.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    with pytest.raises(CheckpointError, match="model-00002-of-00002"):
        check_checkpoint(str(folder))


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("/models/judge", True),
        ("./judge", True),
        ("../judge", True),
        ("~/judge", True),
        ("models/judges/mine", True),
        ("here", True),
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


class TestDigest:
    def test_it_does_not_depend_on_where_the_folder_lies(self, folder: Path) -> None:
        before = folder_digest(folder)
        assert folder_digest(folder.rename(folder.with_name("elsewhere"))) == before
        assert len(before) == 12

    @pytest.mark.parametrize("at", [0, 5, 2**20 - 1, -(2**20), -1])
    def test_it_changes_with_a_byte_near_either_end_of_a_file(self, at: int, folder: Path) -> None:
        weights = bytearray(3 * 2**20)
        (folder / "model.safetensors").write_bytes(weights)
        before = folder_digest(folder)
        weights[at] = 1
        (folder / "model.safetensors").write_bytes(weights)
        assert folder_digest(folder) != before

    @pytest.mark.parametrize(
        "change",
        [
            pytest.param(lambda f: (f / "config.json").write_text("{}"), id="content"),
            pytest.param(lambda f: (f / "new.json").touch(), id="a file more"),
            pytest.param(lambda f: (f / "tokenizer.json").unlink(), id="a file less"),
            pytest.param(lambda f: (f / "config.json").rename(f / "konfig.json"), id="name"),
        ],
    )
    def test_it_changes_with_the_files(
        self, change: Callable[[Path], object], folder: Path
    ) -> None:
        before = folder_digest(folder)
        change(folder)
        assert folder_digest(folder) != before

    def test_it_changes_with_a_large_files_size(self, folder: Path) -> None:
        path = folder / "model.safetensors"
        path.write_bytes(bytes(3 * 2**20))
        before = folder_digest(folder)
        path.write_bytes(bytes(3 * 2**20 + 1))
        assert folder_digest(folder) != before
