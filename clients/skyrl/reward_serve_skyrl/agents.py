"""What a policy calls, and the tools that answer it.

Calls stand in ``<tool_call>`` tags, as Hermes and Qwen write them.
"""

from __future__ import annotations

import re
from types import MethodType
from typing import Any

from reward_serve.messages import as_object
from reward_serve_answers.thinking import read_thinking

_OPENING = "<tool_call>"
_CALL = re.compile(rf"{_OPENING}(.*?)(</tool_call>|\Z)", re.DOTALL)


def answer(tools: Any, name: str, arguments: Any) -> dict[str, Any]:
    """The turn of a tool of a ``ToolGroup`` that is called; an error is its answer."""
    try:
        if (tool := tools.get_tool(name)) is None:
            raise ValueError("write JSON with a tool's name and arguments, an object")
        output = str(tool(**arguments))
    except Exception as error:  # SkyRL ends the process on any exception of an environment
        output = f"{type(error).__name__}: {error}"
    return {"role": "tool", "name": name, "content": output}


def assistant_turn(text: str) -> dict[str, Any] | None:
    """A policy's text as an assistant turn, or None if the token limit cut off a call.

    Thoughts contain no calls. A call that is malformed has no name, and its text as arguments.
    """
    visible, calls, content = read_thinking(text).text, [], text
    for call in _CALL.finditer(visible):
        read = as_object(call[1])
        if read is None and not call[2]:
            return None
        read = read or {"arguments": call[1].strip()}
        calls.append({"name": str(read.get("name", "")), "arguments": read.get("arguments", {})})
        content = content.replace(call[0], "")
    if any(visible.endswith(_OPENING[:size]) for size in range(2, len(_OPENING))):
        return None
    return {"role": "assistant", "content": content.strip(), "tool_calls": calls}


def schemas_of(tools: Any) -> list[dict[str, Any]]:
    """The schemas of a ``ToolGroup``'s methods, from their signatures and docstrings."""
    from transformers.utils import get_json_schema

    methods = (getattr(type(tools), name).func for name in tools.get_tool_names())
    return [get_json_schema(MethodType(method, tools)) for method in methods]
