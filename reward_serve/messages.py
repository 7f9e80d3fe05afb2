"""The turns of a conversation, as chat APIs have them.

>>> call = {"type": "function", "function": {"name": "add", "arguments": {"a": 1}}}
>>> Message(role="assistant", content=None, tool_calls=[call]).tool_calls[0].function.arguments
'{"a": 1}'
"""

import json
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    JsonValue,
    field_validator,
    model_validator,
)

MAX_NAME_CHARACTERS = 1024
_TEXTS = ("text", "input_text", "output_text")
_UNREAD = {"reasoning_content", "reasoning", "index"}  # streams number their calls


def unicode_text(text: str) -> str:
    """The text; raises ``ValueError`` if it contains a lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"has a lone surrogate at character {error.start}, which is not valid Unicode; "
            "replace it, for example with text.encode('utf-8', 'replace').decode()"
        ) from None
    return text


def utf8_bytes(text: str) -> int:
    """The length of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


Text = Annotated[str, AfterValidator(unicode_text)]
Name = Annotated[Text, Field(max_length=MAX_NAME_CHARACTERS)]
Role = Literal["system", "developer", "user", "assistant", "tool"]


def as_json(value: object) -> str:
    """The value as JSON, in one spelling; with escapes only where it is not valid Unicode.

    Raises:
        ValueError: JSON has no such value, or it is nested too deeply.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        text.encode()
        return text
    except UnicodeEncodeError:
        return json.dumps(value)
    except (TypeError, RecursionError) as error:
        raise ValueError(f"cannot be written as JSON: {error}") from None


def with_texts(value: Any, change: Callable[[str], str]) -> Any:
    """JSON-like data with each of its texts changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list | tuple):
        return [with_texts(item, change) for item in value]
    if isinstance(value, Mapping):
        return {change(key): with_texts(item, change) for key, item in value.items()}
    return value


def as_object(arguments: str) -> dict[str, Any] | None:
    """The arguments of a call; None if they are not a JSON object whose keys differ."""
    try:
        value = json.loads(arguments, object_pairs_hook=without_twins)
        as_json(value)  # which a number beyond a float's range is not
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; of a key that occurs twice, parsers take one value or the other."""
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("a key occurs twice")
    return value


def _in_one_spelling(arguments: Any) -> Any:
    """Arguments that a policy wrote, whatever it wrote, or an object of a caller's."""
    if arguments is None:
        return ""
    if not isinstance(arguments, str):
        return as_json(arguments)
    value = as_object(arguments)
    return arguments if value is None else as_json(value)


def _cut(name: Any) -> Any:
    """A name that a policy wrote, whatever it wrote."""
    if not isinstance(name, str):
        return name
    return name[:MAX_NAME_CHARACTERS].encode("utf-8", "replace").decode()


class Function(BaseModel, extra="forbid"):
    """The function of a call."""

    name: Annotated[Name, BeforeValidator(_cut)]
    arguments: Annotated[Text, BeforeValidator(_in_one_spelling, json_schema_input_type=Any)] = (
        Field("", description="A JSON string or an object. Text that is no JSON is shown as it is.")
    )


class ToolCall(BaseModel, extra="forbid"):
    """A call of a tool."""

    id: Name | None = None
    type: Annotated[Literal["function"], BeforeValidator(lambda t: t or "function")] = "function"
    function: Function

    @model_validator(mode="before")
    @classmethod
    def _may_be_flat(cls, call: Any) -> Any:
        if isinstance(call, Mapping) and "name" in call and "function" not in call:
            outer = {key: call[key] for key in ("id", "type") if key in call}
            return {**outer, "function": {k: v for k, v in call.items() if k not in outer}}
        return _without_empty(call, cls) if isinstance(call, Mapping) else call

    @cached_property  # the states of a conversation show it again
    def shown(self) -> str:
        """The call as one line of JSON."""
        called = self.function
        value = as_object(called.arguments)
        arguments = called.arguments if value is None else value
        return as_json({"name": called.name, "arguments": arguments})


class Message(BaseModel, extra="forbid"):
    """One turn of a conversation."""

    role: Role
    content: Text | list[dict[str, JsonValue]] = Field(
        "",
        description="A text, null beside tool calls, or parts: texts, which are joined, or images.",
    )
    name: Name | None = Field(None, description="Of the tool that answers.")
    tool_calls: list[ToolCall] | None = Field(None, description="Of an assistant's turn.")
    tool_call_id: Name | None = Field(None, description="Of the call that a tool's turn answers.")

    @model_validator(mode="before")
    @classmethod
    def _as_apis_return_it(cls, turn: Any) -> Any:
        """Without reasoning, which is not judged, and what APIs leave empty."""
        return _without_empty(turn, cls) if isinstance(turn, Mapping) else turn

    @field_validator("content", mode="before")
    @classmethod
    def _joined(cls, content: Any) -> Any:
        if not isinstance(content, list):
            return "" if content is None else content
        parts = [_part(number, part) for number, part in enumerate(content)]
        only_texts = all("text" in part for part in parts)
        return "".join(part["text"] for part in parts) if only_texts else parts

    @model_validator(mode="after")
    def _the_role_has_these_fields(self) -> "Message":
        if self.role != "assistant" and "content" not in self.model_fields_set:
            raise ValueError(f"content: is missing from the {self.role}'s turn; send it")
        if self.tool_calls and self.role != "assistant":
            raise ValueError(f"tool_calls: only an assistant's turn has them, not {self.role}'s")
        return self

    @property
    def text(self) -> str:
        """The content's text, without images."""
        if isinstance(self.content, str):
            return self.content
        return "".join(str(part.get("text", "")) for part in self.content)

    @property
    def images(self) -> list[dict[str, JsonValue]]:
        """The content's images."""
        return [] if isinstance(self.content, str) else [p for p in self.content if "text" not in p]

    @property
    def shown(self) -> str:
        """Its text, and its calls as JSON, in one text."""
        return "\n".join([*filter(None, [self.text]), *(c.shown for c in self.tool_calls or ())])

    @property
    def size(self) -> int:
        """The bytes of its texts in UTF-8."""
        called = ((call.function.name, call.function.arguments) for call in self.tool_calls or ())
        texts = [self.text, self.name or "", *(text for pair in called for text in pair)]
        return sum(map(utf8_bytes, texts)) + sum(len(as_json(image)) for image in self.images)


def as_template_turn(turn: Message) -> dict[str, Any]:
    """A turn as chat templates take it: text as content, arguments as objects, known roles."""
    # No template of a classifier knows developers, and many raise for an unknown role.
    role = "system" if turn.role == "developer" else turn.role
    fields = {name: value for name, value in turn.model_dump(exclude_none=True).items() if value}
    for called in (call["function"] for call in fields.get("tool_calls", ())):
        if (arguments := as_object(called["arguments"])) is not None:
            called["arguments"] = arguments
    return fields | {"role": role, "content": turn.text}


def _without_empty(given: Mapping[str, Any], of: type[BaseModel]) -> dict[str, Any]:
    """The fields of a model, and unknown ones only if they say anything."""
    return {
        key: value
        for key, value in given.items()
        if key in of.model_fields or (key not in _UNREAD and value not in (None, "", [], {}))
    }


def _part(number: int, part: Any) -> dict[str, Any]:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind in _TEXTS and isinstance(part.get("text"), str):
        return {"type": "text", "text": unicode_text(part["text"])}
    if kind == "image_url" and isinstance(part.get("image_url"), Mapping):
        return {"type": kind, "image_url": dict(part["image_url"])}
    raise ValueError(f"part {number} is neither a text nor an image_url; send those")


def tool(definition: Any) -> dict[str, Any]:
    """A tool's definition as chat APIs have it; a function may stand alone.

    Raises:
        ValueError: it has no name, or cannot be written as JSON.
    """
    function = definition.get("function", definition) if isinstance(definition, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise ValueError("must be objects, each with a function that has a name")
    as_json(function)
    return {"type": "function", "function": {k: v for k, v in function.items() if k != "type"}}
