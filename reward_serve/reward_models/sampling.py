"""Sample requests by their hash, consistently across replicas."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

_HASHED_CHARACTERS = 4096


def request_hash(request: object) -> str:
    """A hash of response, reference, question and template, as 16 hex digits.

    Only the length and the end of a long text are hashed.
    """
    fields = request if isinstance(request, Mapping) else None
    digest = hashlib.sha256()
    for name in ("response", "reference", "question", "template"):
        value = getattr(request, name, None) if fields is None else fields.get(name)
        text = value if isinstance(value, str) else _shown(value)
        digest.update(f"{len(text)}:{text[-_HASHED_CHARACTERS:]}".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:16]


def _shown(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # of an invalid request: an integer of 5,000 digits has no repr
        return type(value).__name__


def chosen(request_hash: str, rate: float) -> bool:
    """Whether a request belongs to a sample; the same in every replica and at any time."""
    return int(request_hash[:8], 16) < rate * 2**32
