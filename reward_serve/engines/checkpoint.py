"""Checks a checkpoint folder or hub id before an engine spends half a minute on a bad one."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "tekken.json")
_WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.gguf")
_HUB_TIMEOUT_S = 10.0


class CheckpointError(RuntimeError):
    """A checkpoint cannot be served; the message says how to fix it."""


def is_folder(model: str) -> bool:
    """Whether ``model`` is a folder, not a hub id."""
    return model.startswith(("/", "./", "../", "~")) or model.count("/") > 1 or Path(model).exists()


def check_checkpoint(model: str) -> Path:
    """The folder; raises ``CheckpointError`` if a file is missing or truncated."""
    from safetensors import SafetensorError, safe_open

    folder = Path(model).expanduser()
    if not folder.is_dir():
        raise CheckpointError(
            f"engine.model: there is no folder {model!r}; give a folder that exists on every node "
            "that may run a replica, a hub id such as Qwen/Qwen3-4B-Instruct-2507, or 'bundled'"
        )
    read_json(folder / "config.json")
    if not any((folder / name).is_file() for name in _TOKENIZERS):
        raise CheckpointError(
            f"engine.model: {folder} has no tokenizer (looked for {', '.join(_TOKENIZERS)}); "
            "save the tokenizer in the same folder"
        )
    if not any(any(folder.glob(pattern)) for pattern in _WEIGHTS):
        raise CheckpointError(f"engine.model: {folder} has no weights; copy the model again")
    index = folder / "model.safetensors.index.json"
    indexed = read_json(index).get("weight_map", {}) if index.is_file() else {}
    for shard in {*folder.glob("*.safetensors"), *map(folder.joinpath, indexed.values())}:
        try:
            with safe_open(shard, framework="np"):
                pass  # the header parses, and the tensors fill the rest of the file
        except (OSError, SafetensorError) as error:
            raise CheckpointError(
                f"engine.model: {shard} is unreadable, truncated or not a safetensors file "
                f"({error}); copy the model again"
            ) from None
    return folder


def check_kind(folder: Path, *, is_classifier: bool) -> None:
    """Check that a folder's model is of its kind; vLLM would add an untrained head to others.

    Raises:
        CheckpointError: it is not a classifier, or is a reward model served as a judge.
    """
    architectures = read_json(folder / "config.json").get("architectures") or ["of no architecture"]
    kinds = ("ForSequenceClassification", "ForProcessRewardModel")
    scores = any(name.endswith(kinds) for name in architectures)
    has_head = any("Reward" in name or kinds[0] in name for name in architectures)
    if has_head and not scores:
        fault = f"a reward model that vLLM cannot serve; serve a {' or '.join(kinds)} model"
    elif is_classifier and not scores:
        fault = f"not a {' or '.join(kinds)} model; serve a reward model, or use kind: judge"
    elif scores and not is_classifier:
        fault = "a reward model that writes no verdict; use kind: classifier"
    else:
        return
    raise CheckpointError(f"engine.model: {folder} is {', '.join(architectures)}, {fault}")


def check_hub_id(model: str, revision: str | None = None) -> None:
    """Ask the hub once for a model that is not in this machine's cache.

    Temporary failures of the hub are left to the engine, which retries.

    Raises:
        CheckpointError: the hub is unreachable, or has no such model for this account.
    """
    import httpx
    from huggingface_hub import HfApi, try_to_load_from_cache
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, OfflineModeIsEnabled

    hub = HfApi()
    try:
        if isinstance(try_to_load_from_cache(model, "config.json", revision=revision), str):
            return
        if hub.model_info(model, revision=revision, timeout=_HUB_TIMEOUT_S).gated:
            hub.auth_check(model)
    except (httpx.HTTPError, HFValidationError, OfflineModeIsEnabled) as error:
        if isinstance(error, HfHubHTTPError) and error.response.status_code not in (401, 403, 404):
            return
        reason = " ".join(str(error).split()) or type(error).__name__
        raise CheckpointError(
            f"engine.model: {model!r} is neither a folder nor in this machine's cache, and the hub "
            f"does not give it ({reason}); check its spelling and engine.revision, set HF_TOKEN to "
            "a token of an account that may read it and has accepted its terms, or, without "
            f"network access, serve a folder (hf download {model} --local-dir FOLDER)"
        ) from None


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


def read_json(path: Path) -> Any:
    """A checkpoint's file; raises ``CheckpointError`` if it is missing or not JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"engine.model: {path} is missing or not JSON ({error}); copy the model again"
        ) from None
