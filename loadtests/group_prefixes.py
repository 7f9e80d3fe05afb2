"""How many of a group's prompt tokens the engine computes, and how many its prefix cache holds.

    python -m loadtests.group_prefixes

Judges a group of 16 by ``circular`` on the bundled model; its preferences are ignored.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rich.console import Console

from reward_serve.config.models import JudgeModel
from reward_serve.engines.vllm import VllmEngine
from reward_serve.reward_models.judge import Judge
from reward_serve.schema import GroupRequest

_QUESTION = (
    "Janet's ducks lay 16 eggs per day. She eats three for breakfast every morning and bakes "
    "muffins for her friends every day with four. She sells the remainder at the farmers' market "
    "daily for $2 per fresh duck egg. How much in dollars does she make every day? Explain each "
    "step, check the result, and say what would change if she sold the eggs for $3 instead. "
)


@asynccontextmanager
async def _place() -> AsyncIterator[None]:
    yield


async def measure(size: int, strategy: str) -> str:
    """Judge one group; returns a line with its tokens."""
    settings = {"name": "judge", "kind": "judge", "group": {}, "cache": {"enabled": False}}
    config = JudgeModel.model_validate(settings)
    engine = await VllmEngine.start(config.engine, config.resources.num_cpus or 1, 0)
    judge = Judge(config, engine)
    responses = [
        f"Attempt {n}: she keeps 3 + 4 = 7 eggs, so {9 + n % 3} are left. At $2 each she makes "
        f"{2 * (9 + n % 3)} dollars a day, and with $3 it would be {3 * (9 + n % 3)}."
        for n in range(size)
    ]
    request = {"question": _QUESTION, "responses": responses, "strategy": strategy}
    assert judge.groups is not None
    result = await judge.groups.score(
        GroupRequest.model_validate({**request, "timeout_s": 3600.0}), _place
    )
    judge.close()
    used = [one.usage for one in result.results]
    asked, cached = (sum(u.prompt_tokens for u in used), sum(u.cached_tokens for u in used))
    share = (asked - cached) / asked
    return f"{strategy} of {size}: {asked} prompt tokens, {asked - cached} computed ({share:.0%})"


def main() -> None:
    """Print the tokens of one group."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--size", type=int, default=16)
    options.add_argument("--strategy", default="circular")
    arguments = options.parse_args()
    Console().print(asyncio.run(measure(arguments.size, arguments.strategy)), markup=False)


if __name__ == "__main__":
    main()
