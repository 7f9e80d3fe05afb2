"""Runs a response's program against its tests, in the forms in which data sets keep them.

The expected results are compared here, outside the program's process. Where a test is code, it runs
in a process of its own, in which the program's functions are calls of the program's process.
"""

from __future__ import annotations

import ast
import builtins
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from reward_serve_checkers.inside import UnsendableError, plain, value_of
from reward_serve_checkers.sandbox import Clock, Limits, Process, StoppedError

_SPARE = 2**16  # bytes that a program may write beyond the expected ones
_CODE_REPLY = 2**20  # bytes of one reply of a function or a test, if the test is code
_DECIMAL = re.compile(rb"[+-]?\d{1,40}\.?\d{0,40}(?:[eE][+-]?\d{1,3})?")
_FENCE = re.compile(r"(`{3,}|~{3,})[ \t]*([\w+#.-]*)[^`]*")
_FORMS = (
    'send JSON: {"inputs": [...], "outputs": [...]}, with "fn_name" for a function; a list of '
    'assertions; {"test": ..., "entry_point": ...}; or {"setup": ..., "query": ...} for SQL'
)
_SQL = """
import sqlite3
def rows(setup, query):
    database = sqlite3.connect(":memory:")
    database.executescript(setup)
    return database.execute(query).fetchall()
"""
_PYTHON = ("python", "python3", "py")


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
    loose: bool = False  # tuples are lists, and so may be a list with the result alone, as in APPS


@dataclass(frozen=True)
class Tests:
    """Tests of a program, in one of their forms.

    Attributes:
        pairs: of a program that reads and writes: its input and the expected output.
        calls: of functions.
        codes: of functions: code that raises if the test fails.
        setup: code that runs before ``codes``.
        names: what ``codes`` calls, and the program's name of it.
        databases: of an SQL query: the SQL that makes each database.
        query: the gold query.
    """

    pairs: Sequence[tuple[str, str]] = ()
    calls: Sequence[Call] = ()
    codes: Sequence[str] = ()
    setup: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    databases: Sequence[str] = ()
    query: str = ""

    def __len__(self) -> int:
        return len(self.pairs or self.calls or self.codes or self.databases)


def last_program(response: str, languages: Sequence[str] = _PYTHON) -> str:
    """The last block fenced as one of the languages, else the last one, else the whole text."""
    blocks: dict[bool, list[str]] = {}
    fence = ""
    for line in response.split("\n"):
        match = _FENCE.fullmatch(line.strip())
        if match and not fence:
            fence = match[1]
            block = list[str]()
            blocks[match[2].lower() in languages] = block
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
    except (ValueError, TypeError, SyntaxError, RecursionError) as error:
        fault = f"holds no usable tests ({type(error).__name__}: {error})"
        raise UnusableTestsError(f"{fault[:300]}; {_FORMS}") from None
    if not len(tests):
        raise UnusableTestsError(f"holds no tests; {_FORMS}")
    return tests


def _tests(data: Any) -> Tests:
    match data:
        case {"inputs": list(inputs), "outputs": list(outputs)}:
            pairs = list(zip(inputs, outputs, strict=True))
            if name := data.get("fn_name"):
                return Tests(calls=[_call(str(name), *pair) for pair in pairs])
            return Tests(pairs=[(_text(given), _text(expected)) for given, expected in pairs])
        case [{"input": _, "output": _}, *_]:  # LiveCodeBench's own
            name = (data[0].get("metadata") or {}).get("func_name")
            fields = {"fn_name": name if data[0].get("testtype") != "stdin" else None}
            fields |= {f"{key}s": [test[key] for test in data] for key in ("input", "output")}
            return _tests(fields)
        case {"test": str(test), "entry_point": str(name)}:
            prompt = str(data.get("prompt") or "")
            return _of_codes([f"{test}\ncheck(candidate)"], prompt, {"candidate": name, name: name})
        case {"test_list": list(codes)}:
            setup = [*(data.get("test_imports") or ()), data.get("test_setup_code") or ""]
            return _of_assertions(codes, "\n".join(setup))
        case [str(), *_]:
            return _of_assertions(data, "")
        case {"setup": str() | list() as setup, "query": str(query)}:
            return Tests(databases=[setup] if isinstance(setup, str) else setup, query=query)
        case _:
            raise ValueError("none of the forms")


def _text(value: Any) -> str:
    """An input or output, which APPS keeps as a list of lines too."""
    return "\n".join(map(str, value)) if isinstance(value, list) else str(value)


def _call(name: str, given: Any, expected: Any) -> Call:
    if isinstance(given, str):  # LiveCodeBench: an argument a line
        arguments = [json.loads(line) for line in given.split("\n") if line.strip()]
        return Call(name, arguments, json.loads(expected), loose=True)
    return Call(name, list(given), expected, loose=True)


def _of_assertions(codes: list[Any], setup: str) -> Tests:
    calls = [_literal_call(code) for code in codes]
    if all(calls):
        return Tests(calls=[call for call in calls if call])
    return _of_codes(codes, setup, {})


def _literal_call(code: str) -> Call | None:
    """The call of ``assert name(literals) == literal``; None for any other code."""
    match ast.parse(code).body:
        case [
            ast.Assert(
                test=ast.Compare(
                    left=ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]),
                    ops=[ast.Eq()],
                    comparators=[expected],
                )
            )
        ]:
            try:
                call = Call(
                    name, list(map(ast.literal_eval, arguments)), ast.literal_eval(expected)
                )
                plain(call.arguments)
            except (ValueError, UnsendableError):
                return None
            return call
    return None


def _of_codes(codes: list[str], setup: str, names: dict[str, str]) -> Tests:
    nodes = [node for code in codes for node in ast.walk(ast.parse(code))]
    ast.parse(setup)
    bound = set(dir(builtins))
    called = set[str]()
    modules = set[str]()
    for node in nodes:
        match node:
            case ast.Name(id=name, ctx=ast.Store()):
                bound.add(name)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name):
                bound.add(name)
            case ast.alias(name=name, asname=alias):
                bound.add(alias or name)
            case ast.Call(func=ast.Name(id=name)):
                called.add(name)
            case ast.Attribute(value=ast.Name(id=name)) if name in sys.stdlib_module_names:
                modules.add(name)
    imports = "".join(f"import {name}\n" for name in sorted(modules - bound))
    names = names or {name: name for name in called - bound}
    return Tests(codes=codes, setup=imports + setup, names=names)


def run(
    program: str, tests: Tests, limits: Limits, folder: str, *, all_needed: bool
) -> list[Outcome]:
    """Run the tests one after the other; if all are needed, until the first that fails.

    Args:
        program: Python; the SQL of a query if the tests have databases.
        tests: at least one.
        limits: of the time of the tests, and the memory.
        folder: the program's working folder, which is empty.
        all_needed: whether a failed test decides.

    Raises:
        SandboxError: the sandbox failed.
        UnusableTestsError: the tests fail whatever the program does.
    """
    outcomes: list[Outcome] = []
    with Clock(limits) as clock:
        run = _Run(program, tests, partial(Process, folder=folder, clock=clock, limits=limits))
        for case in tests.pairs or tests.calls or tests.codes or tests.databases:
            try:
                clock.start_test()
                outcome = run.outcome(case)
            except StoppedError as stopped:
                run.stop()
                outcome = Outcome(False, str(stopped))
            outcomes.append(outcome)
            if all_needed and not outcome.passed:
                break
    return outcomes


class _Run:
    """The processes of a program and of the code of its tests, which live until one stops."""

    def __init__(self, program: str, tests: Tests, start: Callable[[str, str], Process]) -> None:
        self._program, self._tests, self._start = program, tests, start
        self._functions: Process | None = None
        self._checks: Process | None = None

    def stop(self) -> None:
        """End the processes; the next test has new ones."""
        for process in (self._functions, self._checks):
            if process is not None:
                process.close()
        self._functions = self._checks = None

    def outcome(self, case: Any) -> Outcome:
        """The outcome of a test; raises ``StoppedError`` if a process ended."""
        if self._tests.pairs:
            return self._of_output(*case)
        if self._tests.calls:
            return self._of_call(case)
        return self._of_code(case) if self._tests.codes else self._of_query(case)

    def _of_output(self, given: str, expected: str) -> Outcome:
        gold = expected.encode("utf-8", "surrogatepass")
        process = self._start("stdin", self._program)
        try:
            output = process.output(given.encode("utf-8", "surrogatepass"), 2 * len(gold) + _SPARE)
        finally:
            process.close()
        return _compared(same_output(output, gold), output.decode(errors="replace"), expected)

    def _of_call(self, call: Call) -> Outcome:
        limit = 4 * len(json.dumps(plain(call.expected))) + _SPARE
        reply = self._ask([call.name, plain(call.arguments), plain({})], limit)
        if "error" in reply:
            return Outcome(False, ": ".join(reply["error"]))
        value, expected = reply["value"], call.expected
        passed = value == expected
        if call.loose:
            value, expected = _as_lists(value), _as_lists(expected)
            passed = value == expected or (isinstance(expected, list) and [value] == expected)
        return _compared(passed, repr(value), repr(call.expected))

    def _ask(self, call: list[Any], limit: int) -> dict[str, Any]:
        """The value, or kind and message of the error, of a call of the program."""
        if self._functions is None:
            self._functions = self._start("calls", self._program)
        self._functions.send(json.dumps(call).encode())
        line = self._functions.line(limit)
        try:
            match json.loads(line):
                case {"value": data}:
                    return {"value": value_of(data), "data": data}
                case {"error": [str(kind), str(message)]}:
                    return {"error": [kind, message]}
        except (ValueError, TypeError, LookupError, RecursionError):
            pass
        raise StoppedError("gave a reply that cannot be read")

    def _of_code(self, code: str) -> Outcome:
        if self._checks is None:
            setup = {"code": self._tests.setup, "names": dict(self._tests.names)}
            self._checks = self._start("tests", json.dumps(setup))
            self._reported(json.loads(self._checks.line(_CODE_REPLY)))
        self._checks.send(code.encode("utf-8", "surrogatepass"))
        while "call" in (report := json.loads(self._checks.line(_CODE_REPLY))):
            reply = self._ask(report["call"], _CODE_REPLY)
            reply = {"value": reply["data"]} if "data" in reply else reply
            self._checks.send(json.dumps(reply).encode())
        return self._reported(report)

    def _reported(self, report: dict[str, Any]) -> Outcome:
        if "unusable" in report:
            raise UnusableTestsError(
                f"the tests' code fails by itself ({report['unusable']}); it has the program's "
                "functions and the standard library: add what else it needs as prompt, or as "
                "test_setup_code"
            )
        return Outcome("passed" in report, report.get("failed", ""))

    def _of_query(self, database: str) -> Outcome:
        rows = list[Any]()
        for query in (self._tests.query, self._program):
            process = self._start("calls", _SQL)
            self._functions = process
            reply = self._ask(["rows", plain([database, query]), plain({})], _CODE_REPLY)
            self.stop()
            if "error" in reply and not rows:
                raise UnusableTestsError(f"the gold query fails: {': '.join(reply['error'])}")
            if "error" in reply:
                return Outcome(False, ": ".join(reply["error"]))
            rows.append(reply["value"])
        gold, own = rows
        ordered = gold == own if _is_ordered(self._tests.query) else Counter(gold) == Counter(own)
        return _compared(ordered, repr(own), repr(gold))


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
