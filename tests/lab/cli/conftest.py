from __future__ import annotations

from tests.lab.linting.conftest import write

__all__ = ["write"]
