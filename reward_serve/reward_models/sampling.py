"""Which requests are of a sample: told by their hash, the same in every replica."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

_HASHED_CHARACTERS = 4096


def request_hash(request: object) -> str:
    """16 hex digits that equal questions share: response, reference, question and template.

    Of a long text its end and its length.
    """
    fields = request if isinstance(request, Mapping) else None
    told = hashlib.sha256()
    for name in ("response", "reference", "question", "template"):
        value = getattr(request, name, None) if fields is None else fields.get(name)
        text = value if isinstance(value, str) else repr(value)
        told.update(f"{len(text)}:{text[-_HASHED_CHARACTERS:]}".encode("utf-8", "surrogatepass"))
    return told.hexdigest()[:16]


def chosen(request_hash: str, rate: float) -> bool:
    """Whether a request is of a sample; the same in every replica, and at every time."""
    return int(request_hash[:8], 16) < rate * 2**32
