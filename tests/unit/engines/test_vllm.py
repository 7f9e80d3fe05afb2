"""What of the vLLM engines needs no vLLM; tests/service/integration shows the rest."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reward_serve.config.engine import EngineConfig
from reward_serve.engines import vllm
from reward_serve.engines.vllm import Progress, VllmRunner, dtype_of, instruction_set
from tests.rows import rows
from tests.virtual_time import in_virtual_time


class FakeEngine(VllmRunner):
    """Without vLLM; its probe succeeds or fails."""

    def __init__(self, progress: Progress, *, errored: bool = False, answers: bool = False) -> None:
        llm: Any = SimpleNamespace(errored=errored)
        config: Any = SimpleNamespace(stall_timeout_s=60)
        self._llm, self._config, self._progress, self._answers = llm, config, progress, answers

    async def _probe(self) -> None:
        with self._progress.request():
            if not self._answers:
                raise TimeoutError


async def after(*happenings: str | float) -> Progress:
    """An engine's progress after these calls, and seconds between them."""
    progress, requests = Progress(), list[Any]()
    for happening in happenings:
        match happening:
            case "submitted":
                requests.append(progress.request())
                requests[-1].__enter__()
            case "advanced":
                progress.advanced()
            case "answered":
                requests.pop().__exit__(None, None, None)
            case "abandoned":
                requests.pop().__exit__(TimeoutError, TimeoutError(), None)
            case seconds:
                await asyncio.sleep(float(seconds))
    return progress


@pytest.mark.parametrize(
    ("happenings", "stalled_s"),
    [*rows(__file__, "stalls"), (["submitted", 20, "abandoned"] * 3, 60)],
)
@in_virtual_time
async def test_a_stall_is_since_the_last_output(happenings: list[Any], stalled_s: int) -> None:
    assert (await after(*happenings)).stalled_s == stalled_s


@in_virtual_time
async def test_a_dead_or_hung_engine_is_a_failure_and_a_slow_one_is_not() -> None:
    hung = ("submitted", 59.0, "abandoned", "submitted", 2.0)
    dead = FakeEngine(await after(), errored=True)
    assert await dead.fatal_error() == "the engine core died"
    assert await FakeEngine(await after()).fatal_error() is None
    assert "no output for 61 s" in str(await FakeEngine(await after(*hung)).fatal_error())
    assert await FakeEngine(await after(*hung), answers=True).fatal_error() is None


@pytest.mark.parametrize(("flags", "limit", "name"), rows(__file__, "flags"))
def test_the_instruction_set_is_the_most_capable_that_onednn_may_use(
    flags: str, limit: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", limit)
    file = tmp_path / "cpuinfo"
    file.write_text(f"processor\t: 0\nflags\t\t: {flags}\nbugs\t\t: amx_int8\n", encoding="utf-8")
    assert instruction_set(file) == name
    assert instruction_set(tmp_path / "nowhere") == "other"


@pytest.mark.parametrize(("instructions", "settings", "dtype"), rows(__file__, "types"))
def test_auto_is_the_fastest_type_in_which_the_shipped_judge_was_measured(
    instructions: str, settings: dict[str, Any], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vllm, "instruction_set", lambda: instructions)
    assert dtype_of(EngineConfig(device="cpu", **settings)) == dtype
