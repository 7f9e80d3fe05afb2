"""What all pages share: frame, navigation, service status and session state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from nicegui import ui
from nicegui.element import Element

from reward_serve_lab.logs.query import Filters
from reward_serve_lab.logs.table import VerdictTable
from reward_serve_lab.ui.elements import tag, untrusted
from reward_serve_lab.ui.service import Service, State

_STYLE = Path(__file__).with_name("style.css")
_POLL_S = 5.0
_TITLES = {
    "/": "Ask",
    "/group": "Group",
    "/verdicts": "Verdicts",
    "/training": "Training",
    "/health": "Health",
}


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
    filters: Filters = field(default_factory=Filters)
    run: tuple[str | None, str] | None = None
    watchers: list[Callable[[], object]] = field(default_factory=list)


def add_pages(workbench: Workbench) -> None:
    """Add the workbench's pages to NiceGUI's application."""

    async def page() -> None:
        _frame(Session(workbench))

    for path in _TITLES:
        ui.page(path)(page)


def _frame(session: Session) -> None:
    from reward_serve_lab.ui import ask, group, health, training, verdicts

    ui.add_css(_STYLE)
    ui.colors(primary="var(--accent)")
    with tag("header", "top"):
        with tag("div", "brand"):
            tag("span", "logo", "✓", aria_hidden="true")
            tag("span", text="reward_serve")
        links = _navigation()
        status = tag("div", "status about")
    # Quasar's page is the main landmark.
    with tag("div", "page", id="main", tabindex="-1"):
        ui.sub_pages(
            {
                "/": lambda: ask.build(session),
                "/group": lambda: group.build(session),
                "/verdicts": lambda: verdicts.build(session),
                "/training": lambda: training.build(session),
                "/health": lambda: health.build(session),
            }
        ).classes("pages")
    ui.context.client.sub_pages_router.on_path_changed(lambda path: _mark(links, path))
    _mark(links, ui.context.client.sub_pages_router.current_path)

    async def poll() -> None:
        session.state = await session.workbench.service.state()
        _show_status(status, session)
        for watcher in list(session.watchers):
            watcher()

    ui.timer(_POLL_S, poll)
    ui.timer(0.0, poll, once=True)


def _navigation() -> dict[str, Element]:
    links = {}
    with tag("nav", "pages-nav", aria_label="Pages"):
        for path, title in _TITLES.items():
            links[path] = tag("a", "", title, href=path)
    return links


def _mark(links: dict[str, Element], path: str) -> None:
    path = path.partition("?")[0].partition("#")[0].rstrip("/") or "/"
    for target, link in links.items():
        if target == path:
            link._props["aria-current"] = "page"
        else:
            link._props.pop("aria-current", None)
        link.update()


def _show_status(status: Element, session: Session) -> None:
    state = session.state
    if state.trouble is not None:
        tone, text = "bad", "locked" if state.trouble.status_code == 401 else "no answer"
    elif state.ready:
        tone, text = "ok", "ready"
    else:
        tone, text = "warn", "not ready"
    status.clear()
    with status:
        tag("span", f"dot {tone}", aria_hidden="true")
        tag("span", "state", text)
        untrusted(session.workbench.service.url.partition("//")[2], "where")
