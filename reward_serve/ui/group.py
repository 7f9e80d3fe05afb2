"""x."""

from __future__ import annotations

from reward_serve.ui.elements import heading
from reward_serve.ui.shell import Session


def build(session: Session) -> None:
    """The page."""
    heading("x", 1)
