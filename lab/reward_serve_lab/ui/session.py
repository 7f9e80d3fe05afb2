"""The state of one browser tab, which its pages share, and the sources of their data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from reward_serve_lab.logs.query import Filters
from reward_serve_lab.logs.table import VerdictTable
from reward_serve_lab.ui.service import Service, State


@dataclass(frozen=True)
class Workbench:
    """The sources of the pages' data."""

    service: Service
    verdicts: VerdictTable | None = None


@dataclass
class Draft:
    """The fields of Ask, kept while other pages are open.

    Attributes:
        conversation: JSON that is asked instead of question and response.
        note: where the draft comes from, if it was not typed.
    """

    question: str = ""
    reference: str = ""
    response: str = ""
    conversation: str = ""
    models: list[str] = field(default_factory=list)
    templates: list[str] = field(default_factory=list)
    modes: list[str] = field(default_factory=list)
    note: str = ""


@dataclass
class Session:
    """The state of one browser tab.

    Attributes:
        filters: those of Verdicts.
        run: the run and the model of Training; None for the newest.
    """

    workbench: Workbench
    state: State = field(default_factory=State)
    draft: Draft = field(default_factory=Draft)
    group_text: str = ""
    sequence: str = ""
    filters: Filters = field(default_factory=Filters)
    run: tuple[str | None, str] | None = None
    watchers: list[Callable[[], object]] = field(default_factory=list)
