"""What the sandboxed interpreter runs, started with ``-c``: a program, or the code of its tests.

The argument is the mode. Descriptor 0 gives frames, each a line with its length and then its bytes.
The first is the source; in mode ``stdin`` the program's own input follows. In mode ``calls`` each
further frame is a call, answered by a line with a literal. In mode ``tests`` each is a test, which
asks for calls of the program in another process.
"""

from __future__ import annotations

import builtins
import os
import sys

TYPE_CHECKING = False  # importing typing would double the time of a start
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

READY = b"\n"  # written before the program is read

# What programs for LeetCode's and LiveCodeBench's function forms use without importing it.
_STARTER = {
    "typing": "Any Callable Dict Iterable List Optional Sequence Set Tuple Union",
    "collections": "collections Counter OrderedDict defaultdict deque",
    "functools": "functools cache cmp_to_key lru_cache reduce",
    "heapq": "heapq heapify heappop heappush",
    "itertools": "itertools accumulate chain combinations groupby permutations product",
    "bisect": "bisect bisect_left bisect_right insort",
    "math": "math ceil comb floor gcd inf isqrt sqrt",
}
_SCALARS: tuple[Any, ...] = (bool, int, float, str, bytes)
_ITERABLES = ("range", "deque", "dict_keys", "dict_values", "dict_items")
_MAKERS: dict[str, Any] = {
    "list": list,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "dict": dict,
    "iterator": iter,
    "float": float,  # from a text: inf and nan are no literals
    "complex": lambda parts: complex(*parts),
}


class UnsendableError(TypeError):
    """The value is no plain data, so it cannot pass between the processes."""


def plain(value: Any) -> Any:
    """Nested lists of scalars that ``value_of`` reads; raises ``UnsendableError`` if impossible."""
    if isinstance(value, float) and value - value != 0:
        return ["float", float.__repr__(value)]
    if value is None or type(value) in _SCALARS:
        return value
    for scalar in _SCALARS:
        if isinstance(value, scalar):
            return scalar(value)
    if isinstance(value, complex):
        return ["complex", [plain(value.real), plain(value.imag)]]
    for kind in ("list", "tuple", "set", "frozenset"):
        if isinstance(value, _MAKERS[kind]):
            return [kind, [plain(item) for item in value]]
    if isinstance(value, dict):
        return ["dict", [["tuple", [plain(key), plain(item)]] for key, item in value.items()]]
    if hasattr(value, "__next__") or type(value).__name__ in _ITERABLES:
        return ["iterator", [plain(item) for item in value]]
    raise UnsendableError(f"a {type(value).__name__} is no plain data")


def value_of(data: Any) -> Any:
    """The value; raises ``ValueError``, ``TypeError`` or ``LookupError`` for other data."""
    if not isinstance(data, list):
        return data
    kind, items = data
    return _MAKERS[kind](items if kind == "float" else [value_of(item) for item in items])


def frame(data: bytes) -> bytes:
    """The bytes, with their length."""
    return b"%d\n%b" % (len(data), data)


def _frames(descriptor: int) -> Iterator[bytes]:
    while True:
        length, byte = b"", b""
        while byte != b"\n":  # what follows the frame may be the program's to read
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
    builtins.exit = builtins.quit = sys.exit  # type: ignore[assignment]  # site is not imported
    sys.argv = ["main.py"]
    sys.modules[name] = module = type(sys)(name)
    code = compile(source, "main.py", "exec")
    if name != "__main__":
        _add_starter(code)
    exec(code, module.__dict__)
    return module.__dict__


def _add_starter(code: Any) -> None:
    """Make a builtin of each name that the code uses and the starter has."""
    for module, members in _STARTER.items():
        for member in set(members.split()).intersection(code.co_names):
            imported = __import__(module)
            setattr(builtins, member, getattr(imported, member, imported))
    for constant in code.co_consts:
        if hasattr(constant, "co_names"):
            _add_starter(constant)


def _private_channels() -> tuple[Iterator[bytes], Callable[..., None]]:
    """Frames, and what writes a reply; the program's own input and output are empty."""
    received, replies = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)

    def write(*reply: Any) -> None:
        data = ascii(list(reply)).encode() + b"\n"
        while data:
            data = data[os.write(replies, data) :]

    return _frames(received), write


def _answer_calls() -> None:
    """Load the program and call its functions, or the methods of its ``Solution``."""
    received, write = _private_channels()
    names = _run(next(received), "solution")
    for call in received:
        name, arguments, named = eval(call)
        function = names.get(name) or getattr(names.get("Solution", object)(), name, None)
        try:
            if function is None:
                raise NameError(f"the program defines no {name}")
            write("value", plain(function(*value_of(arguments), **value_of(named))))
        except BaseException as error:
            write("error", type(error).__name__, str(error)[:300])


def _run_tests() -> None:
    """Run tests, whose calls of the program the process outside passes on."""
    received, write = _private_channels()
    raised = list[BaseException]()  # by the program

    def proxy(name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            write("call", name, plain(arguments), plain(named))
            kind, *reply = eval(next(received))
            if kind == "value":
                return value_of(*reply)
            raised.append(_exception(*reply))
            raise raised[-1]

        return call

    def run(code: str | bytes, names: dict[str, Any], own_faults: Any) -> None:
        try:
            exec(compile(code, "tests.py", "exec"), names)
            write("passed", "")
        except BaseException as error:
            unusable = isinstance(error, own_faults) and error not in raised
            reason = f"{type(error).__name__}: {error}"[:300].removesuffix(": ")
            write("unusable" if unusable else "failed", reason)

    names: dict[str, Any] = {"__name__": "tests"}
    setup, called = eval(next(received))
    run(setup, names, BaseException)
    names |= {name: proxy(asked) for name, asked in called.items()}
    for test in received:
        run(test, dict(names), (NameError, ImportError, UnsendableError))
        raised.clear()


def _exception(kind: str, message: str) -> Exception:
    """An exception of the kind that the program raised, if it is one of Python's own."""
    error = getattr(builtins, kind, None)  # the program chooses the name, which may be "exec"
    if isinstance(error, type) and issubclass(error, Exception):
        try:
            return error(message)
        except TypeError:  # it takes other arguments
            pass
    return RuntimeError(f"{kind}: {message}")


def main(mode: str) -> None:
    """Say that this process is ready for its limits, and run the mode."""
    import resource

    resource.setrlimit = lambda *_: None  # which programs call by habit, for the stack
    if os.geteuid() == 0:  # give root's capabilities up
        import ctypes

        version = (0x20080522).to_bytes(4, sys.byteorder) + bytes(4)
        ctypes.CDLL(None).capset(version, bytes(24))
    os.write(1, READY)
    if mode == "stdin":
        _run(next(_frames(0)), "__main__")
    else:
        {"calls": _answer_calls, "tests": _run_tests}[mode]()


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["calls"]))
