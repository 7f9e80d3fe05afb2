"""What a policy calls, and the tools that answer it.

Calls stand in ``<tool_call>`` tags, as Hermes and Qwen write them.
"""

from __future__ import annotations

import re
from types import MethodType
from typing import Any

from reward_serve.messages import as_object

_CALL = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)


def answer(tools: Any, name: str, arguments: Any) -> dict[str, Any]:
    """The turn of a tool of a ``ToolGroup`` that is called; an error is its answer."""
    try:
        if (tool := tools.get_tool(name)) is None:
            raise ValueError("write JSON with a tool's name and arguments, an object")
        said = str(tool(**arguments))
    except Exception as error:  # SkyRL ends the process on any exception of an environment
        said = f"{type(error).__name__}: {error}"
    return {"role": "tool", "name": name, "content": said}


def assistant_turn(text: str) -> dict[str, Any]:
    """A policy's text as an assistant turn; thoughts contain no calls.

    A call that cannot be read has no name, and its text as arguments.
    """
    thoughts, end, said = text.rpartition("</think>")
    calls = [as_object(call) or {"arguments": call.strip()} for call in _CALL.findall(said)]
    read = [{"name": str(c.get("name", "")), "arguments": c.get("arguments", {})} for c in calls]
    content = (thoughts + end + _CALL.sub("", said)).strip()
    return {"role": "assistant", "content": content, "tool_calls": read}


def schemas_of(tools: Any) -> list[dict[str, Any]]:
    """The schemas of a ``ToolGroup``'s methods, from their signatures and docstrings."""
    from transformers.utils import get_json_schema

    methods = (getattr(type(tools), name).func for name in tools.get_tool_names())
    return [get_json_schema(MethodType(method, tools)) for method in methods]
