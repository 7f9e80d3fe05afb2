"""Engines that wait as long as a measured curve says, and trainers that ask in bursts.

The same replica and the same trainers run in real time and on a virtual clock.
"""

from __future__ import annotations

import asyncio
import statistics
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from random import Random
from typing import Any
from uuid import uuid4

from reward_serve.client import Client
from reward_serve.replica.admission import Admission
from reward_serve.replica.scoring import Scorer
from reward_serve.reward_models.base import RewardModel, Trace
from reward_serve.schema import ScoreRequest, ScoreResult, Status


class Waiting(RewardModel):
    """A reward model that waits, and then scores as ``truth`` does; details name the replica.

    Args:
        curve: items in flight to the seconds that a verdict takes beside them; between two
            numbers of items it is interpolated, beyond the last it grows in proportion.
    """

    def __init__(self, curve: Mapping[int, float]) -> None:
        self._curve = sorted(curve.items())
        self._busy = 0
        self._name = uuid4().hex[:8]

    def seconds(self, items: int) -> float:
        """Seconds of a verdict among so many items in flight."""
        below = (0, self._curve[0][1])
        for point in self._curve:
            if items <= point[0]:
                share = (items - below[0]) / (point[0] - below[0])
                return below[1] + share * (point[1] - below[1])
            below = point
        return below[1] * items / below[0]

    async def score(self, request: ScoreRequest, trace: Trace | None = None) -> ScoreResult:
        """Score a request."""
        self._busy += 1
        try:
            await asyncio.sleep(self.seconds(self._busy))
        finally:
            self._busy -= 1
        fields = {"source": "judge", "details": {"replica": self._name}}
        return ScoreResult(status=Status.OK, score=truth(request.judged), **fields)

    def describe(self) -> dict[str, Any]:
        """An empty description."""
        return {}


def truth(response: str) -> float:
    """The score of a response, by which one of another's is noticed."""
    return zlib.crc32(response.encode()) / 2**32


class WaitingReplica(Scorer):
    """A replica with a ``Waiting`` model, ``slots`` items at once and a queue of 4,096."""

    def __init__(self, slots: int, curve: Mapping[int, float]) -> None:
        self.admission = Admission(slots, 4096)
        super().__init__("waiting", Waiting(curve), self.admission)


@dataclass(frozen=True)
class Shape:
    """What one trainer asks for.

    Attributes:
        prompts: prompts of a step.
        samples: responses to a prompt, which are one group.
        generation_s: seconds over which a step's responses are finished, one after another.
        pause_s: seconds between a step's last verdict and the next step's generation.
        steps: number of steps.
    """

    prompts: int = 32
    samples: int = 8
    generation_s: float = 10.0
    pause_s: float = 2.0
    steps: int = 3


@dataclass
class Seen:
    """What trainers saw.

    Attributes:
        waits: seconds of each verdict.
        times: the loop's time at each verdict, in seconds.
        replicas: the replica of each verdict.
        beyond: seconds of each step from its last response to its last verdict.
        absent: results without a score, by status.
        wrong: scores of other responses.
    """

    waits: list[float] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    replicas: list[str] = field(default_factory=list)
    beyond: list[float] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    wrong: int = 0

    def per_s(self, begins: float, ends: float) -> float:
        """Results a second between two of ``times``."""
        return sum(begins <= at < ends for at in self.times) / (ends - begins)

    def imbalance(self, begins: float, ends: float) -> float:
        """Results of the busiest replica between two of ``times``, by the mean."""
        pairs = zip(self.times, self.replicas, strict=True)
        counts = Counter(replica for at, replica in pairs if begins <= at < ends)
        return max(counts.values()) / statistics.mean(counts.values())

    def figures(self) -> dict[str, Any]:
        """Verdicts, absences, quantiles of waits in ms, and judging beyond generation in s."""
        cuts = statistics.quantiles(self.waits, n=100)
        return {
            "verdicts": len(self.waits) - len(self.absent),
            "absent": {status: self.absent.count(status) for status in sorted(set(self.absent))},
            "wrong": self.wrong,
            **{f"p{q}_ms": round(1000 * cuts[q - 1], 1) for q in (50, 95, 99)},
            "beyond_s": round(statistics.median(self.beyond), 3),
        }


def merged(parts: Iterable[Seen]) -> Seen:
    """What several processes saw."""
    columns = zip(*(vars(part).values() for part in parts), strict=True)
    return Seen(*(reduce(add, column) for column in columns))


async def train(clients: Sequence[Client], shape: Shape, first: int = 0) -> Seen:
    """Run a trainer with each client, the first steps spread over a step's time.

    Args:
        clients: one for each trainer.
        shape: what each asks for.
        first: the first trainer's number; no two trainers of a deployment share one.
    """
    seen, loop = Seen(), asyncio.get_running_loop()

    async def sample(client: Client, group: str, number: int, ends: float) -> None:
        await asyncio.sleep(ends - loop.time())
        asked = loop.time()
        response = f"{group} {number}"
        result = await client.ascore({"response": response, "reference": "1", "group": group})
        seen.times.append(loop.time())
        seen.waits.append(seen.times[-1] - asked)
        seen.replicas.append(str((result.details or {}).get("replica")))
        if result.score is None:
            seen.absent.append(result.status)
        seen.wrong += result.score not in (None, truth(response))

    async def trainer(number: int, client: Client) -> None:
        drawn = Random(number)
        await asyncio.sleep(drawn.uniform(0, shape.generation_s + shape.pause_s))
        for step in range(shape.steps):
            began, sent = loop.time(), []
            for prompt in range(shape.prompts):
                group = f"{number}-{step}-{prompt}"
                for place in range(shape.samples):
                    ends = began + drawn.uniform(0, shape.generation_s)
                    sent.append(sample(client, group, place, ends))
            await asyncio.gather(*sent)
            seen.beyond.append(loop.time() - began - shape.generation_s)
            await asyncio.sleep(shape.pause_s)

    await asyncio.gather(*(trainer(n, client) for n, client in enumerate(clients, first)))
    return seen
