"""What policies with a tool say, as texts in Hermes' format and as the messages they become."""

import json
from typing import Any

PROMPT = [{"role": "user", "content": "How much is 6 * 3?"}]
SAMPLES: list[list[str | tuple[str, str]]] = [
    [('{"a": 6, "b": 3}', "18"), "#### 18"],
    ["#### 17"],
    ['<tool_call>\n{"name": "multiply", "arg\n</tool_call>'],
    [('{"a": 1, "b": 18}', "18"), ('{"a": 1, "b": NaN}', "nan"), "18 or 17, who knows?"],
]
"""Each sample's turns: a text, or the arguments of a call and what the tool answers."""


def multiply(a: float, b: float) -> float:
    """Multiply two numbers.

    Args:
        a: A factor.
        b: Another.
    """
    return a * b


def texts(sample: list[str | tuple[str, str]]) -> list[str]:
    """What the policy writes, turn by turn."""
    call = '<tool_call>\n{"name": "multiply", "arguments": %s}\n</tool_call>'
    return [turn if isinstance(turn, str) else call % turn[0] for turn in sample]


def messages(sample: list[str | tuple[str, str]], **of_tool: str) -> list[dict[str, Any]]:
    """The conversation that a service should be asked about; ``of_tool``: fields of tool turns."""
    conversation: list[dict[str, Any]] = [*PROMPT]
    for turn in sample:
        if isinstance(turn, str):
            conversation.append({"role": "assistant", "content": turn})
            continue
        call = {"name": "multiply", "arguments": json.loads(turn[0], parse_constant=str)}
        calls = [{"type": "function", "function": call}]
        conversation.append({"role": "assistant", "content": "", "tool_calls": calls})
        conversation.append({"role": "tool", "content": turn[1], **of_tool})
    return conversation
