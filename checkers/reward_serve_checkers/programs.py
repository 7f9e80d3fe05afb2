r"""Runs a response's program against its tests, in the forms in which data sets keep them.

    check("```python\nprint(int(input()) + 1)```", '{"inputs": ["1"], "outputs": ["2"]}')

Results are compared here, outside the program's process. Where a test is code, it runs in a process
of its own, in which the program's functions are calls of the program's process. On a SandboxFusion
server it has no process of its own, so that there a program can pass by looking for the test.
"""

from __future__ import annotations

import ast
import builtins
import json
import math
import re
import secrets
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from reward_serve_checkers.fusion import RemoteProcess
from reward_serve_checkers.inside import plain, value_of
from reward_serve_checkers.sandbox import (
    Clock,
    Limits,
    Process,
    SandboxBusyError,
    StoppedError,
    sandbox_fault,
)

_SPARE = 2**16  # bytes that a program may write beyond the expected ones
_REPLY = 2**18  # bytes of a result, if the tests do not say which they expect
_DECIMAL = re.compile(rb"[+-]?\d{1,40}\.?\d{0,40}(?:[eE][+-]?\d{1,3})?")
_FENCE = re.compile(r"(`{3,}|~{3,})[ \t]*([\w+#.-]*)[^`]*")
_FORMS = (
    'send JSON: {"inputs": [...], "outputs": [...]}, with "fn_name" for a function; a list of '
    'assertions; {"test": ..., "entry_point": ...}; or {"setup": ..., "query": ...} for SQL'
)
_SQL = b"""
import sqlite3
def rows(setup, query):
    database = sqlite3.connect(":memory:")
    database.executescript(setup)
    return database.execute(query).fetchall()
"""


class UnusableTestsError(ValueError):
    """The reference holds no tests that can be run."""


class Outcome(NamedTuple):
    """Whether a program passed a test, and why not."""

    passed: bool
    reason: str = ""


class Call(NamedTuple):
    """A function's name, its arguments and the expected result."""

    name: str
    arguments: list[Any]
    expected: Any
    loose: bool = False  # tuples are lists
    wrapped: bool = False  # the expected result may be a list with the result alone, as in APPS


@dataclass(frozen=True)
class Tests:
    """Tests of a program.

    Attributes:
        form: of the cases. ``output``: input and expected output; ``call``: ``Call``; ``code``:
            code that raises if the test fails; ``query``: the SQL that makes a database.
        cases: at least one.
        setup: of codes: the code before them. Of databases: the gold query.
        names: what codes call, with the program's name of it.
    """

    form: str
    cases: Sequence[Any]
    setup: str = ""
    names: Mapping[str, str] = field(default_factory=dict)


def report(response: str, reference: str, settings: str) -> dict[str, Any]:
    """``check`` for another process: strings to JSON, with the settings as JSON.

    Returns:
        ``outcomes``, each a list of passed and reason, and how many ``tests`` there are; or a
        reason: ``unusable`` tests, a ``busy`` sandbox, or what ``failed``.
    """
    keywords = json.loads(settings)
    limits = Limits(**keywords.pop("limits"))
    try:
        outcomes, tests = check(response, reference, limits=limits, **keywords)
    except UnusableTestsError as error:
        return {"unusable": str(error)}
    except SandboxBusyError as error:
        return {"busy": str(error)}
    except Exception as error:  # a fault of ours says nothing about the program
        fault = None if keywords["url"] else sandbox_fault()
        return {"failed": fault or f"{type(error).__name__}: {error}"}
    return {"outcomes": outcomes, "tests": tests}


def check(
    response: str,
    reference: str,
    *,
    limits: Limits = Limits(),  # noqa: B008  # it is frozen
    all_needed: bool = False,
    language: str = "python",
    url: str | None = None,
) -> tuple[list[Outcome], int]:
    """Run the response's program against the tests, one after the other.

    Args:
        response: has the program, in a fenced block or as a whole.
        reference: the tests, as JSON.
        limits: of the time of the tests, and the memory.
        all_needed: stop at the first test that fails.
        language: of the program, in SandboxFusion's names; without a URL, Python.
        url: of a SandboxFusion server's ``/run_code``; None: the sandbox of this machine.

    Returns:
        The outcomes of the tests that were run, and how many tests there are.

    Raises:
        UnusableTestsError: the reference holds no tests, or they fail by themselves.
        SandboxError: the sandbox failed; ``SandboxBusyError`` if it has no capacity.
    """
    tests = read_tests(reference)
    program = last_program(response, "sql" if tests.form == "query" else language)
    if not program.strip():
        return [Outcome(False, "no program")], len(tests.cases)
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as folder, Clock(limits) as clock:
        start: Callable[..., Process | RemoteProcess] = partial(Process, folder=folder, clock=clock)
        if url is not None:
            start = partial(RemoteProcess, url=url, language=language, clock=clock)
        run = _Run(program.encode("utf-8", "replace"), tests, start)
        for case in tests.cases:
            try:
                clock.start_test()
                outcome = run.outcome(case)
            except StoppedError as stopped:
                run.stop()
                outcome = Outcome(False, str(stopped))
            outcomes.append(outcome)
            if all_needed and not outcome.passed:
                break
    return outcomes, len(tests.cases)


def last_program(response: str, language: str) -> str:
    """The last block fenced as this language, else the last one, else the whole text."""
    blocks: dict[bool, list[str]] = {}
    fence = ""
    for line in response.split("\n"):
        match = _FENCE.fullmatch(line.strip())
        if match and not fence:
            fence = match[1]
            block = blocks[match[2].lower() in (language, language[:2], f"{language}3")] = []
        elif match and match[1].startswith(fence) and not match[2]:
            fence = ""
        elif fence:
            block.append(line)
    last = blocks.get(True, blocks.get(False))
    return response if last is None else "\n".join(last)


def read_tests(reference: str) -> Tests:
    """The tests of a reference; raises ``UnusableTestsError`` if it holds none."""
    try:
        tests = _tests(json.loads(reference))
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        fault = f"holds no usable tests ({type(error).__name__}: {error})"
        raise UnusableTestsError(f"{fault[:300]}; {_FORMS}") from None
    if not tests.cases:
        raise UnusableTestsError(f"holds no tests; {_FORMS}")
    return tests


def _tests(data: Any) -> Tests:
    match data:
        case {"inputs": list(inputs), "outputs": list(outputs)}:
            pairs = list(zip(inputs, outputs, strict=True))
            if name := data.get("fn_name"):
                return Tests("call", [_call(str(name), *pair) for pair in pairs])
            return Tests("output", [(_text(given), _text(expected)) for given, expected in pairs])
        case [{"input": _, "output": _}, *_]:  # LiveCodeBench's own
            name = (data[0].get("metadata") or {}).get("func_name")
            fields = {"fn_name": name if data[0].get("testtype") != "stdin" else None}
            return _tests(
                fields | {f"{k}s": [test[k] for test in data] for k in ("input", "output")}
            )
        case {"test": str(test), "entry_point": str(name)}:
            code = f"{test}\ncheck(candidate)"
            name = name.removeprefix("Solution().")  # as LeetCodeDataset has it
            return _of_codes([code], data.get("prompt", ""), {"candidate": name, name: name})
        case {"test_list": list(codes)}:
            setup = [*data.get("test_imports", ()), data.get("test_setup_code", "")]
            return _of_assertions(codes, "\n".join(setup))
        case [str(), *_]:
            return _of_assertions(data, "")
        case {"setup": str() | list() as setup, "query": str(query)}:
            return Tests("query", [setup] if isinstance(setup, str) else setup, query)
    raise ValueError("its form is unknown")


def _text(value: Any) -> str:
    """An input or output, which APPS keeps as a list of lines too."""
    if value is None:
        raise ValueError("an input or output is null")
    return "\n".join(map(str, value)) if isinstance(value, list) else str(value)


def _call(name: str, given: Any, expected: Any) -> Call:
    if isinstance(given, str):  # LiveCodeBench: an argument a line
        arguments = [json.loads(line) for line in given.split("\n") if line.strip()]
        return Call(name, arguments, json.loads(expected), loose=True)
    return Call(name, list(given), expected, loose=True, wrapped=True)


def _of_assertions(codes: list[str], setup: str) -> Tests:
    codes = [code.replace("Solution().", "") for code in codes]
    calls = [_literal_call(code) for code in codes]
    return Tests("call", calls) if all(calls) else _of_codes(codes, setup, {})


def _literal_call(code: str) -> Call | None:
    """The call of ``assert name(literals) == literal``; None for any other code."""
    match ast.parse(code).body:
        case [
            ast.Assert(test=ast.Compare(ast.Call(ast.Name(name), given, []), [ast.Eq()], [gold]))
        ]:
            try:
                return Call(name, list(map(ast.literal_eval, given)), ast.literal_eval(gold))
            except ValueError:
                return None
    return None


def _of_codes(codes: list[str], setup: str, names: dict[str, str]) -> Tests:
    """Tests that call the names, or else what neither they nor the setup define."""
    bound, called, modules, dropped = set(dir(builtins)), set[str](), set[str](), set[str]()
    for node in (node for code in (setup, *codes) for node in ast.walk(ast.parse(code))):
        match node:
            case ast.Expr(ast.Call(ast.Name(name), given)) if set(map(type, given)) & {ast.Name}:
                dropped.add(name)
            case ast.Name(name, ast.Store()) | ast.FunctionDef(name) | ast.ClassDef(name):
                bound.add(name)
            case ast.alias(name, alias):
                bound.add(alias or name)
            case ast.Call(ast.Name(name)):
                called.add(name)
            case ast.Attribute(ast.Name(name)) if name in sys.stdlib_module_names:
                modules.add(name)
    imports = "".join(f"import {name}\n" for name in sorted(modules - bound))
    if not names:
        names = {name: name for name in called - bound}
        if "*" in bound:
            raise ValueError("they import with *: import each name")
        if classes := [name for name in names if name[0].isupper()]:
            raise ValueError(f"{classes[0]} is a class: its objects stay in the program's process")
    if changed := dropped.intersection(names):
        raise ValueError(f"{min(changed)} is to change its arguments, which it gets as copies")
    return Tests("code", codes, imports + setup, names)


class _Run:
    """The processes of a program and of the code of its tests, which live until one stops."""

    def __init__(
        self, program: bytes, tests: Tests, start: Callable[..., Process | RemoteProcess]
    ) -> None:
        self._program, self._tests, self._start = program, tests, start
        self._source = _SQL if tests.form == "query" else program
        self._functions: Process | RemoteProcess | None = None
        self._checks: Process | RemoteProcess | None = None

    def stop(self) -> None:
        """End the processes; the next test has new ones."""
        for process in (self._functions, self._checks):
            if process is not None:
                process.close()
        self._functions = self._checks = None

    def outcome(self, case: Any) -> Outcome:
        """The outcome of a test; raises ``StoppedError`` if a process ended."""
        match self._tests.form:
            case "output":
                return self._of_output(*case)
            case "call":
                return self._of_call(case)
            case "code":
                return self._of_code(case)
        return self._of_query(case)

    def _of_output(self, given: str, expected: str) -> Outcome:
        sent, gold = (text.encode("utf-8", "surrogatepass") for text in (given, expected))
        process = self._start("stdin", self._program)
        try:
            output = process.output(sent, 2 * len(gold) + _SPARE)
        finally:
            process.close()
        return _compared(same_output(output, gold), output.decode(errors="replace"), expected)

    def _of_call(self, call: Call) -> Outcome:
        sent = (call.name, plain(call.arguments), plain({}))
        kind, *reply = self._asked(sent, 4 * len(ascii(call.expected)) + _SPARE)
        if kind == "error":
            return Outcome(False, ": ".join(reply))
        value, expected = value_of(reply[0]), call.expected
        passed = value == expected
        if call.loose:
            value, expected = _as_lists(value), _as_lists(expected)
            passed = value == expected or (call.wrapped and [value] == expected)
        return _compared(passed, repr(value), repr(call.expected))

    def _asked(self, call: Sequence[Any], limit: int) -> list[Any]:
        """The program's reply to a call: "value" and its data, or "error", its kind and message."""
        if self._functions is None:
            self._functions = self._start("calls", self._source)
        self._functions.send(ascii(call).encode())
        line = self._functions.line(limit)
        try:
            match ast.literal_eval(line.decode()):
                case ["value", data]:
                    return ["value", plain(value_of(data))]
                case ["error", str(kind), str(message)]:
                    return ["error", kind, message]
        except (ValueError, TypeError, LookupError, SyntaxError, RecursionError, MemoryError):
            pass
        raise StoppedError("gave a reply that cannot be read")

    def _of_code(self, code: str) -> Outcome:
        if self._checks is None:
            setup = ascii((self._tests.setup, dict(self._tests.names))).encode()
            self._checks = self._start("tests", setup)
            if isinstance(self._checks, Process):
                self._reported(self._checks)
        if isinstance(self._checks, RemoteProcess):
            return self._in_one_process(code)
        self._checks.send(code.encode())
        return self._reported(self._checks)

    def _reported(self, checks: Process) -> Outcome:
        """What the tests say in the end; until then, pass their calls on."""
        while True:
            kind, *reply = ast.literal_eval(checks.line(_REPLY).decode())
            if kind != "call":
                break
            checks.send(ascii(self._asked(reply, _REPLY)).encode())
        if kind == "unusable":
            raise UnusableTestsError(
                f"the tests' code fails by itself ({reply[0]}); it has the program's functions "
                "and the standard library: add what else it needs as prompt or test_setup_code"
            )
        return Outcome(kind == "passed", reply[0])

    def _in_one_process(self, code: str) -> Outcome:
        passed = secrets.token_hex()  # written only after the test
        names = [f"{name} = {asked}" for name, asked in self._tests.names.items() if name != asked]
        parts = (self._tests.setup, self._program.decode(), *names, code, f"print({passed!r})")
        output = self._start("stdin", "\n".join(parts).encode()).output(b"", _REPLY)
        reached = output.rstrip().endswith(passed.encode())
        return Outcome(reached, "" if reached else "ended before its tests")

    def _of_query(self, database: str) -> Outcome:
        rows = list[Any]()
        for query in (self._tests.setup, self._program.decode()):
            kind, *reply = self._asked(("rows", plain([database, query]), plain({})), _REPLY)
            self.stop()
            if kind == "error" and not rows:
                raise UnusableTestsError(f"the gold query fails: {': '.join(reply)}")
            if kind == "error":
                return Outcome(False, ": ".join(reply))
            rows.append(value_of(reply[0]))
        expected, actual = rows
        passed = expected == actual
        if not _is_ordered(self._tests.setup):
            passed = Counter(expected) == Counter(actual)
        return _compared(passed, repr(actual), repr(expected))


def same_output(output: bytes, expected: bytes) -> bool:
    """Whether the words of each line are equal, or decimal numbers equal to six digits.

    Only ASCII's spaces separate words, and only its digits are numbers. Where the expected word is
    an integer, it must be written alike.
    """
    lines, gold = (
        [line.split() for line in text.strip().split(b"\n")] for text in (output, expected)
    )
    return len(lines) == len(gold) and all(
        len(words) == len(golds) and all(map(_same_word, words, golds))
        for words, golds in zip(lines, gold, strict=True)
    )


def _same_word(word: bytes, gold: bytes) -> bool:
    if word == gold:
        return True
    if gold.lstrip(b"+-").isdigit() or not (_DECIMAL.fullmatch(word) and _DECIMAL.fullmatch(gold)):
        return False
    return math.isclose(float(word), float(gold), rel_tol=1e-6, abs_tol=1e-9)


def _as_lists(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_as_lists(item) for item in value]
    if isinstance(value, dict):
        return {key: _as_lists(item) for key, item in value.items()}
    return value


def _compared(passed: bool, value: str, expected: str) -> Outcome:
    return Outcome(passed, "" if passed else f"gave {value[:60]!a} for {expected[:60]!a}")


def _is_ordered(query: str) -> bool:
    """Whether the outermost query orders its rows."""
    inner = re.compile(r"\([^()]*\)")
    while inner.search(query):
        query = inner.sub(" ", query)
    return re.search(r"\border\s+by\b", query, re.IGNORECASE) is not None
