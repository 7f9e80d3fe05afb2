"""verifiers' reference judge, as ``Task.score`` runs it on a finished trace.

Its judge does not retry; an agent that grades does (``AgentConfig.retries``, ``utils/retries.py``),
here five times, with its backoff. ``timeout.read`` (``ClientTimeoutConfig``) bounds a call.
"""

from __future__ import annotations

import asyncio

import verifiers.v1 as vf
from verifiers.v1.judges.reference import ReferenceJudge, ReferenceJudgeConfig
from verifiers.v1.trace import AgentInfo, Trace, TraceTask
from verifiers.v1.utils.retries import backoff

from loadtests.peers.lines import CALL_S, MAX_TOKENS, MODEL, URL, Row, answer, each

judge = ReferenceJudge(
    ReferenceJudgeConfig(
        base_url=URL,
        api_key_var="PEER_KEY",
        model=MODEL,
        timeout={"read": CALL_S},
        sampling={"max_tokens": MAX_TOKENS, "temperature": 0.0},
    )
)


class Problem(vf.TaskData):
    """A prompt with its reference."""

    answer: str


async def score(row: Row) -> float:
    """The judge's reward, at the sixth attempt at the latest."""
    for attempt in range(6):
        task = Problem(prompt=row["question"], answer=row["reference"])
        agent = AgentInfo(config=vf.AgentConfig())
        held = TraceTask(type="Task", data=task)
        trace = Trace(task=held, agent=agent, root_reply=row["response"])
        try:
            return float(await judge.score(task, trace))
        except Exception:
            if attempt == 5:
                raise
            await asyncio.sleep(backoff(attempt))
    raise AssertionError


if __name__ == "__main__":
    answer(each(score))
