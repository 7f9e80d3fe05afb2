"""One verdict of the log with all its fields."""

from __future__ import annotations

import time
from typing import Any

from reward_serve_lab.ui import charts
from reward_serve_lab.ui.elements import heading, pill, tag, untrusted
from reward_serve_lab.ui.log_query import Verdict
from reward_serve_lab.ui.text import legible


def sheet(verdict: Verdict, rest: dict[str, Any]) -> None:
    """Show a verdict and its other fields."""
    with tag("div", "sheet-head"):
        heading("Verdict", 2)
        score = "no score" if verdict.score is None else f"score {verdict.score:g}"
        pill(score, charts.score_tone(verdict.score))
        pill(legible(verdict.status, 40), charts.STATUS_TONES.get(verdict.status, ""))
    heading("End of the response", 3)
    untrusted(verdict.response or "(not in the log)", "text-box", "div")
    heading("Reference", 3)
    untrusted(verdict.reference or "(not in the log)", "text-box", "div")
    heading("Log entry", 3)
    with tag("dl", "facts"):
        for name, value in rest.items():
            if value is None or name in ("score", "status", "reference"):
                continue
            tag("dt", text=name if name.isidentifier() else ascii(name)[:60])
            with tag("dd"):
                text = f"{clock(value)} local time" if name == "time" else str(value)
                untrusted(text[:2000])


def clock(seconds: object) -> str:
    """A time of the log in local time; "-" if it is invalid."""
    if not isinstance(seconds, int | float) or not 0 < seconds < 1e11:
        return "-"
    return time.strftime("%m-%d %H:%M:%S", time.localtime(seconds))
