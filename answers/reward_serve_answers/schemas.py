"""Whether a response's JSON fits a JSON Schema; importing jsonschema takes 60 ms."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from reward_serve_answers.calls import printable, read_json
from reward_serve_answers.thinking import has_tag, read_thinking
from reward_serve_answers.values import ABSTAINED, RIGHT, WRONG, Grade, UnusableReferenceError

_OPEN = re.compile(r"^[ \t]*```[ \t]*(\w*)", re.MULTILINE)
_CLOSE = re.compile(r"```[ \t]*$", re.MULTILINE)
_REFERENCE = re.compile(r'"\$(?:ref|dynamicRef)": ("[^"]*")')


def compare(response: str, schema: str) -> list[Any]:
    """Score, rule and answer of a grade, for a child process: a schema can take forever.

    The JSON is the last block fenced as ``json``, or without a name; else the whole response after
    its thinking. A tag of thinking in the JSON is data; beside it, it may be either.
    """
    try:
        validator = validator_of(schema)
    except UnusableReferenceError as error:
        return [ABSTAINED, "reference_not_read", str(error)]
    body, visible = response, read_thinking(response)
    try:
        value = read_json(body)
    except ValueError:
        text = visible.rest.replace("\r\n", "\n")
        body = _body(text)
        try:
            value = read_json(body)
        except ValueError:
            grade = visible.settled(Grade(WRONG, "no_json"))
            return [grade.score, grade.rule, None]
        if has_tag(text.replace(body, "")):
            return [ABSTAINED, "thinking_in_doubt", None]
    fault = next(validator.iter_errors(value), None)
    rule = f"schema_{fault.validator}:{fault.json_path}" if fault else "schema_fits"
    return [WRONG if fault else RIGHT, printable(rule), printable(body.strip())]


def _body(text: str) -> str:
    blocks: dict[str, str] = {}
    end = 0
    while opening := _OPEN.search(text, end):
        closing = _CLOSE.search(text, opening.end())
        if closing is None:
            return "" if blocks else text  # the response was cut off in a block
        blocks[opening[1].lower()] = text[opening.end() : closing.start()]
        end = closing.end()
    return blocks.get("json", blocks.get("", "")) if blocks else text


@lru_cache(maxsize=8)
def validator_of(text: str) -> Any:
    """A validator by Draft 2020-12, which fetches nothing and checks no formats.

    Raises:
        UnusableReferenceError: the schema is invalid, or refers to what it does not contain.
    """
    try:
        schema = read_json(text)
        Draft202012Validator.check_schema(schema)
        resolver = Registry().with_resource("", DRAFT202012.create_resource(schema)).resolver()
        for reference in _REFERENCE.findall(json.dumps(schema, default=str)):
            resolver.lookup(json.loads(reference))
    except (ValueError, RecursionError, SchemaError, Unresolvable) as error:
        fault = printable(f"{type(error).__name__}: {getattr(error, 'message', error)}")
        raise UnusableReferenceError(f"is no usable JSON Schema ({fault}); correct it") from None
    return Draft202012Validator(schema, registry=Registry())
