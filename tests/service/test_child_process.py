import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from reward_serve.child_process import ChildProcess
from reward_serve_answers.values import UndecidedError, VerifierError


def act(how: str) -> str:
    print("what a library prints is no answer")  # noqa: T201
    if how == "raise":
        raise ValueError("no such thing")
    if how == "die":
        os._exit(3)
    if how == "fill":
        return str(len(bytearray(3 * 2**30)))
    if how == "hang":
        9**9**9  # one call of C code that no handler interrupts
    return str(os.getpid()) if how == "id" else how


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """This module, which a child does not find in the working directory."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))


@pytest.fixture
def child() -> Iterator[ChildProcess]:
    child = ChildProcess(f"{__name__}:act", limit_s=0.3)
    yield child
    child.close()


async def test_it_returns_what_the_function_does(child: ChildProcess) -> None:
    for text in ("18", "two\nlines", "\u2028 \U0001f600", "x" * 300_000):
        assert await child.call((text,)) == [text]


@pytest.mark.parametrize(
    ("how", "rule"), [("hang", "too_slow"), ("raise", "not_computed"), ("fill", "not_computed")]
)
async def test_what_takes_too_long_or_cannot_be_computed_is_undecided_and_the_next_is_answered(
    how: str, rule: str, child: ChildProcess
) -> None:
    assert await child.call(("warm",)) == ["warm"]
    (undecided,) = await child.call((how,))
    assert isinstance(undecided, UndecidedError)
    assert undecided.rule == rule
    assert await child.call(("again",)) == ["again"]


async def test_a_process_that_dies_is_an_error_and_started_again(child: ChildProcess) -> None:
    with pytest.raises(VerifierError, match="exit code 3"):
        await child.call(("die",))
    assert await child.call(("again",)) == ["again"]


async def test_a_process_that_is_stopped_is_replaced_and_closing_ends_the_next() -> None:
    child = ChildProcess(f"{__name__}:act", limit_s=0.1)
    (stopped,) = await child.call(("id",))
    os.kill(int(stopped), signal.SIGSTOP)  # it uses no CPU time
    with pytest.raises(VerifierError, match="did not answer within 2 s"):
        await child.call(("id",))
    (last,) = await child.call(("id",))
    assert last != stopped
    child.close()
    for ended in (stopped, last):
        with pytest.raises(ProcessLookupError):
            os.kill(int(ended), 0)
