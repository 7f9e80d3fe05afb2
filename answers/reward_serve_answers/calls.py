"""Whether an assistant's turn calls the expected tools with the expected arguments.

    expected = '{"name": "add", "arguments": {"a": 1, "b": 2}}'
    grade_calls([("add", '{"b": 2, "a": 1.0}')], expected).rule      # "calls_equal"

Arguments are compared as JSON: 1 is 1.0, true is not 1 and "1" is not 1, keys have no order and
lists do; numbers are compared exactly. A turn's text is read as Hermes and Qwen write calls, or as
JSON and nothing else.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from decimal import MAX_PREC, Context, Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

from reward_serve_answers.committed import MAX_RESPONSE
from reward_serve_answers.thinking import read_thinking
from reward_serve_answers.values import ABSTAINED, RIGHT, WRONG, Grade, UnusableReferenceError

_EXACT = Context(prec=MAX_PREC)
_Call = tuple[str, str]  # its name, and its arguments but for defaults, in one spelling
_Defaults = dict[str, dict[str, str]]  # of each tool's optional parameters, in the same spelling

# What other syntaxes of calls contain, in lower case. A text that only mentions one is left too.
_OTHER_SYNTAXES = (
    "tool_call", "tool▁call", "toolcall", "tool_request", "tool_use>", "tool_code", "action input:",
    "<function", "<start_function", "<invoke", "<arg_key>", "python_tag", "to=functions.",
)  # fmt: skip
_PYTHON_CALL = re.compile(  # [f(x=1)], f(1) on a line of its own, f(x=1) anywhere
    r"\[\s{0,9}[A-Za-z_][\w.]{0,99}\(|^[ \t]*[A-Za-z_][\w.]{0,99}\(.*\)[ \t]*$"
    r"|\w\(\s{0,9}[A-Za-z_]\w{0,99}\s{0,9}=(?!=)",
    re.MULTILINE,
)
_NAME_KEY = re.compile(r"""["'](?:name|tool|tool_name|function|action)["']\s{0,9}:""")
_ARGUMENTS_KEY = re.compile(
    r"""["'](?:arguments|args|parameters|params|kwargs|(?:tool_|action_)?input)["']\s{0,9}:"""
)


def grade_calls(
    called: str | Sequence[tuple[str, str]],
    reference: str,
    tools: Sequence[Mapping[str, Any]] = (),
    *,
    ordered: bool = False,
) -> Grade:
    """Right if a turn's calls are the expected ones, each as often.

    Abstains on a text in another syntax, and on a ``<tool_call>`` without an end: of what was cut
    off, some parsers make a call and others do not.

    Args:
        called: each call's name and JSON arguments, or a turn's text.
        reference: the expected calls as JSON: an object or a list of ``name`` and ``arguments``,
            also nested in ``function`` as chat APIs have them; ``[]`` if no call is right.
        tools: the tools' definitions; an optional parameter that is absent equals its ``default``.
        ordered: whether the order of parallel calls counts.

    Raises:
        UnusableReferenceError: the reference cannot be read as calls.
    """
    defaults = _defaults(tools)
    expected = _expected(reference, defaults)
    try:
        calls = _read(called if isinstance(called, str) else tuple(called))
        if isinstance(calls, Grade):
            return calls
        parsed = [_call(*call, defaults) for call in calls[: len(expected) + 1]]
        answer = printable(" ".join(map(" ".join, parsed))) or None
        if lacking := len(expected) - len(calls):
            return Grade(WRONG, "missing_call" if lacking > 0 else "extra_call", answer)
        if ordered and parsed != expected and sorted(parsed) == sorted(expected):
            return Grade(WRONG, "other_order", answer)
        if not ordered:
            parsed, expected = sorted(parsed), sorted(expected)
        for (name, given), (other, wanted) in zip(parsed, expected, strict=True):
            if name != other:
                return Grade(WRONG, "other_name", answer)
            if given != wanted:
                usual = {key: read_json(value) for key, value in defaults.get(name, {}).items()}
                whole = ({**usual, **read_json(arguments)} for arguments in (given, wanted))
                how, *place = _difference(*whole)
                where = ".".join(map(str, reversed(place)))
                return Grade(WRONG, printable(f"{how}:{where}"), answer)
        return Grade(RIGHT, "calls_equal" if calls else "no_call", answer)
    except (ValueError, RecursionError):
        return Grade(WRONG, "arguments_not_json")


def read_json(text: str) -> Any:
    """A JSON value; a key that occurs twice is a ``ValueError``.

    Whole numbers are integers, other numbers exact decimals.
    """
    return _JSON.decode(text)


def printable(text: str) -> str:
    """The first 200 characters, in printable ASCII."""
    return text[:200].encode("ascii", "backslashreplace").decode()[:200]


def _number(text: str) -> int | Decimal:
    with suppress(InvalidOperation):  # an exponent of 20 digits
        if math.isfinite(float(text)):
            value = Decimal(text)
            return int(value) if value == value.to_integral_value() else value.normalize(_EXACT)
    raise ValueError(f"{text[:40]} is no number of JSON, or beyond a float's range")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key occurs twice")
    return value


_JSON = json.JSONDecoder(parse_float=_number, parse_constant=_number, object_pairs_hook=_unique)


def _expected(reference: str, defaults: _Defaults) -> list[_Call]:
    try:
        value = read_json(reference)
        calls = []
        for entry in value if isinstance(value, list) else [value]:
            call = entry.get("function", entry) if isinstance(entry, dict) else entry
            calls.append(_call(*_parts(call), defaults))
        return calls
    except (ValueError, RecursionError) as error:
        raise UnusableReferenceError(
            f"{reference[-64:]!a} cannot be read as calls ({error}); send JSON such as "
            '[{"name": "add", "arguments": {"a": 1}}], or [] if no call is right'
        ) from None


@lru_cache(maxsize=2)
def _read(called: str | tuple[tuple[str, str], ...]) -> list[tuple[str, Any]] | Grade:
    """The calls, or why a text is left; a ``ValueError`` if one is not JSON."""
    written = [called] if isinstance(called, str) else [arguments for _, arguments in called]
    if sum(map(len, written)) > MAX_RESPONSE:
        return Grade(ABSTAINED, "response_too_long")
    if not isinstance(called, str):
        return [(name, read_json(arguments)) for name, arguments in called]
    reply = read_thinking(called)
    visible = reply.text.strip()
    if not reply.ended:
        return reply.settled(Grade(ABSTAINED, "cut_off"))
    _, *blocks = (block.partition("</tool_call>") for block in visible.split("<tool_call>"))
    if (called.strip() and not visible) or (blocks and not blocks[-1][1]):
        return Grade(ABSTAINED, "cut_off")
    if not blocks and not _may_call(visible):
        return []
    try:
        value = [read_json(body) for body, _, _ in blocks] or read_json(visible)
        return [_parts(entry) for entry in (value if isinstance(value, list) else [value])]
    except (ValueError, RecursionError):
        if any(body.lstrip().startswith("{") for body, _, _ in blocks):
            raise
        return Grade(ABSTAINED, "other_syntax")  # such as GLM's and Qwen3-Coder's blocks


def _may_call(text: str) -> bool:
    may = (_NAME_KEY.search(text) and _ARGUMENTS_KEY.search(text)) or _PYTHON_CALL.search(text)
    return bool(may) or any(map(text.lower().__contains__, _OTHER_SYNTAXES))


def _parts(call: Any) -> tuple[str, Any]:
    match call:
        case {"name": str(name), "arguments": arguments}:
            return name, read_json(arguments) if isinstance(arguments, str) else arguments
    raise ValueError("a call has a name and arguments")


def _call(name: str, arguments: Any, defaults: _Defaults) -> _Call:
    if not isinstance(arguments, dict):
        raise ValueError("arguments are an object")
    usual = defaults.get(name, {})
    stated = {key: value for key, value in arguments.items() if usual.get(key) != _spelled(value)}
    return name, _spelled(stated)


def _spelled(value: Any) -> str:
    """JSON with sorted keys, in which equal values are equal texts."""
    match value:
        case dict():
            pairs = (f"{json.dumps(key)}: {_spelled(value[key])}" for key in sorted(value))
            return f"{{{', '.join(pairs)}}}"
        case list():
            return f"[{', '.join(map(_spelled, value))}]"
        case Decimal():
            return str(value)
        case _:
            return json.dumps(value)


def _defaults(tools: Sequence[Mapping[str, Any]]) -> _Defaults:
    defaults: _Defaults = {}
    for tool in tools:
        match tool.get("function", tool):
            case {"name": name, "parameters": {"properties": dict(parameters), **schema}}:
                required = schema.get("required")
                defaults[name] = {
                    key: _spelled(read_json(json.dumps(parameter["default"])))
                    for key, parameter in parameters.items()
                    if isinstance(parameter, dict) and "default" in parameter
                    if not isinstance(required, list) or key not in required
                }
    return defaults


def _difference(given: Any, other: Any) -> list[str | int]:
    """How two values differ first, and the keys to the place, the innermost first."""
    if isinstance(given, list) and isinstance(other, list):
        given, other = dict(enumerate(given)), dict(enumerate(other))
    if not isinstance(given, dict) or not isinstance(other, dict):
        return [] if type(given) is type(other) and given == other else ["other_value"]
    for key in {**other, **given}:
        if key not in given or key not in other:
            return ["missing_key" if key in other else "unknown_key", key]
    differences = ((key, _difference(given[key], other[key])) for key in other)
    return next(([*place, key] for key, place in differences if place), [])
