"""Small charts in the page's colors; the page also shows their numbers as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
_MUTED = {"color": "var(--muted)", "fontSize": 11}
_AXIS: Series = {
    "axisLabel": _MUTED,
    "axisLine": {"lineStyle": {"color": "var(--line-strong)"}},
    "splitLine": {"lineStyle": {"color": "var(--line)"}},
    "nameLocation": "middle",
    "nameTextStyle": _MUTED,
}
_LEGEND = {"bottom": 0, "textStyle": _MUTED, "itemWidth": 8, "itemHeight": 8}
_MAX_SYMBOLS = 60
# A click anywhere above a step, since a line is thin.
_STEP_AT = """event => {
    const chart = getElement(ID).chart, box = chart.getDom().getBoundingClientRect();
    const at = [event.clientX - box.left, event.clientY - box.top];
    if (chart.containPixel("grid", at)) emit(chart.convertFromPixel({xAxisIndex: 0}, at[0]));
}"""


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


class BySteps(ui.echart):
    """Lines or stacked shares by step; it is updated in place.

    Args:
        title: what it shows.
        y_name: the name of the vertical axis.
        series: their names and colors.
        on_step: called with the index of a step that is clicked.
        highest: the least value of the vertical axis's end; None for the data's.
        stacked: whether the series are stacked bars.
    """

    def __init__(
        self,
        title: str,
        y_name: str,
        series: Mapping[str, str],
        on_step: Callable[[int], object],
        highest: float | None = None,
        *,
        stacked: bool = False,
    ) -> None:
        self._series = dict(series)
        self._kind = {"type": "bar", "stack": "all"} if stacked else {"type": "line"}
        self._highest = highest
        below = 26 if len(series) > 1 else 4
        options = _options(
            {**_AXIS, "type": "category", "name": "step", "nameGap": 24},
            {**_AXIS, "type": "value", "splitNumber": 5, "name": y_name},
            legend=len(series) > 1,
            # With labels and names within it.
            grid={"outerBoundsMode": "same", "left": 4, "right": 16, "top": 8, "bottom": below},
            tooltip={"trigger": "axis", "axisPointer": {"type": "shadow"}},
        )
        with tag("figure", "chart"):
            tag("figcaption", text=title)
            super().__init__(options, renderer="svg")
        self.on(
            "click",
            lambda event: on_step(int(event.args)),
            js_handler=_STEP_AT.replace("ID", str(self.id)),
        )

    def show(self, steps: Sequence[float], values: Sequence[Sequence[float | None]]) -> None:
        """Show the values of each series, in the order of the steps; None is a gap."""
        known = [value for some in values for value in some if value is not None]
        self.options["xAxis"]["data"] = [f"{step:g}" for step in steps]
        self.options["yAxis"] |= {"min": min([0, *known])}
        if self._highest is not None:
            self.options["yAxis"]["max"] = max([self._highest, *known])
        self.options["series"] = [
            _colored({**self._kind, "name": name, "data": list(data)}, color)
            | {"showSymbol": len(steps) <= _MAX_SYMBOLS, "barCategoryGap": "10%"}
            | {"emphasis": {"disabled": True}}  # it cannot compute with CSS variables
            for (name, color), data in zip(self._series.items(), values, strict=True)
        ]
        self.update()


def bars(values: Mapping[str, float], chosen: str | None = None) -> None:
    """One bar per probability."""
    with tag("dl", "bars"):
        for label, value in values.items():
            share = min(1.0, max(0.0, value))
            tag("dt", "chosen" if label == chosen else "", legible(label, 60))
            with tag("dd"):
                with tag("span", "track"):
                    filled = tag("span", "fill chosen" if label == chosen else "fill")
                    filled.style(f"width: {share * 100:.2f}%")
                tag("span", "number", f"{value:.4f}")


def _colored(series: Series, color: str) -> Series:
    return series | {
        "itemStyle": {"color": f"var({color})"},
        "lineStyle": {"color": f"var({color})"},
    }


def _figure(
    title: str, x_axis: Series, series: Sequence[Series], y_range: Series | None = None
) -> None:
    # Of categories, only the first and the last are named, within the chart's width.
    ends = {"alignMinLabel": "left", "alignMaxLabel": "right"}
    if "data" in x_axis:
        between = max(0, len(x_axis["data"]) - 2)
        x_axis = {**x_axis, "axisLabel": {**_MUTED, **ends, "interval": between}}
    unmarked = {"axisTick": {"show": False}, "splitLine": {"show": False}}
    options = _options(
        {**_AXIS, **unmarked, **x_axis},
        {**_AXIS, "type": "value", "splitNumber": 2, **(y_range or {})},
        legend=x_axis["type"] == "value",
        grid={"left": 36, "right": 12, "top": 8, "bottom": 44 if y_range else 24},
    )
    with tag("figure", "chart"):
        tag("figcaption", text=title)
        chart = ui.echart({**options, "series": list(series)}, renderer="svg")
        # ECharts names only a chart that has data.
        chart.props["role"], chart.props["aria-label"] = "img", title


def _options(
    x_axis: Series, y_axis: Series, *, legend: bool, grid: Series, tooltip: Series | None = None
) -> Series:
    return {
        "animation": False,
        "aria": {"enabled": True},
        "textStyle": _MUTED,
        "legend": {**_LEGEND, "show": legend},
        "grid": grid,
        "tooltip": {"confine": True, **(tooltip or {})},
        "xAxis": x_axis,
        "yAxis": y_axis,
        "series": [],
    }
