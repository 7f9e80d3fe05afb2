"""How slow this machine is now; bounds on time are in seconds of the one they were set on."""

from __future__ import annotations

import re
import time

_TEXT = "Nadia packs 7 boxes of 24 pears, which makes 168 pears in all.\n" * 4_000
_WORK_S = 0.03  # of that machine


def slowness() -> float:
    """How many times as long as there a piece of plain Python takes; at least 1."""
    return max(1.0, min(_work_s() for _ in range(5)) / _WORK_S)


def _work_s() -> float:
    began = time.perf_counter()
    words = [word.lower() for word in re.findall(r"\w+", _TEXT)]
    counts: dict[str, int] = {}
    for word in words:
        counts[word] = counts.get(word, 0) + len(word)
    sorted(counts, key=lambda word: (-counts[word], word))
    return time.perf_counter() - began
