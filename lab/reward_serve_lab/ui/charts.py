"""Small charts in the page's colors; the page also shows their numbers as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nicegui import ui

from reward_serve_lab.ui.elements import tag
from reward_serve_lab.ui.text import legible

Series = dict[str, Any]

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

SOURCES = ("judge", "rule", "cache", "classifier", "remote", "composite", "fallback")
"""The sources; a log may contain others."""

_TONES = {"ok": "--ok", "warn": "--warn", "bad": "--bad", "muted": "--line-strong"}
_SOURCE_COLORS = {"rule": "--ok", "cache": "--warn", "other": "--line-strong"}
_COLOR = "--accent"


def score_tone(score: float | None) -> str:
    """The CSS class of a score; ``none`` without one."""
    if score is None:
        return "none"
    return "high" if score >= 0.75 else "low" if score <= 0.25 else "middle"


def histogram(title: str, counts: Sequence[int], low: float, high: float) -> None:
    """Counts in equal bins from ``low`` to ``high``."""
    step = (high - low) / max(1, len(counts))
    bins = [f"{low + n * step:g} to {low + (n + 1) * step:g}" for n in range(len(counts))]
    data = [count or None for count in counts]
    bar = {"type": "bar", "data": data, "barCategoryGap": "10%", "barMinHeight": 2}
    _figure(title, {"type": "category", "data": bins}, [_colored(bar, _COLOR)])


def scatter(title: str, points: Mapping[str, Sequence[tuple[float, float]]]) -> None:
    """Points (x, y) by source; x starts at 0, and y covers at least 0 to 1."""
    by_source: dict[str, list[tuple[float, float]]] = {}
    for kind, some in points.items():
        by_source.setdefault(kind if kind in SOURCES else "other", []).extend(some)
    values = [y for some in by_source.values() for _, y in some]
    series = [
        _colored(
            {"type": "scatter", "name": source, "data": some, "symbolSize": 5},
            _SOURCE_COLORS.get(source, _COLOR),
        )
        for source, some in by_source.items()
    ]
    y_range = {"min": min([0.0, *values]), "max": max([1.0, *values])}
    _figure(title, {"type": "value", "min": 0}, series, y_range)


def stacked(
    title: str, columns: Sequence[Mapping[str, int]], first: str, last: str, order: Sequence[str]
) -> None:
    """Stacked counts by kind, in columns."""
    series = [
        _colored(
            {
                "type": "bar",
                "stack": "all",
                "name": legible(kind, 40),
                "data": [column.get(kind) or None for column in columns],
                "barCategoryGap": "10%",
            },
            _TONES[STATUS_TONES.get(kind, "muted")],
        )
        for kind in order
        if any(column.get(kind) for column in columns)
    ]
    ends = [first, *[""] * (len(columns) - 2), last]
    _figure(title, {"type": "category", "data": ends}, series)


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


def _colored(series: Series, color: str) -> Series:
    return series | {
        "itemStyle": {"color": f"var({color})"},
        "lineStyle": {"color": f"var({color})"},
    }


def _figure(
    title: str, x_axis: Series, series: Sequence[Series], y_range: Series | None = None
) -> None:
    muted = {"color": "var(--muted)", "fontSize": 11}
    axis = {
        "axisLabel": muted,
        "axisLine": {"lineStyle": {"color": "var(--line-strong)"}},
        "splitLine": {"lineStyle": {"color": "var(--line)"}},
    }
    # Of categories, only the first and the last are named, within the chart's width.
    ends = {"alignMinLabel": "left", "alignMaxLabel": "right"}
    if "data" in x_axis:
        between = max(0, len(x_axis["data"]) - 2)
        x_axis = {**x_axis, "axisLabel": {**muted, **ends, "interval": between}}
    with tag("figure", "chart"):
        tag("figcaption", text=title)
        ui.echart(
            {
                "animation": False,
                "aria": {"enabled": True},
                "textStyle": muted,
                "legend": {
                    "show": x_axis["type"] == "value",
                    "bottom": 0,
                    "textStyle": muted,
                    "itemWidth": 8,
                    "itemHeight": 8,
                },
                "grid": {"left": 36, "right": 12, "top": 8, "bottom": 44 if y_range else 24},
                "tooltip": {"confine": True},
                "xAxis": {
                    **axis,
                    "axisTick": {"show": False},
                    "splitLine": {"show": False},
                    **x_axis,
                },
                "yAxis": {**axis, "type": "value", "splitNumber": 2, **(y_range or {})},
                "series": list(series),
            },
            renderer="svg",
        )
