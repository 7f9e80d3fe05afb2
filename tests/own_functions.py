"""Functions such as a deployer would write, for ``rule.function``."""

import asyncio
import sys
import zlib
from typing import Any

LEVEL = 3


def half(response: str, reference: str, request: dict[str, Any]) -> float:
    return 0.5


def is_it(response: str, reference: str, request: dict[str, Any]) -> bool:
    return response == reference


async def later(response: str, reference: str, request: dict[str, Any]) -> float:
    await asyncio.sleep(0)
    return float(request["metadata"]["points"])


def scripted(response: str, reference: str, request: dict[str, Any]) -> Any:
    if response == "raise":
        raise KeyError("points")
    if response == "exit":
        sys.exit("no points")
    if response == "next":
        next(iter(()))
    return {"none": None, "nan": float("nan"), "inf": float("inf"), "text": "1"}[response]


def calls_each_tool(response: str, reference: str, request: dict[str, Any]) -> float:
    calls = [call for turn in request["messages"] for call in turn["tool_calls"] or ()]
    return len({call["function"]["name"] for call in calls}) / len(request["tools"])


def two(response: str, reference: str) -> float:
    return 1.0


async def is_here(response: str, reference: str, request: dict[str, Any]) -> bool:
    """Whether this is the replica of that id; ``wait`` never ends, an answer is compared."""
    from ray import serve

    if response == "wait":
        await asyncio.sleep(3600)
    if "####" in response:
        return response.rpartition("#### ")[2] == reference
    return bool(serve.get_replica_context().replica_id.unique_id == reference)


async def works(response: str, reference: str, request: dict[str, Any]) -> float:
    """Takes 100 to 300 ms, by the response, as answers of an engine end one by one."""
    await asyncio.sleep(0.1 + 0.2 * (zlib.crc32(response.encode()) % 100) / 100)
    return 1.0


def last_number(response: str, reference: str, request: dict[str, Any]) -> float:
    """The number with which the last assistant turn ends; a turn may be lost."""
    if response.startswith("lost"):
        raise RuntimeError(response)
    return float(response.rpartition(" ")[2])
