"""Checks a checkpoint before an engine spends half a minute on a broken or missing one."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path

_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "tekken.json")
_WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.gguf")


class CheckpointError(RuntimeError):
    """A checkpoint cannot be served; the message says how to fix it."""


def is_folder(model: str) -> bool:
    """Whether ``model`` is a folder, not a hub id."""
    return model.startswith(("/", "./", "../", "~")) or model.count("/") > 1 or Path(model).exists()


def check_checkpoint(model: str) -> Path:
    """Check that a checkpoint folder is complete, and return it.

    Raises:
        CheckpointError: a file is missing or truncated.
    """
    folder = Path(model).expanduser()
    if not folder.is_dir():
        raise CheckpointError(
            f"engine.model: there is no folder {model!r}; give a folder that exists on every node "
            "that may run a replica, a hub id such as Qwen/Qwen2.5-1.5B-Instruct, or 'bundled'"
        )
    _check_json(folder / "config.json")
    if not any((folder / name).is_file() for name in _TOKENIZERS):
        raise CheckpointError(
            f"engine.model: {folder} has no tokenizer (looked for {', '.join(_TOKENIZERS)}); "
            "save the tokenizer in the same folder"
        )
    if not any(any(folder.glob(pattern)) for pattern in _WEIGHTS):
        raise CheckpointError(f"engine.model: {folder} has no weights; copy the model again")
    for shard in {*folder.glob("*.safetensors"), *_indexed_shards(folder)}:
        _check_safetensors(shard)
    return folder


def folder_digest(folder: Path) -> str:
    """A digest of a checkpoint's files: each one's name, size, and first and last megabyte."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        size = path.stat().st_size
        digest.update(f"{path.name}:{size}:".encode())
        with path.open("rb") as file:
            digest.update(file.read(2**20))
            file.seek(max(0, size - 2**20))
            digest.update(file.read(2**20))
    return digest.hexdigest()[:12]


def _check_json(path: Path) -> None:
    try:
        json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CheckpointError(
            f"engine.model: cannot read {path}: {error.strerror}; copy the model again"
        ) from None
    except ValueError as error:
        raise CheckpointError(
            f"engine.model: {path} is not JSON ({error}); copy the model again"
        ) from None


def _indexed_shards(folder: Path) -> set[Path]:
    index = folder / "model.safetensors.index.json"
    if not index.is_file():
        return set()
    _check_json(index)
    weight_map = json.loads(index.read_text(encoding="utf-8")).get("weight_map", {})
    return {folder / name for name in weight_map.values()}


def _check_safetensors(path: Path) -> None:
    """The header must parse and end where the file does (safetensors format, version 1)."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > size:
                raise ValueError("the header is longer than the file")
            header = json.loads(file.read(length))
        ends = [
            tensor["data_offsets"][1] for name, tensor in header.items() if name != "__metadata__"
        ]
        expected = 8 + length + max(ends, default=0)
    except OSError as error:
        raise CheckpointError(
            f"engine.model: cannot read {path}: {error.strerror}; copy the model again"
        ) from None
    except (ValueError, LookupError, TypeError, AttributeError, struct.error) as error:
        raise CheckpointError(
            f"engine.model: {path} is not a safetensors file ({error}); copy the model again"
        ) from None
    if size != expected:
        raise CheckpointError(
            f"engine.model: {path} has {size} bytes, but its header says {expected}; it is "
            "truncated or modified: copy the model again"
        )
