"""The fields of the wire contract: text that is Unicode, numbers, names and metadata in bounds."""

from __future__ import annotations

import json
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue

MAX_NAME_CHARACTERS = 1024
MAX_METADATA_BYTES = 65_536
MAX_METADATA_DEPTH = 32
DEFAULT_ITEM_CHARS = 2**21


def unicode_text(text: str) -> str:
    """The text.

    Raises:
        ValueError: it holds a lone surrogate; says where, and the remedy.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"has a lone surrogate at character {error.start}, which is not Unicode text; "
            "replace it, as with text.encode('utf-8', 'replace').decode()"
        ) from None
    return text


def deeper_than(value: object, levels: int) -> bool:
    """Whether JSON data is nested deeper than so many levels; found without recursion."""
    layer = [value]
    for _ in range(levels + 1):
        layer = [
            part
            for node in layer
            if isinstance(node, dict | list)
            for part in (node.values() if isinstance(node, dict) else node)
        ]
        if not layer:
            return False
    return True


def _small_int(digits: str) -> int:
    if len(digits) > 20 or not -(2**63) <= int(digits) < 2**64:
        raise ValueError("an integer over 64 bits; send it as a string")
    return int(digits)


def _json(metadata: dict[str, JsonValue]) -> dict[str, JsonValue]:
    if deeper_than(metadata, MAX_METADATA_DEPTH):
        raise ValueError(f"is nested over {MAX_METADATA_DEPTH} deep; flatten it")
    try:
        text = json.dumps(metadata, ensure_ascii=False, allow_nan=False)
        size = len(text.encode())
        json.loads(text, parse_int=_small_int)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"cannot be written as JSON: {error}") from None
    if size > MAX_METADATA_BYTES:
        raise ValueError(
            f"takes {size} bytes as JSON; the limit is {MAX_METADATA_BYTES}, so send less"
        )
    return metadata


def _whole(value: object) -> object:
    # To JSON 5.0 is an integer.
    return int(value) if isinstance(value, float) and value.is_integer() else value


Text = Annotated[str, AfterValidator(unicode_text)]
Name = Annotated[Text, Field(max_length=MAX_NAME_CHARACTERS)]
Count = Annotated[int, Field(strict=True, ge=1), BeforeValidator(_whole)]
Seed = Annotated[int, Field(strict=True, ge=0, lt=2**31), BeforeValidator(_whole)]
Metadata = Annotated[dict[str, JsonValue], AfterValidator(_json)]
