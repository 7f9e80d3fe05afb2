from __future__ import annotations

from tests.unit.clients.conftest import environment

__all__ = ["environment"]
