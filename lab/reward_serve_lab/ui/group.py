"""Group: a group's samples, their scores and advantages, and where rule and judge disagree."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from nicegui import ui

from reward_serve.client.rows import texts_of
from reward_serve.schema import Status
from reward_serve_lab.evaluation.bulk import judged_text
from reward_serve_lab.evaluation.json_lines import LinesError
from reward_serve_lab.ui.elements import LongText, button, heading, message, tag, upload_button
from reward_serve_lab.ui.group_results import GroupTables, Scored
from reward_serve_lab.ui.guard import MAX_BODY_BYTES
from reward_serve_lab.ui.samples import EXAMPLE, TRAINERS, read_samples
from reward_serve_lab.ui.service import TroubleError
from reward_serve_lab.ui.session import Draft, Session
from reward_serve_lab.ui.text import transportable

COMPARED_AT_ONCE = 64
"""Samples explained automatically, and per click after that: explanations are slow."""

_MAX_FILE_BYTES = MAX_BODY_BYTES // 2
_MAX_IN_FIELD = 2**21
_EXPLAINED_PER_UPDATE = 8
_CONVERSATION = ("messages", "response", "tools", "turns")


def build(session: Session) -> None:
    """Build the page."""
    heading("Group", 1)
    _Group(session).build()


class _Group:
    """The page and the group that it shows."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._trainer = next(iter(TRAINERS))
        self._wanted: list[dict[str, Any]] = []
        self._scored: Scored | None = None
        self._tables: GroupTables | None = None

    def build(self) -> None:
        with tag("section", "fields"):
            tag(
                "p",
                "muted",
                "One score request per line: reference and response or messages, optionally "
                "question, group, model and template.",
            )
            self._text = LongText(
                "Samples, as JSON lines",
                value=self._session.group_text,
                on_change=lambda event: setattr(self._session, "group_text", event.value or ""),
            )
            self._text.props("outlined debounce=200 spellcheck=false input-style='height: 160px'")
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
        self._results = tag("div", "stack group-results")

    def _upload(self) -> None:
        def refuse() -> None:
            what = f"The file is over {_MAX_FILE_BYTES // 2**20} MiB."
            self._show_message(what, "Upload fewer samples.")

        accept = ".jsonl,.json,.txt"
        upload_button("Upload a file", accept, _MAX_FILE_BYTES, self._uploaded, refuse)

    async def _uploaded(self, text: str) -> None:
        # If the field cannot hold the text, clear it: it must not show other samples.
        self._text.set_value(transportable(text) if len(text) <= _MAX_IN_FIELD else "")
        await self._score_text(text)

    async def _score(self) -> None:
        await self._score_text(self._session.group_text)

    async def _score_text(self, text: str) -> None:
        """Score the samples; if calls overlap, only the last one is shown."""
        self._wanted, self._scored, self._tables = [], None, None
        try:
            requests = self._wanted = await asyncio.to_thread(read_samples, text)
        except LinesError as error:
            self._show_message(str(error), "Write one JSON object per line.")
            return
        self._button.disable()
        self._show_message(f"Scoring {len(requests):,} samples …", "", "")

        def progress(done: int) -> None:
            if requests is self._wanted and done < len(requests):
                self._show_message(f"Scored {done:,} of {len(requests):,} samples …", "", "")

        try:
            results = await self._session.workbench.service.score(requests, progress)
        except TroubleError as trouble:
            if requests is self._wanted:
                self._show_message(trouble.what, trouble.remedy, "bad")
            return
        finally:
            if not self._button.is_deleted:
                self._button.enable()
        if requests is self._wanted and not self._results.is_deleted:
            self._scored = Scored(requests, results)
            self._show(self._scored)
            await self._compare()

    def _show(self, scored: Scored) -> None:
        self._results.clear()
        with self._results:
            self._comparison = tag("div", "comparison", role="status")
            self._tables = GroupTables(scored, self._trainer, self._open)

    async def _compare(self) -> None:
        """Explain the next samples and show rule and judge outcomes as they arrive."""
        scored, tables = self._scored, self._tables
        if scored is None or tables is None or scored.pending:
            return
        left = [i for i in range(len(scored.requests)) if i not in scored.explained]
        wanted = scored.pending = left[:COMPARED_AT_ONCE]
        tables.update(self._trainer, wanted)
        explain = self._session.workbench.service.explain
        trouble: TroubleError | None = None
        while scored.pending and trouble is None:
            self._show_comparison(scored, None)
            some = scored.pending[:_EXPLAINED_PER_UPDATE]
            try:
                explanations = await asyncio.gather(*(explain(scored.requests[i]) for i in some))
            except TroubleError as error:
                trouble = error
            else:
                for index, explanation in zip(some, explanations, strict=True):
                    if explanation.result.status is not Status.OVERLOADED:
                        scored.explained[index] = explanation
            if scored is not self._scored or self._results.is_deleted:
                return
            scored.pending = [] if trouble else scored.pending[len(some) :]
            tables.update(self._trainer, wanted if trouble else some)
        self._show_comparison(scored, trouble)

    def _show_comparison(self, scored: Scored, trouble: TroubleError | None) -> None:
        """Show how many samples are compared, and a button for more."""
        done, total = len(scored.explained), len(scored.requests)
        self._comparison.clear()
        with self._comparison:
            if trouble is not None:
                what = f"Rules and judge could not be compared: {trouble.what}"
                message(what, "warn", trouble.remedy)
            if done < total:
                tag("span", "muted small", f"Rules and judge compared: {done:,} of {total:,}")
            if done < total and not scored.pending:
                more = min(COMPARED_AT_ONCE, total - done)
                button(f"Compare {more:,} more", self._compare)

    def _choose(self, trainer: str) -> None:
        self._trainer = trainer
        if self._tables is not None:
            self._tables.update(trainer)

    def _open(self, index: int) -> None:
        if self._scored is None:
            return
        request = self._scored.requests[index]
        references = texts_of(request.get("reference"))
        note = f"Sample {index + 1} of a group."
        if len(references) > 1:
            note += f" This is the first of its {len(references)} references."
        mode = (request.get("options") or {}).get("mode")
        talk = {name: request[name] for name in _CONVERSATION if request.get(name) is not None}
        self._session.draft = Draft(
            conversation=transportable(json.dumps(talk, indent=1)) if "messages" in talk else "",
            question=transportable(request.get("question") or ""),
            reference=transportable(references[0] if references else ""),
            response=transportable(judged_text(request)),
            models=[request["model"]] if request.get("model") else [],
            templates=[request["template"]] if request.get("template") else [],
            modes=[mode] if mode else [],
            note=note,
        )
        ui.navigate.to("/")

    def _show_message(self, what: str, remedy: str, tone: Any = "warn") -> None:
        if not self._results.is_deleted:
            self._results.clear()
            with self._results:
                message(what, tone, remedy)
