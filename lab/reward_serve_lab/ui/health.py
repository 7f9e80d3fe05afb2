"""Health: the service's status and its models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reward_serve_lab.ui.elements import heading, message, pill, tag, untrusted
from reward_serve_lab.ui.service import State
from reward_serve_lab.ui.session import Session
from reward_serve_lab.ui.text import legible

_SHOWN = ("kind", "templates", "max_concurrent_items", "max_queued_items", "pid")


def build(session: Session) -> None:
    """Build the page."""
    heading("Health", 1)
    service = tag("div", "stack")
    heading("Models", 2)
    models = tag("div", "cards")

    def show_service() -> None:
        if service.is_deleted:
            session.watchers.remove(show_service)
            return
        service.clear()
        with service:
            _service(session.state)
        models.clear()
        with models:
            for model in session.state.models or ():
                _model(model)

    session.watchers.append(show_service)
    show_service()


def _service(state: State) -> None:
    if state.trouble is not None:
        message(state.trouble.what, "bad", state.trouble.remedy)
        return
    if state.models is None:
        tag("p", "muted", "Waiting for the service …")
        return
    with tag("div", "tiles"):
        _tile("service", "ready" if state.ready else "not ready", "ok" if state.ready else "warn")
        _tile("version", legible(state.version, 40) or "?")
        items = [m["items"] for m in state.models if isinstance(m.get("items"), int)]
        _tile("items running or queued", f"{sum(items):,}" if items else "?")
        _tile("/v1/models took", f"{state.took_ms:.0f} ms")
    if state.detail:
        message(state.detail, "warn", "A replica may still be starting.")


def _model(model: Mapping[str, Any]) -> None:
    with tag("section", "card"):
        with tag("div", "card-head"):
            with tag("h3"):
                untrusted(str(model.get("name", "?")))
            ready = bool(model.get("ready"))
            pill("ready" if ready else "no replica answers", "ok" if ready else "warn")
        with tag("dl", "facts"):
            for name in _SHOWN:
                if model.get(name) is not None:
                    _fact(name.replace("_", " "), model[name])
            if isinstance(items := model.get("items"), int):
                _fact("items running or queued", items)
            for part in ("cache", "audit", "composite", "cascade"):
                if isinstance(counts := model.get(part), Mapping):
                    _fact(part, ", ".join(f"{name} {count}" for name, count in counts.items()))
            start = model.get("start_s")
            # The other entries are parts of the total.
            if isinstance(start, Mapping) and isinstance(total := start.get("total"), int | float):
                _fact("started in", f"{total:.1f} s")
        if model.get("fingerprint"):
            with tag("details", "more"):
                tag("summary", text="Fingerprint")
                untrusted(str(model["fingerprint"]), "mono")
        tag("p", "muted small", "Counts are from the one replica that answered.")


def _fact(name: str, value: object) -> None:
    tag("dt", text=name)
    with tag("dd"):
        text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        untrusted(text[:1000])


def _tile(name: str, value: str, tone: str = "") -> None:
    with tag("div", "tile"):
        tag("span", "tile-name", name)
        tag("span", f"tile-value {tone}".strip(), value)
