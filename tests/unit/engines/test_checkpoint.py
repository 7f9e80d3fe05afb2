import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import huggingface_hub
import pytest
from huggingface_hub.utils._http import default_client_factory

from reward_serve.engines.checkpoint import (
    CheckpointError,
    check_checkpoint,
    check_hub_id,
    check_kind,
    folder_digest,
    is_folder,
)
from tests.rows import rows

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


@pytest.mark.parametrize(
    ("tokenizer", "weights"),
    [("tokenizer.json", "pytorch_model.bin"), ("tokenizer.model", "model.safetensors"),
     ("tekken.json", "model.gguf")],
)  # fmt: skip
def test_a_whole_checkpoint_is_its_folder(
    tokenizer: str, weights: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(folder.parent))
    (folder / "tokenizer.json").rename(folder / tokenizer)
    (folder / "model.safetensors").rename(folder / weights)
    assert check_checkpoint(str(folder)) == check_checkpoint("~/checkpoint") == folder
    with pytest.raises(CheckpointError, match=r"no folder .*nowhere.*hub id"):
        check_checkpoint(str(folder / "nowhere"))


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


def test_a_folder_is_told_from_a_hub_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here" / "inside").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    folders = ["/models/judge", "../judge", "~/judge", "models/judges/mine", "here/inside"]
    models = [*folders, "Qwen/Qwen2.5-1.5B-Instruct", "gpt2"]
    assert [model for model in models if is_folder(model)] == folders


def flip(folder: Path, at: int) -> None:
    weights = bytearray((folder / "model.safetensors").read_bytes())
    weights[at] ^= 1
    (folder / "model.safetensors").write_bytes(weights)


def test_a_digest_changes_with_the_files_and_not_with_their_place(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(bytes(3 * 2**20))
    before = folder_digest(folder)
    moved = folder.rename(folder.with_name("elsewhere"))
    assert folder_digest(moved) == before
    changes: list[Callable[[], object]] = [
        lambda: flip(moved, 0),
        lambda: flip(moved, -1),
        lambda: (moved / "model.safetensors").write_bytes(bytes(3 * 2**20 + 1)),
        lambda: (moved / "new.json").touch(),
        lambda: (moved / "config.json").rename(moved / "konfig.json"),
    ]
    digests = {before}
    for change in changes:
        change()
        digests.add(folder_digest(moved))
    assert len(digests) == 6


def test_a_language_model_is_no_classifier_and_a_reward_model_no_judge(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    for name in ("LlamaForSequenceClassification", "Qwen2ForProcessRewardModel"):
        config.write_text(json.dumps({"architectures": [name]}))
        check_kind(tmp_path, is_classifier=True)
        with pytest.raises(CheckpointError, match=rf"is {name}, a reward .* kind: classifier"):
            check_kind(tmp_path, is_classifier=False)
    for name in ("InternLM2ForRewardModel", "LlamaForSequenceClassificationWithNormal_Weights"):
        config.write_text(json.dumps({"architectures": [name]}))
        for is_classifier in (False, True):
            with pytest.raises(CheckpointError, match=rf"is {name}, .* that vLLM cannot serve"):
                check_kind(tmp_path, is_classifier=is_classifier)
    config.write_text('{"architectures": ["LlamaForCausalLM"]}')
    check_kind(tmp_path, is_classifier=False)
    with pytest.raises(CheckpointError, match=r"is LlamaForCausalLM, not .* kind: judge"):
        check_kind(tmp_path, is_classifier=True)


def answer_of_hub(request: httpx.Request) -> httpx.Response:
    """Answers by a model's name, as the hub does."""
    path, status, code = request.url.path, 200, ""
    if "away" in path:
        raise httpx.ConnectError("refused")
    if "absent" in path:
        status, code = 404, "RepoNotFound"
    elif "revision/none" in path:
        status, code = 404, "RevisionNotFound"
    elif "busy" in path:
        status = 503
    elif path.endswith("auth-check"):
        status, code = 403, "GatedRepo"
    body = {"id": "org/judge", "gated": "manual" if "gated" in path else False}
    return httpx.Response(status, headers={"X-Error-Code": code}, json=body, request=request)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    transport = httpx.MockTransport(answer_of_hub)
    huggingface_hub.set_client_factory(lambda: httpx.Client(transport=transport))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    yield
    huggingface_hub.set_client_factory(default_client_factory)


@pytest.mark.parametrize(("model", "revision", "is_given"), rows(__file__, "hub"))
def test_what_the_hub_does_not_give_is_refused_with_the_remedy(
    hub: None, model: str, revision: str | None, is_given: bool
) -> None:
    if is_given:
        check_hub_id(model, revision)
    else:
        with pytest.raises(CheckpointError, match=rf"{model}' is neither .*spelling.*HF_TOKEN"):
            check_hub_id(model, revision)


def test_without_the_hub_only_a_model_in_the_cache_is_served(hub: None, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="--local-dir FOLDER"):
        check_hub_id("org/away")
    repository = tmp_path / "models--org--away"
    snapshot = repository / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}", encoding="utf-8")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0" * 40, encoding="utf-8")
    check_hub_id("org/away")
