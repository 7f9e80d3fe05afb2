"""Tokens: a sequence's tokens by the teacher's log-probability, beside the student's."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp
from statistics import fmean
from typing import Any, Self

from nicegui import ui
from pydantic import Field, FiniteFloat, ValidationError, model_validator

from reward_serve.logprobs import LogprobsRequest
from reward_serve.schema import Status, describe_errors
from reward_serve_lab.ui import elements
from reward_serve_lab.ui.elements import button, heading, tag
from reward_serve_lab.ui.service import TroubleError
from reward_serve_lab.ui.session import Session
from reward_serve_lab.ui.table import Cell, Column, Rows, TableRow
from reward_serve_lab.ui.text import Piece, one_line, pieces, transportable

PAGE_TOKENS = 500
_SENT = "A request of /v1/logprobs: token_ids, or messages and response_token_ids."
_ADDED = "Optionally student_logprobs, of each scored token, and tokens, the text of each id."
_MAX_FILE_BYTES = 2**22
_LEAST = (0.9, 0.5, 0.1, 0.01, 0.0)  # probabilities of the shades p0 to p4


class SequenceRequest(LogprobsRequest):
    """A teacher's request, and what only the page reads."""

    student_logprobs: list[FiniteFloat] | None = Field(None, exclude=True)
    tokens: list[str] | None = Field(None, exclude=True)

    @model_validator(mode="after")
    def _has_a_value_for_each_token(self) -> Self:
        scored = len(self.ids) - (0 if self.messages else self.start or 1)
        for name, count in (("tokens", len(self.ids)), ("student_logprobs", scored)):
            if (values := getattr(self, name)) is not None and len(values) != count:
                raise ValueError(f"{name}: has {len(values)} values; send {count}, one a token")
        return self

    @property
    def ids(self) -> list[int]:
        """The ids that the request has, scored or not."""
        return self.token_ids or self.response_token_ids or []


def build(session: Session) -> None:
    """Build the page."""
    heading("Tokens", 1)
    with tag("section", "fields"):
        tag("p", "muted", f"{_SENT} {_ADDED}")
        field = elements.LongText(
            "Sequence, as JSON",
            value=session.sequence,
            on_change=lambda event: setattr(session, "sequence", event.value or ""),
        )
        field.props("outlined debounce=200 spellcheck=false input-style='height: 120px'")
        actions = tag("div", "actions")
    answer = tag("div", "stack group-results", aria_live="polite")

    def say(text: str, remedy: str = "", tone: Any = "warn") -> None:
        if not answer.is_deleted:
            answer.clear()
            with answer:
                elements.message(text, tone, remedy)

    async def ask() -> None:
        say("Scoring …", tone="")
        asking.disable()
        try:
            sequence = SequenceRequest.model_validate_json(session.sequence)
            result = await session.workbench.service.logprobs(sequence)
        except ValidationError as error:
            say(describe_errors(error, SequenceRequest))
        except TroubleError as trouble:
            say(trouble.what, trouble.remedy, "bad")
        else:
            say(f"{result.status.value}: {result.reason}")
            if result.status is Status.OK and not answer.is_deleted:
                answer.clear()
                with answer:
                    _show(sequence, result.start or 0, result.logprobs.tolist())
        if not asking.is_deleted:
            asking.enable()

    with actions:
        asking = button("Ask the teacher", ask, primary=True)
        elements.upload_button(
            *("Upload a file", ".json", _MAX_FILE_BYTES),
            lambda text: setattr(field, "value", transportable(text)),
            lambda: say("The file is over 4 MiB.", "Leave out tokens."),
        )


def _show(sequence: SequenceRequest, start: int, teacher: list[float]) -> None:
    places, ids = range(start, start + len(teacher)), sequence.ids[-len(teacher) :]
    texts = (sequence.tokens or [f"{number} " for number in ids])[-len(teacher) :]
    by = {"teacher": teacher}
    if student := sequence.student_logprobs:
        by["student"] = student
        by["teacher − student"] = [t - s for t, s in zip(teacher, student, strict=True)]
    means = [f"{name}: mean {fmean(values):.4f}" for name, values in by.items()]
    tag("p", "small", " · ".join([f"{len(teacher):,} scored tokens", *means]))
    with tag("p", "legend small"):
        for shade, least in enumerate(_LEAST):
            tag("span", f"p{shade}", f"probability ≥ {least:g}")
    columns = [*(Column(name, "number") for name in ("token", "id", *by)), Column("text", "text")]
    box = tag("div", "stack")

    def show(page: int) -> None:
        part = slice((page - 1) * PAGE_TOKENS, page * PAGE_TOKENS)
        box.clear()
        with box:
            with tag("div", "cards-wide"):
                for name in [*by][:2]:
                    with tag("section", "card"):
                        heading(name.capitalize(), 2, "flush")
                        _shaded(places[part], texts[part], by[name][part])
            rows = []
            listed = (column[part] for column in (places, ids, texts, *by.values()))
            for place, number, text, *values in zip(*listed, strict=True):
                numbers = (f"{place}", f"{number}", *(f"{value:.4f}" for value in values))
                rows.append(TableRow([*(Cell([Piece(n)]) for n in numbers), Cell(one_line(text))]))
            with tag("div", "table-box"):
                Rows(columns, rows, caption="Scored tokens in order, values in nats")

    if len(teacher) > PAGE_TOKENS:
        ui.pagination(1, -(-len(teacher) // PAGE_TOKENS), on_change=lambda e: show(e.value))
    show(1)


def _shaded(places: range, texts: Sequence[str], logprobs: Sequence[float]) -> None:
    parts = []
    for place, text, value in zip(places, texts, logprobs, strict=True):
        probability = exp(min(value, 0.0))
        shade = next(shade for shade, least in enumerate(_LEAST) if probability >= least)
        title = f"token {place}: {value:.4f}, probability {probability:.2g}"
        shown = pieces(text.replace("\n", "⏎\n"))
        parts += [Piece(piece.text, f"{piece.kind} p{shade}", title) for piece in shown]
    elements.Pieces(parts).classes("text-box tall")
