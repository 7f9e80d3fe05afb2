"""The ``openai`` package with 64 calls in flight; what has no verdict is ``None``.

``timeout`` and ``max_retries`` as in its README, "Timeouts" and "Retries".
"""

from __future__ import annotations

import asyncio
import re

from openai import AsyncOpenAI

from loadtests.peers.lines import CALL_S, MAX_TOKENS, MODEL, URL, Row, answer, each

PROMPT = """Question: {question}
Reference answer: {reference}
Response: {response}
Is the response's final answer the reference answer? End with VERDICT: 1 or VERDICT: 0."""
client = AsyncOpenAI(base_url=URL, api_key="none", timeout=CALL_S, max_retries=5)


async def verdict(row: Row) -> float | None:
    """The last verdict of the reply; None without one."""
    reply = await client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": PROMPT.format(**row)}],
        temperature=0,
        max_tokens=MAX_TOKENS,
    )
    found = re.findall(r"VERDICT: ([01])", reply.choices[0].message.content or "")
    return float(found[-1]) if found else None


if __name__ == "__main__":
    places = asyncio.Semaphore(64)

    async def bounded(row: Row) -> float | None:
        """One verdict, when there is a place."""
        async with places:
            return await verdict(row)

    answer(each(bounded))
