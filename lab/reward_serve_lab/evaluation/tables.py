"""Reports as tables for the terminal, and the reliability diagram."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.markup import escape
from rich.table import Table

from reward_serve.schema import probability_right
from reward_serve_lab.evaluation.bulk import Run
from reward_serve_lab.evaluation.metrics import BINS, Bin
from reward_serve_lab.evaluation.report import disagreements

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_GROUPS = 20
TAIL_CHARACTERS = 80
_SHOWN = (0.0, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)

Report = Mapping[str, Any]

Columns = Mapping[str, Callable[[Report], str]]

_METRICS: Columns = {
    "rows (labelled)": lambda r: f"{r['n']} ({r['labelled']})",
    "unscored": lambda r: str(r["unscored"]),
    "agreement": lambda r: _rate(r, "agreement"),
    "agreement of scored": lambda r: _number(r["agreement_of_scored"]),
    "false accept": lambda r: _rate(r, "false_accept"),
    "false reject": lambda r: _rate(r, "false_reject"),
    "AUC": lambda r: _number(r["auc"]),
    "kappa": lambda r: _number(r["kappa"]),
    "ECE": lambda r: _number(r["ece"]),
    "confusion": lambda r: _counts(r["confusion"]),
    "statuses": lambda r: _counts(r["statuses"]),
    "decided by": lambda r: _counts(r["sources"]),
    "verdicts/s": lambda r: _number(r["verdicts_per_s"], 1),
    "p50, p95 ms": lambda r: ", ".join(_number(r["latency_ms"][key], 0) for key in ("p50", "p95")),
}
_CELLS: Columns = {
    **_METRICS,
    "rows": lambda r: str(r["n"]),
    "share": lambda r: f"{r['share']:.1%}",
    "mean ms": lambda r: f"{r['mean_latency_ms']:.1f}",
    "prompt tokens": lambda r: f"{r['mean_prompt_tokens']:.0f}",
}


def _cells(*names: str) -> Columns:
    return {name: _CELLS[name] for name in names}


_GROUP = _cells("rows", "unscored", "agreement", "false accept", "false reject", "AUC")
_STAGE = _cells("share", "rows", "agreement", "AUC", "ECE", "mean ms", "prompt tokens")
_SUMMARY = {
    "rows": _CELLS["rows"],
    "agreement": lambda r: (
        "no labels"
        if r["agreement"] is None
        else f"{r['agreement']:.1%} ({r['agreement_of_scored'] or 0:.1%} of scored)"
    ),
    **_cells("statuses", "decided by", "verdicts/s", "p50, p95 ms"),
}


def table_of(name: str, columns: Columns, reports: Mapping[str, Report]) -> Table:
    """A row for each report."""
    table = Table(name, *columns)
    table.columns[0].overflow = "fold"  # the names of rules
    for title, report in reports.items():
        cells = [shown_text(title), *(cell(report) for cell in columns.values())]
        table.add_row(*map(escape, cells))
    return table


def summary_table(summaries: Mapping[str, Report]) -> Table:
    """Summaries of runs, one per row."""
    return table_of("", _SUMMARY, summaries)


def metrics_table(reports: Mapping[str, Report]) -> Table:
    """The metrics of several runs, one per column."""
    table = Table(
        caption=f"ECE: {BINS} equal-width bins over the predicted probability; for a rule, its "
        "score. Intervals: 95% Wilson. An unscored row counts as a disagreement and is left out of "
        "AUC, kappa, ECE, confusion and rates.",
        caption_justify="left",
    )
    table.add_column("")
    for title in reports:
        table.add_column(escape(title), overflow="fold")
    for name, cell in _METRICS.items():
        table.add_row(name, *(escape(cell(report)) for report in reports.values()))
    return table


def group_tables(report: Report) -> Iterator[Table]:
    """A run by criterion, by format (most disagreements first), by response length and by stage."""
    if report["by_criterion"]:
        yield _group_table("criterion", report["by_criterion"])
    if not report["labelled"]:
        return
    formats = report["by_format"].items()
    yield _group_table(
        "format", dict(sorted(formats, key=lambda item: item[1]["n"] * (item[1]["agreement"] - 1)))
    )
    yield _group_table("characters", report["by_length"])
    yield table_of("decided by", _STAGE, report["stages"])
    if len(report["coverage"]) > 1:
        yield _coverage_table(report["coverage"])


def _coverage_table(points: Sequence[Report]) -> Table:
    table = Table("judge.min_probability", "scored", "errors among them", "false accepts")
    for least in _SHOWN:
        *_, point = (point for point in points if point["min_probability"] <= least)
        scored = f"{point['scored']} ({point['coverage']:.1%})"
        table.add_row(f"{least:g}", scored, _rate(point, "error"), str(point["false_accepts"]))
    return table


def advice(points: Sequence[Report], max_error: float) -> str:
    """The lowest threshold with at most this share of errors among the rows with a score."""
    point = next((point for point in points if point["error_rate"] <= max_error), None)
    if point is None:
        return f"no judge.min_probability has at most {max_error:.2%} errors"
    least, errors = f"judge.min_probability {point['min_probability']:g}", _rate(point, "error")
    return f"{least}: {errors} errors among the {point['coverage']:.1%} of rows with a score"


def disagreement_table(run: Run, limit: int) -> Table:
    """The rows whose verdict and label differ, most confident first."""
    differing = disagreements(run)
    listed = differing[:limit]
    table = Table(
        *("row", "label", "verdict", "p(right)", "end of the response"),
        title=f"disagreements: {len(listed)} of {len(differing)}",
        title_justify="left",
    )
    for row, result in listed:
        p = probability_right(result)
        table.add_row(
            escape(shown_text(row.name)),
            "right" if row.correct else "wrong",
            result.status.value if result.score is None else f"{result.score:g}",
            "-" if p is None else f"{p:.3f}",
            escape(shown_text(row.response[-TAIL_CHARACTERS:])),
        )
    return table


def difference(title: str, report: Report) -> Group:
    """The comparison of runs over the same rows, listing rows that flip or are near 0.5."""
    near, margin = report["within_margin"], report["margin"]
    summary = (
        f"{title}: {report['flips']} flips in {report['rows']} rows; {report['lost']} rows scored "
        f"in some runs only; {len(near)} rows within {margin:g} of 0.5 "
        f"({report['flips_within_margin']} flip); largest difference in probability "
        f"{report['largest_difference']:.4f}"
    )
    if "unmatched" in report:
        same = "the same" if report["same_fingerprints"] else "different"
        summary += f"; {report['unmatched']} rows not in the earlier run; {same} fingerprints"
    table = Table("row", "", "p(right) in each run")
    listed = [("", row) for row in report["flipped"]] + [
        (" within the margin", row) for row in near
    ]
    for where, row in listed[:MAX_GROUPS]:
        what = ("flips" if row["flipped"] else "stays") + where
        probabilities = " ".join(f"{p:.4f}" for p in row["probabilities"])
        table.add_row(escape(shown_text(row["row"])), what, probabilities)
    return Group(summary, table) if listed else Group(summary)


def shown_text(text: str) -> str:
    """The text on one line, with control and unprintable characters escaped."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _group_table(name: str, groups: Mapping[str, Report]) -> Table:
    table = table_of(name, _GROUP, dict(islice(groups.items(), MAX_GROUPS)))
    if len(groups) > MAX_GROUPS:
        table.caption = f"and {len(groups) - MAX_GROUPS} more: --out has all"
    return table


def _rate(report: Report, name: str) -> str:
    rate = report[name if name == "agreement" else f"{name}_rate"]
    if rate is None:
        return "-"
    low, high = report[f"{name}_interval"]
    return f"{rate:.1%} ({100 * low:.1f} to {100 * high:.1f})"


def _number(value: float | None, digits: int = 3) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{key.replace('_', ' ')} {count}" for key, count in counts.items()) or "-"


def curves_figure(
    curves: Mapping[str, Sequence[Bin]], coverages: Mapping[str, Sequence[Report]]
) -> Figure:
    """Per run: observed against predicted accuracy, above row counts; errors against coverage."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 7), layout="constrained")
    (above, errors), (below, accepts) = figure.subplots(2, 2, sharex="col", height_ratios=(3, 1))
    above.plot([0, 1], [0, 1], color="grey", linestyle="--", label="perfectly calibrated")
    for title, bins in curves.items():
        predicted = [b.predicted for b in bins]
        label = title.replace("$", r"\$")
        (line,) = above.plot(predicted, [b.right for b in bins], marker="o", label=label)
        below.plot(
            predicted, [b.n for b in bins], marker="o", linestyle="none", color=line.get_color()
        )
    above.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), ylabel="fraction right")
    above.set_title(f"Reliability, {BINS} equal-width bins")
    above.legend()
    below.set(xlabel="predicted probability right (mean of the bin)", ylabel="rows")
    below.set_yscale("symlog")
    below.set_ylim(0, 10 * max((b.n for bins in curves.values() for b in bins), default=1))
    for points in coverages.values():  # in the order and so the colours of the curves
        covered = [point["coverage"] for point in points]
        errors.plot(covered, [point["error_rate"] for point in points], marker=".")
        accepts.plot(covered, [point["false_accepts"] for point in points], marker=".")
    errors.set(title="Errors by coverage, over judge.min_probability", ylabel="errors among them")
    accepts.set(xlabel="share of the rows with a score", ylabel="false accepts")
    return figure
