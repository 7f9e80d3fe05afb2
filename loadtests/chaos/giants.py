"""Callers that send items and batches up to the service's limits, and some beyond them.

They run in their own process: encoding a body takes a tenth of a second, which would block the
other callers on the same event loop.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count, islice
from random import Random

from deployments.local import APP
from loadtests.chaos.load import GRACE_S, Ask, Tally
from loadtests.chaos.posting import Poster
from loadtests.chaos.questions import Pair, Question, Questions, marked
from reward_serve.client.handle import HandleTransport
from reward_serve.routing.sizes import size_of
from reward_serve.schema import DEFAULT_ITEM_CHARS

DEADLINE_S = 60.0
PAUSE_S = 30.0  # of each caller; together four times the bytes of a GRPO step of long rollouts
BATCH_BYTES = (20e6, 31e6)
LONG_CHARS = (2**15, 2**17, 2**20)  # an item of a batch
TOO_LARGE_BYTES = 34e6
TOO_LARGE, TOO_LONG = "body over 32 MiB", "item over max_item_chars"
REFUSED = {f"{TOO_LARGE}: 413", f"{TOO_LONG}: invalid"}

_WIDE = "\U0001f600"  # four bytes in Python and in UTF-8, twelve escaped in JSON
_TEXT = "So far, so good.\n"
_REFUSED_EVERY_S = 30.0  # 8 and 34 MB each: more often, they outweigh what is within the limits

Draw = Callable[[str, Random], list[Question]]


@dataclass
class Giants:
    """What was sent, and the outcomes.

    Attributes:
        tally: requests within the limits.
        codes: counts of HTTP status codes.
        refused: counts by exceeded limit and answer, such as "body over 32 MiB: 413".
        bodies: number of calls within the limits.
        mib: their total size.
    """

    tally: Tally = field(default_factory=Tally)
    codes: Counter[int] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    bodies: int = 0
    mib: float = 0.0


def grown(rng: Random, characters: int, filler: str = _TEXT) -> Pair:
    """A question that a rule decides, padded to ``characters``."""
    body, right = marked(rng)
    room = characters - len(body["response"]) - len(body["reference"])
    padding = (filler * (room // len(filler) + 1))[:room]
    return {**body, "response": padding + body["response"]}, right


def giant(run: str, rng: Random, over: int = 0) -> list[Question]:
    """One item of the maximum characters plus ``over``, four bytes each."""
    draw = partial(grown, characters=DEFAULT_ITEM_CHARS + over, filler=_WIDE)
    return [next(Questions(draw, run, DEADLINE_S, seed=rng.randrange(2**32)))]


def batch(run: str, rng: Random, size: float | None = None) -> list[Question]:
    """A batch of long items, of ``size`` bytes together or of a random size."""
    characters = rng.choice(LONG_CHARS)
    items = int((size or rng.uniform(*BATCH_BYTES)) / characters)
    draw = partial(grown, characters=characters)
    return list(islice(Questions(draw, run, DEADLINE_S), items))


def connect(address: str) -> None:
    """Connect this process to the cluster."""
    import ray

    ray.init(address=address, namespace="serve", log_to_driver=False, logging_level="error")


def ask_for(url: str, seconds: float) -> Giants:
    """Send large bodies in every way for ``seconds``; this process must be connected."""
    return asyncio.run(_ask_for(url, seconds))


async def _ask_for(url: str, seconds: float) -> Giants:
    sent = Giants()
    by_handle = HandleTransport(APP)
    async with Poster(url) as poster:
        ends = sent.tally.clock() + seconds
        ways: dict[str, tuple[Ask, Draw]] = {
            "item by handle": (by_handle.ascore_batch, giant),
            "item over HTTP": (poster.single, giant),
            "batch by handle": (by_handle.ascore_batch, batch),
            "batch over HTTP": (poster.batch, batch),
            "batch streamed": (poster.streamed, batch),
        }
        callers = [
            _caller(sent, way, *of, ends, PAUSE_S * turn / len(ways))
            for turn, (way, of) in enumerate(ways.items())
        ]
        await asyncio.gather(*callers, _refused(sent, poster, by_handle, ends))
        sent.codes = poster.codes
    return sent


async def _caller(
    sent: Giants, way: str, ask: Ask, draw: Draw, ends: float, after_s: float
) -> None:
    rng, tally = Random(way), sent.tally
    await asyncio.sleep(after_s)
    for turn in count():
        if tally.clock() > ends:
            return
        questions = draw(f"{way}-{turn}", rng)
        sent.bodies += 1
        sent.mib += sum(size_of(question.body) for question in questions) / 2**20
        await tally.send(way, ask, questions)
        await asyncio.sleep(PAUSE_S)


async def _refused(sent: Giants, poster: Poster, by_handle: HandleTransport, ends: float) -> None:
    rng = Random(TOO_LARGE)

    async def too_large() -> str:
        asked = batch("too-large", rng, TOO_LARGE_BYTES)
        return str(await poster.code([question.body for question in asked]))

    async def too_long(ask: Ask) -> str:
        (question,) = giant("too-long", rng, over=1)
        (result,) = await ask([question.body])
        return result.status.value

    attempts = (
        (TOO_LARGE, too_large),
        (TOO_LONG, partial(too_long, poster.single)),
        (TOO_LONG, partial(too_long, by_handle.ascore_batch)),
    )
    for turn in count():
        if sent.tally.clock() > ends:
            return
        what, attempt = attempts[turn % len(attempts)]
        try:
            async with asyncio.timeout(DEADLINE_S + GRACE_S):
                answer = await attempt()
        except Exception as error:
            answer = type(error).__name__
        sent.refused[f"{what}: {answer}"] += 1
        await asyncio.sleep(_REFUSED_EVERY_S)
