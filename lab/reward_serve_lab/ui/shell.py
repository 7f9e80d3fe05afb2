"""The frame of all pages: navigation and service status."""

from __future__ import annotations

from pathlib import Path

from nicegui import ui
from nicegui.element import Element

from reward_serve_lab.ui import ask, group, health, tokens, training, verdicts
from reward_serve_lab.ui.elements import tag, untrusted
from reward_serve_lab.ui.session import Session, Workbench

_STYLE = Path(__file__).with_name("style.css")
_POLL_S = 5.0
_TITLES = {
    "/": "Ask",
    "/group": "Group",
    "/tokens": "Tokens",
    "/verdicts": "Verdicts",
    "/training": "Training",
    "/health": "Health",
}


def add_pages(workbench: Workbench) -> None:
    """Add the workbench's pages to NiceGUI's application."""

    async def page() -> None:
        _frame(Session(workbench))

    for path in _TITLES:
        ui.page(path)(page)


def _frame(session: Session) -> None:
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
                "/tokens": lambda: tokens.build(session),
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
