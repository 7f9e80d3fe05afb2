"""Skips what needs the embedded sandbox, on a kernel that has none."""

import pytest

from reward_serve_checkers.sandbox import sandbox_fault

FAULT = sandbox_fault()
needs_sandbox = pytest.mark.skipif(FAULT is not None, reason=FAULT or "")
