from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from reward_serve.child_process import ChildProcess
from reward_serve_answers.values import UndecidedError, VerifierError

HERE = __name__


def echo(text: str) -> str:
    print("what a library prints is no answer")  # noqa: T201
    return text


def own_id() -> int:
    return os.getpid()


def act(how: str) -> str:
    if how == "raise":
        raise ValueError("no such thing")
    if how == "die":
        os._exit(3)
    if how == "fill":
        return str(len(bytearray(3 * 2**30)))
    if how == "hang":
        9**9**9  # one call of C code that no handler interrupts
    return how


@pytest.fixture
def child() -> Iterator[ChildProcess]:
    child = ChildProcess(f"{HERE}:act", limit_s=0.3)
    yield child
    child.close()


async def test_it_returns_what_the_function_does() -> None:
    child = ChildProcess(f"{HERE}:echo", limit_s=5)
    for text in ("18", "two\nlines", "\u2028 \U0001f600", "x" * 300_000):
        assert await child.call(text) == text
    child.close()


async def test_a_call_that_takes_too_long_is_ended_and_the_next_is_answered(
    child: ChildProcess,
) -> None:
    assert await child.call("warm") == "warm"
    with pytest.raises(UndecidedError) as caught:
        await child.call("hang")
    assert caught.value.rule == "too_slow"
    assert await child.call("again") == "again"


@pytest.mark.parametrize("how", ["raise", "fill"])
async def test_what_cannot_be_computed_is_undecided(how: str, child: ChildProcess) -> None:
    with pytest.raises(UndecidedError) as caught:
        await child.call(how)
    assert caught.value.rule == "not_computed"
    assert await child.call("again") == "again"


async def test_a_process_that_dies_is_an_error_and_started_again(child: ChildProcess) -> None:
    with pytest.raises(VerifierError, match="exit code 3"):
        await child.call("die")
    assert await child.call("again") == "again"


async def test_closing_ends_the_process() -> None:
    child = ChildProcess(f"{HERE}:own_id", limit_s=5)
    number = await child.call()
    child.close()
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


async def test_a_process_that_is_stopped_is_replaced_and_the_next_call_is_answered() -> None:
    child = ChildProcess(f"{HERE}:own_id", limit_s=0.1)
    number = await child.call()
    os.kill(number, signal.SIGSTOP)  # it uses no CPU time
    with pytest.raises(VerifierError, match="did not answer within 2 s"):
        await child.call()
    assert await child.call() != number
    child.close()
