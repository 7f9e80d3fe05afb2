"""What the sandboxed interpreter runs, started with ``-c``: a program, or the code of its tests.

The mode is the first argument, the memory in MiB the second. Descriptor 0 gives frames, each a line
with its length and then its bytes; the first is the source. In mode ``stdin`` the rest is the
program's own input. In mode ``calls`` each further frame is a call, answered by a line of JSON. In
mode ``tests`` each is a test, which may ask for calls of the program, in another process.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # importing typing would take a third of a start
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

READY = b"\n"  # written before the program is read

# What programs for LeetCode's and LiveCodeBench's function forms use without importing it.
_STARTER = """
import bisect, collections, functools, heapq, itertools, math, random, re, string
from bisect import bisect_left, bisect_right, insort
from collections import Counter, OrderedDict, defaultdict, deque
from functools import cache, cmp_to_key, lru_cache, reduce
from heapq import heapify, heappop, heappush
from itertools import accumulate, chain, combinations, groupby, permutations, product
from math import ceil, comb, floor, gcd, inf, isqrt, sqrt
from typing import *
"""


class UnsendableError(TypeError):
    """The value is no plain data, so it cannot pass between the processes."""


def plain(value: Any) -> Any:
    """JSON for a value made of Python's plain types, which ``value_of`` reads; iterators are read.

    Raises:
        UnsendableError: it holds a value of another type.
    """
    if value is None or type(value) in (bool, int, float, str):
        return value
    for scalar in (int, float, str):
        if isinstance(value, scalar):
            return scalar(value)
    for kind in ("list", "tuple", "set", "frozenset"):
        if isinstance(value, _MAKERS[kind]):
            return [kind, [plain(item) for item in value]]
    if isinstance(value, dict):
        return ["dict", [["tuple", [plain(k), plain(v)]] for k, v in value.items()]]
    if isinstance(value, bytes):
        return ["bytes", value.hex()]
    if isinstance(value, complex):
        return ["complex", [value.real, value.imag]]
    if hasattr(value, "__next__"):
        return ["iterator", [plain(item) for item in value]]
    raise UnsendableError(f"a {type(value).__name__} is no plain data")


_MAKERS: dict[str, Any] = {
    "list": list,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "dict": dict,
    "iterator": iter,
    "bytes": bytes.fromhex,
    "complex": lambda parts: complex(*parts),
}


def value_of(data: Any) -> Any:
    """The value of its JSON; raises ``ValueError``, ``TypeError`` or ``KeyError`` for any other."""
    if not isinstance(data, list):
        return data
    kind, items = data
    return _MAKERS[kind](items if kind == "bytes" else [value_of(item) for item in items])


def frame(data: bytes) -> bytes:
    """The bytes, with their length."""
    return b"%d\n%b" % (len(data), data)


def _frames(descriptor: int) -> Iterator[bytes]:
    while True:
        length, byte = b"", b""
        while byte != b"\n":  # the bytes that follow a frame may be the program's
            length += byte
            byte = os.read(descriptor, 1)
            if not byte:
                return
        data = bytearray()
        while len(data) < int(length) and (part := os.read(descriptor, int(length) - len(data))):
            data += part
        yield bytes(data)


def _run(source: bytes, name: str) -> dict[str, Any]:
    """Run a program as a module of this name; its names."""
    import builtins

    builtins.exit = builtins.quit = sys.exit  # type: ignore[assignment]  # site is not imported
    sys.argv = ["main.py"]
    module = type(sys)(name)
    sys.modules[name] = module
    if name != "__main__":
        exec(_STARTER, builtins.__dict__)  # where they are no functions of the program
    exec(compile(source, "main.py", "exec"), module.__dict__)
    return module.__dict__


def _private_channels() -> tuple[Iterator[bytes], Callable[[dict[str, Any]], None]]:
    """Frames, and what writes a line of JSON; the program's own input and output are empty."""
    from json import dumps

    descriptors = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)

    def write(reply: dict[str, Any]) -> None:
        data = dumps(reply).encode() + b"\n"
        while data:
            data = data[os.write(descriptors[1], data) :]

    return _frames(descriptors[0]), write


def answer_calls() -> None:
    """Load the program and call its functions, or its ``Solution``'s methods."""
    from json import loads

    frames, write = _private_channels()
    names = _run(next(frames), "solution")
    for call in frames:
        name, arguments, named = loads(call)
        try:
            function = names.get(name) or getattr(names["Solution"](), name)
        except (KeyError, AttributeError):
            write({"error": ["NameError", f"the program defines no {name}"]})
            continue
        try:
            reply = {"value": plain(function(*value_of(arguments), **value_of(named)))}
        except BaseException as error:
            reply = {"error": [type(error).__name__, str(error)[:300]]}
        write(reply)


def run_tests() -> None:
    """Run tests, whose calls of the program the process outside passes on."""
    from json import loads

    frames, write = _private_channels()
    setup = loads(next(frames))
    raised = list[BaseException]()  # by the program

    def proxy(name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            write({"call": [name, plain(list(arguments)), plain(named)]})
            reply = loads(next(frames))
            if "value" in reply:
                return value_of(reply["value"])
            raised.append(_exception(*reply["error"]))
            raise raised[-1]

        return call

    names: dict[str, Any] = {"__name__": "tests"}
    try:
        exec(compile(setup["code"], "tests.py", "exec"), names)
    except BaseException as error:
        write({"unusable": f"{type(error).__name__}: {error}"[:300]})
        return
    names |= {name: proxy(asked) for name, asked in setup["names"].items()}
    write({"passed": True})
    for test in frames:
        try:
            exec(compile(test, "tests.py", "exec"), dict(names))
            reply: dict[str, Any] = {"passed": True}
        except BaseException as error:
            mine = isinstance(error, NameError | UnsendableError) and error not in raised
            text = f"{type(error).__name__}: {error}"[:300]
            reply = {"unusable" if mine else "failed": text.removesuffix(": ")}
        raised.clear()
        write(reply)


def _exception(kind: str, message: str) -> Exception:
    """An exception of the kind that the program raised, if it is one of Python's own."""
    import builtins

    try:
        error = getattr(builtins, kind)(message)
    except (AttributeError, TypeError):
        error = None
    return error if isinstance(error, Exception) else RuntimeError(f"{kind}: {message}")


def main(mode: str, memory_mib: int) -> None:
    """Limit this process, say that it is ready and run the mode."""
    import resource

    for limit, most in (
        (resource.RLIMIT_AS, memory_mib << 20),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
    ):
        resource.setrlimit(limit, (most, most))
    os.write(1, READY)
    if mode == "stdin":
        _run(next(_frames(0)), "__main__")
    else:
        {"calls": answer_calls, "tests": run_tests}[mode]()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
