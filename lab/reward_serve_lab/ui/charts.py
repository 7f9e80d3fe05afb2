"""Small SVG charts in the page's colors; the page also shows their numbers as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nicegui.element import Element

from reward_serve_lab.ui.elements import tag
from reward_serve_lab.ui.text import legible

_WIDTH, _HEIGHT = 100.0, 40.0

STATUS_TONES = {
    "ok": "ok",
    "invalid": "muted",
    "unparseable": "warn",
    "truncated": "warn",
    "timeout": "bad",
    "overloaded": "bad",
    "error": "bad",
    "cancelled": "muted",
}
"""The color of each status."""

SOURCES = ("judge", "rule", "cache", "classifier", "remote", "panel", "fallback")
"""Sources with a color of their own; a log may contain others."""


def score_tone(score: float | None) -> str:
    """The CSS class of a score; ``none`` without one."""
    if score is None:
        return "none"
    return "high" if score >= 0.75 else "low" if score <= 0.25 else "middle"


def histogram(title: str, counts: Sequence[int], low: float, high: float) -> None:
    """Counts in equal bins from ``low`` to ``high``."""
    top = max(counts, default=0) or 1
    with _figure(title, f"{top:,}", f"{low:g}", f"{high:g}"):
        width = _WIDTH / max(1, len(counts))
        for index, count in enumerate(counts):
            if not count:
                continue
            height = max(0.8, _HEIGHT * count / top)
            bar = tag("rect", "bar", x=index * width + 0.2, y=_HEIGHT - height)
            bar._props |= {"width": width - 0.4, "height": height}
            step = (high - low) / len(counts)
            with bar:
                begin = low + index * step
                tag("title", text=f"{begin:g} to {begin + step:g}: {count:,}")


def scatter(title: str, points: Mapping[str, Sequence[tuple[float, float]]], unit: str) -> None:
    """Points (x, y) by source; x starts at 0, and y covers at least 0 to 1."""
    flat = [point for some in points.values() for point in some]
    most = max((x for x, _ in flat), default=0.0) or 1.0
    low = min([0.0, *(y for _, y in flat)])
    high = max([1.0, *(y for _, y in flat)])
    by_source: dict[str, list[tuple[float, float]]] = {}
    for kind, some in points.items():
        by_source.setdefault(kind if kind in SOURCES else "other", []).extend(some)
    with _figure(title, f"{high:g}", "0", f"{most:,.0f} {unit}", f"{low:g}", keys=list(by_source)):
        for source, some in by_source.items():
            steps = (
                f"M{x / most * 98 + 1:.2f} {38 - (y - low) / (high - low) * 36:.2f}h0"
                for x, y in some
            )
            tag("path", f"dots {source}", d="".join(steps))


def stacked(
    title: str, columns: Sequence[Mapping[str, int]], first: str, last: str, order: Sequence[str]
) -> None:
    """Stacked counts by kind, in columns."""
    top = max((sum(column.values()) for column in columns), default=0) or 1
    with _figure(title, f"{top:,}", first, last):
        width = _WIDTH / max(1, len(columns))
        for index, column in enumerate(columns):
            below = 0.0
            for kind in order:
                count = column.get(kind, 0)
                if not count:
                    continue
                height = _HEIGHT * count / top
                tone = STATUS_TONES.get(kind, "muted")
                bar = tag("rect", f"bar {tone}", x=index * width + 0.15)
                bar._props |= {"y": _HEIGHT - below - height, "width": width - 0.3}
                bar._props["height"] = height
                with bar:
                    tag("title", text=f"{legible(kind, 40)}: {count:,}")
                below += height


def line(title: str, values: Sequence[float | None], last: str) -> None:
    """Values over time, newest on the right; None is a gap."""
    known = [value for value in values if value is not None]
    top = max(known, default=0.0) or 1.0
    with _figure(title, f"{top:,.3g}", "", last):
        steps, pen = [], "M"
        for index, value in enumerate(values):
            if value is None:
                pen = "M"
                continue
            x = _WIDTH * index / max(1, len(values) - 1)
            steps.append(f"{pen}{x:.2f} {_HEIGHT - 1 - (_HEIGHT - 4) * value / top:.2f}")
            pen = "L"
        tag("path", "trace", d="".join(steps) or "M0 39h0")


def bars(values: Mapping[str, float], chosen: str | None = None) -> None:
    """One bar per probability."""
    with tag("dl", "bars"):
        for label, value in values.items():
            shown = min(1.0, max(0.0, value))
            tag("dt", "chosen" if label == chosen else "", legible(label, 60))
            with tag("dd"):
                with tag("span", "track"):
                    filled = tag("span", "fill chosen" if label == chosen else "fill")
                    filled.style(f"width: {shown * 100:.2f}%")
                tag("span", "number", f"{value:.4f}")


def _figure(
    title: str, top: str, left: str, right: str, bottom: str = "0", keys: Sequence[str] = ()
) -> Element:
    """Create a figure with title and axis limits; return its SVG element."""
    with tag("figure", "chart"):
        tag("figcaption", text=title)
        with tag("div", "plot"):
            tag("span", "y-top", top)
            tag("span", "y-bottom", bottom)
            drawing = tag("svg", viewBox=f"0 0 {_WIDTH:g} {_HEIGHT:g}", role="img")
            drawing._props |= {"preserveAspectRatio": "none", "aria-label": title}
        with tag("div", "x-axis"):
            tag("span", text=left)
            tag("span", text=right)
        if keys:
            with tag("div", "keys"):
                for key in keys:
                    with tag("span"):
                        tag("span", f"swatch {key}", aria_hidden="true")
                        tag("span", text=key)
    return drawing
