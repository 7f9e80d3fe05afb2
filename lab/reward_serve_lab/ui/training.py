"""Training: a run by the steps of its trainer, live, and signs of a hole in its reward."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import duckdb
from nicegui import ui

from reward_serve_lab.logs.query import Filters
from reward_serve_lab.logs.signs import Sign, signs
from reward_serve_lab.logs.steps import Step, by_step, runs, teacher_by_step
from reward_serve_lab.logs.table import Progress, VerdictTable
from reward_serve_lab.ui.charts import BySteps
from reward_serve_lab.ui.elements import button, heading, message, tag
from reward_serve_lab.ui.session import Session
from reward_serve_lab.ui.table import Cell, Column, Rows, TableRow
from reward_serve_lab.ui.text import Piece, legible
from reward_serve_lab.ui.verdicts import no_log, show_progress, show_unreadable

_FOLLOW_S = 2.0
_TABLE_STEPS = 50
_LINE, _OTHER = "--accent", "--warn"
_SOURCES = {
    "rule": "--ok",
    "judge": "--accent",
    "cache": "--warn",
    "other": "--line-strong",
    "absent": "--bad",
}


def _percent(share: float | None) -> float | None:
    return None if share is None else round(100 * share, 1)


def _reward(step: Step) -> list[float | None]:
    return [None if step.reward is None else round(step.reward, 4)]


def _shares(step: Step) -> list[float]:
    return [round(100 * step.decided.get(source, 0) / step.verdicts, 1) for source in _SOURCES]


_CHARTS: Sequence[
    tuple[str, str, Mapping[str, str], float | None, Callable[[Step], Sequence[float | None]]]
] = (
    ("Reward", "mean score", {"reward": _LINE}, 1, _reward),
    ("Decided by", "verdicts, %", _SOURCES, 100, _shares),
    ("Groups without a gradient (equal scores)", "groups, %", {"groups": _LINE}, 100,
     lambda step: [_percent(step.flat)]),
    ("Length of responses", "characters", {"mean": _LINE, "90th percentile": _OTHER}, None,
     lambda step: [round(step.characters), round(step.p90_characters)]),
    ("Audits that disagree", "audits, %", {"audits": _LINE}, 100,
     lambda step: [_percent(step.disagreed)]),
    ("Verdicts and audits", "number", {"verdicts": _LINE, "audits": _OTHER}, None,
     lambda step: [step.verdicts, step.audits]),
)  # fmt: skip
"""Title, vertical axis and its least end, series, and their values at a step."""
_LABELS = (
    *("step", "verdicts", "reward", *(f"{source}, %" for source in _SOURCES)),
    *("no gradient", "characters", "90th percentile", "audits disagree"),
)
_TEACHER_LABELS = ("step", "teacher's sequences", "absent", "tokens", "mean log-probability")


def build(session: Session) -> None:
    """Build the page."""
    heading("Training", 1)
    if session.workbench.verdicts is None:
        no_log()
        return
    _Training(session, session.workbench.verdicts).build()


class _Training:
    """The page, and the steps that it shows."""

    def __init__(self, session: Session, table: VerdictTable) -> None:
        self._session = session
        self._verdicts = table
        self._steps: list[Step] = []
        self._shown_for: tuple[object, ...] = ()
        self._not_before = 0.0
        self._is_busy = False

    def build(self) -> None:
        self._runs = ui.select({}, label="run · model", on_change=self._choose)
        self._runs.props("dense outlined options-dense").classes("run")
        self._status = tag("p", "log-status muted", role="status")
        self._notes = tag("div", "stack notes")
        with tag("div", "charts by-step") as self._charts_box:
            self._charts = {
                values: BySteps(title, axis, series, self._open, most, stacked=values is _shares)
                for title, axis, series, most, values in _CHARTS
            }
        with tag("div", "table-box") as self._table_box:
            self._table = Rows(
                [Column(label, "number") for label in _LABELS],
                on_open=lambda place: self._open(len(self._steps) - 1 - place),
                caption=f"The newest {_TABLE_STEPS} steps, newest first",
            )
        with tag("div", "table-box") as self._teacher_box:
            self._teacher = Rows(
                [Column(label, "number") for label in _TEACHER_LABELS],
                caption=f"A teacher's newest {_TABLE_STEPS} steps, newest first",
            )
        self._teacher_box.set_visibility(False)
        ui.timer(_FOLLOW_S, self._follow)
        ui.timer(0.0, self._follow, once=True)

    async def _choose(self) -> None:
        self._session.run = self._runs.value
        self._not_before = 0.0
        await self._follow()

    async def _follow(self) -> None:
        """Query the log if it has more lines, or another run was chosen."""
        progress = self._verdicts.progress
        wanted = (self._session.run, progress)
        if self._is_busy or wanted == self._shown_for or time.monotonic() < self._not_before:
            return
        self._is_busy, began = True, time.monotonic()
        try:
            await self._refresh(progress)
        except duckdb.Error as error:
            show_unreadable(error, self._notes)
        finally:
            self._is_busy = False
            self._not_before = time.monotonic() + 10 * (time.monotonic() - began)

    async def _refresh(self, progress: Progress) -> None:
        known = await asyncio.to_thread(runs, self._verdicts)
        if self._runs.is_deleted:
            return
        show_progress(progress, self._status, self._notes)
        if not known:
            with self._notes:
                message(
                    "No verdict in the log has a step.",
                    "",
                    "Trainers send metadata.step and metadata.run with each request; see "
                    "docs/how-to/workbench.md.",
                )
            return
        run = self._session.run = self._session.run or known[0]
        names = {run: " · ".join(legible(name or "no run", 60) for name in run) for run in known}
        self._runs.set_options(names, value=run)
        self._show(await asyncio.to_thread(by_step, self._verdicts, *run))
        teacher = await asyncio.to_thread(teacher_by_step, self._verdicts, *run)
        self._teacher_box.set_visibility(bool(teacher))
        self._teacher.show([_texts(row) for row in teacher[: -_TABLE_STEPS - 1 : -1]])
        latest = await asyncio.to_thread(signs, self._verdicts, *run)
        if self._runs.is_deleted or run != self._session.run:
            return
        with self._notes:
            self._show_signs(latest)
        self._shown_for = (run, progress)

    def _show(self, steps: list[Step]) -> None:
        self._steps = steps
        for box in (self._charts_box, self._table_box):
            box.set_visibility(bool(steps))
        for values, chart in self._charts.items() if steps else ():
            chart.show([step.number for step in steps], [*zip(*map(values, steps), strict=True)])
        self._table.show([_row(step) for step in steps[: -_TABLE_STEPS - 1 : -1]])

    def _show_signs(self, signs: Sequence[Sign]) -> None:
        for sign in signs:
            with message(sign.says, "warn", f"Sign of a hole, since step {sign.since_step:g}."):
                wanted = Filters(ids=sign.samples)
                button(f"Show {len(sign.samples)} samples", partial(self._to_verdicts, wanted))
        if not signs and self._steps:
            audits = sum(step.audits or 0 for step in self._steps)
            tag(
                "p",
                "muted",
                f"No sign of a hole in {audits:,} audits."
                if audits
                else "Signs of a hole need audits: set judge.audit_rate, or rescore the log by "
                "another judge.",
            )

    def _open(self, place: int) -> None:
        """Open a step's verdicts."""
        if self._session.run is not None and 0 <= place < len(self._steps):
            run, model = self._session.run
            step = self._steps[place].number
            self._to_verdicts(Filters(run=run or "", model=model, step=step))

    def _to_verdicts(self, filters: Filters) -> None:
        self._session.filters = filters
        ui.navigate.to("/verdicts")


def _row(step: Step) -> TableRow:
    reward = "none" if step.reward is None else f"{step.reward:.3f}"
    texts = (
        *(f"{step.number:g}", f"{step.verdicts:,}", reward),
        *(f"{share:g}" for share in _shares(step)),
        _of(step.flat, step.groups),
        f"{step.characters:,.0f}",
        f"{step.p90_characters:,.0f}",
        _of(step.disagreed, step.audits),
    )
    label = f"step {step.number:g}, reward {reward}; opens its verdicts"
    return TableRow([Cell([Piece(text)]) for text in texts], label=label)


def _texts(values: Sequence[float | None]) -> TableRow:
    texts = ("none" if value is None else f"{value:,.10g}" for value in values)
    return TableRow([Cell([Piece(text)]) for text in texts])


def _of(share: float | None, count: int | None) -> str:
    return "none" if share is None else f"{share:.0%} of {count:,}"
