"""Group: a group's samples, their scores and advantages, and where rule and judge disagree."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from statistics import fmean, pstdev
from typing import Any

from nicegui import ui

from reward_serve.explanation import Explanation
from reward_serve.schema import ScoreResult
from reward_serve.ui import charts
from reward_serve.ui.advantages import TRAINERS, advantages
from reward_serve.ui.elements import (
    Cell,
    Column,
    Rows,
    TableRow,
    button,
    heading,
    message,
    pill,
    tag,
    untrusted,
)
from reward_serve.ui.explained import disagrees, score_tone
from reward_serve.ui.guard import MAX_BODY_BYTES
from reward_serve.ui.samples import EXAMPLE, SamplesError, groups_of, read_samples
from reward_serve.ui.service import TroubleError
from reward_serve.ui.shell import Draft, Session
from reward_serve.ui.text import Piece, legible, one_line, transportable

MAX_EXPLAINED = 64
"""Samples whose rules and model are both asked; an explanation is dearer than a score."""

_MAX_PASTED = 900_000
_COLUMNS = [
    Column("#", "number"),
    Column("score", "number"),
    Column("advantage", "nowrap"),
    Column("status"),
    Column("decided by", "nowrap"),
    Column("rule says", "nowrap"),
    Column("judge says", "nowrap"),
    Column("the response's end", "text grow"),
]


def build(session: Session) -> None:
    """Build the page."""
    heading("Group", 1)
    _Group(session).build()


class _Group:
    """The page's parts, and the group that it shows."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._requests: list[dict[str, Any]] = []
        self._results: list[ScoreResult] = []
        self._explained: dict[int, Explanation] = {}
        self._trainer = next(iter(TRAINERS))
        self._trouble: TroubleError | None = None

    def build(self) -> None:
        """Build it."""
        with tag("section", "fields"):
            tag(
                "p",
                "muted",
                "One sample a line, as a score request: reference and response, and where they "
                "matter question, group, model, template.",
            )
            self._text = ui.textarea(
                "Samples, as JSON lines",
                value=self._session.group_text,
                on_change=lambda event: setattr(self._session, "group_text", event.value or ""),
            )
            self._text.props("outlined debounce=200 spellcheck=false input-style='height: 132px'")
            self._text.classes("full")
            with tag("div", "actions"):
                self._button = button("Score the group", self._score, primary=True)
                button("Example", lambda: self._text.set_value(EXAMPLE))
                self._upload()
                ui.select(
                    list(TRAINERS),
                    value=self._trainer,
                    label="advantages",
                    on_change=lambda event: self._choose(event.value),
                ).props("outlined dense options-dense").classes("trainer")
        self._place = tag("div", "stack group-results", aria_live="polite")

    def _upload(self) -> None:
        uploader = ui.upload(
            on_upload=self._uploaded,
            on_rejected=lambda: self._say("The file is too large.", "Give fewer samples."),
            max_file_size=MAX_BODY_BYTES // 2,
            auto_upload=True,
        )
        uploader.props("accept=.jsonl,.json,.txt").classes("unshown")
        button("Upload a file", lambda: uploader.run_method("pickFiles"))

    async def _uploaded(self, event: Any) -> None:
        text = (await event.file.read()).decode("utf-8", "replace")
        if len(text) <= _MAX_PASTED:
            self._text.set_value(transportable(text))
        await self._score_text(text)

    async def _score(self) -> None:
        await self._score_text(self._session.group_text)

    async def _score_text(self, text: str) -> None:
        try:
            requests = await asyncio.to_thread(read_samples, text)
        except SamplesError as error:
            self._say(str(error), "Every line is one JSON object.")
            return
        self._button.disable()
        self._say(f"Scoring {len(requests)} samples …", "", "")
        try:
            results = await self._session.workbench.service.score(requests)
        except TroubleError as trouble:
            self._say(trouble.what, trouble.remedy, "bad")
            return
        finally:
            self._button.enable()
        self._requests, self._results = requests, results
        self._explained, self._trouble = {}, None
        self._show()
        await self._explain()

    async def _explain(self) -> None:
        """Ask rules and model of each sample, and fill in what they say as it comes."""
        requests = self._requests
        chosen = range(min(len(requests), MAX_EXPLAINED))

        async def one(index: int) -> None:
            if self._trouble is not None or requests is not self._requests:
                return
            try:
                found = await self._session.workbench.service.explain(requests[index])
            except TroubleError as trouble:
                if trouble.status_code != 503:
                    self._trouble = trouble
                return
            if requests is self._requests:
                self._explained[index] = found

        await asyncio.gather(*map(one, chosen))
        if requests is self._requests and not self._place.is_deleted:
            self._show()

    def _choose(self, trainer: str) -> None:
        self._trainer = trainer
        if self._results:
            self._show()

    def _show(self) -> None:
        self._place.clear()
        with self._place:
            if self._trouble is not None:
                message(
                    "Rules and judge could not be compared: " + self._trouble.what,
                    "warn",
                    self._trouble.remedy,
                )
            for number, indices in enumerate(groups_of(self._requests).values(), 1):
                self._group(number, indices)

    def _group(self, number: int, indices: list[int]) -> None:
        results = [self._results[index] for index in indices]
        scores = [result.score for result in results]
        computed = advantages(scores, self._trainer)
        differing = [
            index
            for index in indices
            if index in self._explained and disagrees(self._explained[index])
        ]
        with tag("section", "group"):
            with tag("div", "card-head"):
                heading(f"Group {number}", 2)
                reference = self._requests[indices[0]].get("reference")
                if isinstance(reference, str):
                    with tag("span", "muted small"):
                        tag("span", text="reference ")
                        untrusted(reference.rpartition("####")[2].strip()[:80], "mono")
            _summary(scores, len(differing))
            with tag("div", "table-box"):
                rows = [
                    self._row(index, advantage)
                    for index, advantage in zip(indices, computed, strict=True)
                ]
                Rows(_COLUMNS, rows, lambda place: self._open(indices[place]), f"Group {number}")

    def _row(self, index: int, advantage: float | None) -> TableRow:
        result, found = self._results[index], self._explained.get(index)
        score = "none" if result.score is None else f"{result.score:g}"
        status = result.status.value
        differs = found is not None and disagrees(found)
        shown = "left out" if advantage is None else f"{advantage:+.3f}"
        return TableRow(
            [
                Cell([Piece(str(index + 1))]),
                Cell([Piece(score, f"score {score_tone(result.score)}")]),
                Cell([Piece(shown)], bar=None if advantage is None else advantage / 2),
                Cell([Piece(status, f"pill {charts.STATUS_TONES.get(status, '')}")]),
                Cell(one_line(result.source or "nothing", 30)),
                Cell(_rule_says(found)),
                Cell(_judge_says(found)),
                Cell(one_line(str(self._requests[index]["response"]), 120)),
            ],
            "differs" if differs else "",
            f"sample {index + 1}, score {score}; opens in Ask",
        )

    def _open(self, index: int) -> None:
        request = self._requests[index]
        reference = request.get("reference") or ""
        self._session.draft = Draft(
            question=transportable(request.get("question") or ""),
            reference=transportable(reference if isinstance(reference, str) else reference[0]),
            response=transportable(request["response"]),
            models=[request["model"]] if request.get("model") else [],
            templates=[request["template"]] if request.get("template") else [],
            note=f"Sample {index + 1} of a group.",
        )
        ui.navigate.to("/")

    def _say(self, what: str, remedy: str, tone: Any = "warn") -> None:
        if not self._place.is_deleted:
            self._place.clear()
            with self._place:
                message(what, tone, remedy)


def _summary(scores: Sequence[float | None], differing: int) -> None:
    known = [score for score in scores if score is not None]
    with tag("div", "pills group-summary"):
        pill(f"{len(scores)} samples")
        if known:
            pill(f"mean {fmean(known):.3f}")
            pill(f"spread {pstdev(known):.3f}")
        if len(known) < len(scores):
            pill(f"{len(scores) - len(known)} without a score", "warn")
        if differing:
            pill(f"rule and judge disagree on {differing}", "bad")
        if len(known) > 1 and len(set(known)) == 1:
            pill("all scores equal: no gradient from this group", "warn")


def _rule_says(found: Explanation | None) -> list[Piece]:
    if found is None or found.rule is None:
        return [Piece("–" if found else "…", "muted")]
    tone = {"right": "ok", "wrong": "bad"}.get(found.rule.outcome, "")
    return [Piece(found.rule.outcome, f"pill {tone}", legible(found.rule.rule))]


def _judge_says(found: Explanation | None) -> list[Piece]:
    if found is None or found.model is None:
        return [Piece("–" if found else "…", "muted")]
    model = found.model
    if model.score is None:
        return [Piece(model.status.value, "pill warn")]
    chance = _chosen_probability(model.probabilities, model.label)
    text = f"{model.score:g}" + ("" if chance is None else f" ({chance:.3f})")
    return [Piece(text, f"score {score_tone(model.score)}")]


def _chosen_probability(
    probabilities: Mapping[str, float] | None, label: str | None
) -> float | None:
    return (probabilities or {}).get(label or "")
