"""The bundled judge: its weights, and how its prompt shows a response and a reference.

The core finds this module by the entry point ``reward_serve.judge`` and uses what is in ``__all__``
(``reward_serve.engines.bundled.Judge``).
"""

from __future__ import annotations

from reward_serve_judge.canonical import canonical
from reward_serve_judge.places import OCCURRENCES, occurrence, stated
from reward_serve_judge.weights import (
    ADAPTER,
    adapter_digest,
    bundled_folder,
    prepare_bundled,
    prepare_int8,
)

__all__ = [
    "ADAPTER",
    "OCCURRENCES",
    "adapter_digest",
    "bundled_folder",
    "canonical",
    "occurrence",
    "prepare_bundled",
    "prepare_int8",
    "stated",
]
