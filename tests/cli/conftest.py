from __future__ import annotations

from tests.linting.conftest import write

__all__ = ["write"]
