"""Verdicts: the verdict log as a live table with filters and charts."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

import duckdb
from nicegui import ui
from nicegui.element import Element

from reward_serve_lab.logs.query import (
    FILTERED,
    MAX_CHARTED,
    PAGE_ROWS,
    Answer,
    Verdict,
    ask,
    choices,
    rest_of,
)
from reward_serve_lab.logs.table import Progress, VerdictTable
from reward_serve_lab.ui import charts
from reward_serve_lab.ui.elements import button, heading, message, pill, tag, untrusted
from reward_serve_lab.ui.session import Draft, Session
from reward_serve_lab.ui.table import Cell, Column, Rows, TableRow, score_cell, status_cell
from reward_serve_lab.ui.text import Piece, legible, one_line, transportable


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


_SPANS = {"": "any time", "600": "last 10 min", "3600": "last hour", "86400": "last day"}
_FOLLOW_S = 2.0
_MOVE_S = 10.0
_COLUMNS = [
    Column("time", "nowrap muted"),
    Column("score", "number"),
    Column("status"),
    Column("decided by", "nowrap"),
    Column("template", "nowrap wide-only"),
    Column("reference", "narrow text"),
    Column("end of the response", "text grow"),
    Column("chars", "number wide-only"),
]


def build(session: Session) -> None:
    """Build the page."""
    heading("Verdicts", 1)
    table = session.workbench.verdicts
    if table is None:
        no_log()
        return
    _Verdicts(session, table).build()


def no_log() -> None:
    """Say how to give the workbench a verdict log."""
    message(
        "No verdict log was given.",
        "",
        "Set verdict_log.folder in the deployments file, and start the workbench with "
        "--log FOLDER.",
    )


def show_progress(progress: Progress, status: Element, notes: Element) -> None:
    """Show how far the log has been read, and in place of earlier notes why it cannot be read."""
    parts = [f"{progress.rows:,} verdicts and audits read"]
    if progress.read_bytes < progress.total_bytes:
        parts.append(f"reading: {progress.read_bytes / progress.total_bytes:.0%} of the log")
    if progress.unreadable:
        parts.append(f"{progress.unreadable:,} lines are not verdicts")
    status._text = " · ".join(parts)
    status.update()
    notes.clear()
    if progress.fault:
        with notes:
            message(f"The log cannot be read: {progress.fault}", "bad", "Check --log.")


def show_unreadable(error: duckdb.Error, notes: Element) -> None:
    """Say that a query failed, in place of earlier notes."""
    notes.clear()
    with notes:
        message(f"The verdicts cannot be read: {error}", "bad", "Restart the workbench.")


class _Verdicts:
    """The page and the rows that it shows."""

    def __init__(self, session: Session, table: VerdictTable) -> None:
        self._session = session
        self._verdicts = table
        self._page = 0
        self._rows: list[Verdict] = []
        self._shown_for: tuple[Any, ...] = ()
        self._querying = False
        self._not_before = 0.0
        self._live = True
        self._span = ""
        self._selects: dict[str, ui.select] = {}

    def build(self) -> None:
        self._filters_bar()
        self._status = tag("p", "log-status muted", role="status")
        self._fault = tag("div")
        self._charts = tag("div", "charts")
        with tag("div", "table-box"):
            self._table = Rows(_COLUMNS, on_open=self._open, caption="Newest first")
        with tag("nav", "pager", aria_label="Pages of the log"):
            self._newer = button("← Newer", lambda: self._turn(-1))
            self._where = tag("span", "muted")
            self._older = button("Older →", lambda: self._turn(1))
        ui.timer(_FOLLOW_S, self._follow)
        ui.timer(0.0, self._refresh, once=True)

    def _filters_bar(self) -> None:
        filters = self._session.filters
        with tag("section", "filters", aria_label="Filters"):
            for name in FILTERED:
                label = "decided by" if name == "source" else name
                self._selects[name] = self._select(label, name, getattr(filters, name))
            self._number("step", "step", 1)
            with tag("div", "range"):
                self._number("score from", "lowest")
                self._number("to", "highest")
            ui.select(_SPANS, value="", label="time", on_change=self._set_span).props(
                "dense outlined options-dense"
            )
            ui.input(
                "text", value=filters.text, on_change=lambda e: self._set("text", e.value or "")
            ).props("dense outlined clearable debounce=400 type=search").classes("search")
            ui.switch("Follow", value=True, on_change=self._set_live).props("dense")
            if filters.ids:
                self._sign = button(f"✕ {len(filters.ids)} of a sign", self._show_all)

    def _select(self, label: str, name: str, value: str) -> ui.select:
        options = {"": "any", value: value or "any"}
        made = ui.select(
            options, value=value, label=label, on_change=lambda e: self._set(name, e.value or "")
        )
        return made.props("dense outlined options-dense")

    async def _show_all(self) -> None:
        self._sign.delete()
        await self._set("ids", ())

    def _number(self, label: str, name: str, by: float = 0.1) -> None:
        ui.number(
            label,
            value=getattr(self._session.filters, name),
            on_change=lambda e: self._set(name, e.value),
        ).props(f"dense outlined step={by:g} debounce=300")

    async def _set(self, name: str, value: Any) -> None:
        self._session.filters = replace(self._session.filters, **{name: value})
        self._page = 0
        await self._refresh()

    async def _set_span(self, event: Any) -> None:
        self._span = event.value or ""
        self._page = 0
        await self._refresh()

    def _set_live(self, event: Any) -> None:
        self._live = bool(event.value)

    async def _turn(self, step: int) -> None:
        self._page = max(0, self._page + step)
        await self._refresh()

    async def _follow(self) -> None:
        show_progress(self._verdicts.progress, self._status, self._fault)
        if self._live and self._page == 0 and time.monotonic() >= self._not_before:
            await self._refresh()

    async def _refresh(self) -> None:
        """Query the index and show the answer; if calls overlap, only the last one is shown."""
        if self._querying:
            self._not_before = 0.0
            return
        self._querying = True
        try:
            while self._wanted() != self._shown_for:
                wanted = self._wanted()
                began = time.monotonic()
                filters, page = self._session.filters, self._page
                if self._span:
                    filters = replace(filters, since=time.time() - float(self._span))
                answer = await asyncio.to_thread(ask, self._verdicts, filters, page)
                known = await asyncio.to_thread(choices, self._verdicts)
                took_s = time.monotonic() - began
                self._not_before = time.monotonic() + 10 * took_s
                if self._table.is_deleted:
                    return
                self._shown_for = wanted
                self._show(answer, known)
                if not self._live or took_s > 0.5:
                    break
        except duckdb.Error as error:
            show_unreadable(error, self._fault)
        finally:
            self._querying = False

    def _wanted(self) -> tuple[Any, ...]:
        """Everything that the answer depends on; for a live page also the log and the time."""
        following = self._live and self._page == 0
        rows = self._verdicts.progress.rows if following else -1
        moment = int(time.time() / _MOVE_S) if following and self._span else 0
        return self._session.filters, self._span, self._page, rows, moment

    def _show(self, answer: Answer, choices: dict[str, list[str]]) -> None:
        show_progress(self._verdicts.progress, self._status, self._fault)
        self._rows = answer.rows
        self._table.show([_row(verdict) for verdict in answer.rows])
        pages = max(1, -(-answer.total // PAGE_ROWS))
        where = f"page {self._page + 1:,} of {pages:,} · {answer.total:,} verdicts"
        if answer.total > MAX_CHARTED:
            where += f"; the charts count the newest {MAX_CHARTED:,}"
        self._where._text = where
        self._where.update()
        self._newer.set_enabled(self._page > 0)
        self._older.set_enabled(self._page + 1 < pages)
        for name, select in self._selects.items():
            known = {"": "any", **{value: legible(value, 60) for value in choices[name]}}
            known.setdefault(str(select.value or ""), legible(str(select.value), 60))
            if known != select.options:
                select.set_options(known, value=select.value)
        self._charts.clear()
        with self._charts:
            _show_charts(answer)

    def _open(self, index: int) -> None:
        if not 0 <= index < len(self._rows):
            return
        verdict = self._rows[index]
        with ui.dialog(value=True).props("aria-label=Verdict") as dialog, tag("div", "sheet"):
            rest = rest_of(self._verdicts, verdict.id)
            sheet(verdict, rest)
            with tag("div", "actions"):
                if verdict.source != "teacher":
                    button("Open in Ask", lambda: self._to_ask(verdict, rest), primary=True)
                button("Close", dialog.close)
        dialog.on("hide", dialog.delete)

    def _to_ask(self, verdict: Verdict, rest: dict[str, Any]) -> None:
        self._session.draft = Draft(
            question=transportable(str(rest.get("question") or "")),
            reference=transportable(verdict.reference),
            response=transportable(verdict.response),
            models=[verdict.model] if verdict.model else [],
            templates=[verdict.template] if verdict.template else [],
            note="From the verdict log, which stores only the end of the response and only short "
            "questions.",
        )
        ui.navigate.to("/")


def _row(verdict: Verdict) -> TableRow:
    decided = verdict.source + (f" · {verdict.rule}" if verdict.rule else "")
    score = "none" if verdict.score is None else f"{verdict.score:g}"
    return TableRow(
        [
            Cell([Piece(clock(verdict.time))]),
            score_cell(verdict.score),
            status_cell(verdict.status),
            Cell(one_line(decided or "none", 40)),
            Cell(one_line(verdict.template, 30)),
            Cell(one_line(verdict.reference.rpartition("####")[2].strip(), 40)),
            Cell(one_line(verdict.response, 140)),
            Cell([Piece(f"{verdict.characters:,}")]),
        ],
        label=f"score {score}, {legible(verdict.status, 40)}; opens the verdict",
    )


def _show_charts(answer: Answer) -> None:
    charts.histogram("Scores", answer.scores, answer.low, answer.high)
    charts.scatter("Score against length in characters, by source", answer.points)
    tones = list(charts.STATUS_TONES)
    others = {status for column in answer.statuses for status in column} - set(tones)
    charts.stacked(
        "Statuses over time",
        answer.statuses,
        clock(answer.began) if answer.total else "",
        clock(answer.ended) if answer.total else "",
        [*tones, *sorted(others)],
    )
