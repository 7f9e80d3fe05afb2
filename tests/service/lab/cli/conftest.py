from __future__ import annotations

from tests.service.lab.linting.conftest import write

__all__ = ["write"]
