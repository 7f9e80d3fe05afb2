"""Health: the service's status, traffic and models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nicegui import ui

from reward_serve_lab.ui import charts
from reward_serve_lab.ui.elements import heading, message, pill, tag, untrusted
from reward_serve_lab.ui.scraping import Reading, Scraper
from reward_serve_lab.ui.service import State
from reward_serve_lab.ui.shell import Session
from reward_serve_lab.ui.table import Cell, Column, Rows, TableRow
from reward_serve_lab.ui.text import Piece, legible, pieces

_EVERY_S = 5.0
_COLUMNS = [
    Column("deployment", "grow"),
    Column("replicas", "number"),
    Column("items", "number"),
    Column("verdicts/s", "number"),
    Column("p50", "number"),
    Column("p95", "number"),
    Column("cache hits", "number"),
    Column("verdicts", "number"),
    Column("without a score", "number"),
]
_SHOWN = ("kind", "templates", "max_concurrent_items", "max_queued_items", "pid")


def build(session: Session) -> None:
    """Build the page."""
    heading("Health", 1)
    service = tag("div", "stack")
    heading("Traffic", 2)
    traffic = tag("div", "stack")
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
    scraper = session.workbench.scraper
    if scraper is None:
        with traffic:
            message(
                "Rates, latency and cache hits need the service's metrics.",
                "",
                "Start the workbench with --metrics http://NODE:PORT/metrics; for a node's address "
                "see docs/how-to/observability.md.",
            )
        return

    async def read() -> None:
        reading = await scraper.read()
        if traffic.is_deleted:
            return
        traffic.clear()
        with traffic:
            _traffic(scraper, reading)

    ui.timer(_EVERY_S, read)
    ui.timer(0.0, read, once=True)


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
            for part in ("cache", "audit", "panel", "cascade"):
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
        shown = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        untrusted(shown[:1000])


def _traffic(scraper: Scraper, reading: Reading) -> None:
    for url, why in reading.faults.items():
        message(f"{url}: {why}", "bad", "Check --metrics.")
    deployments = reading.deployments
    if not deployments:
        if not reading.faults:
            message("No replica has reported yet.", "", "Ray exports metrics every 10 seconds.")
        return
    rate = scraper.rate()
    with tag("div", "tiles"):
        _tile("verdicts/s", "…" if rate is None else f"{rate:,.1f}")
        _tile("replicas", f"{sum(map(len, reading.replicas.values())):,}")
        _tile("items running or queued", f"{sum(reading.items.values()):,.0f}")
        _tile("cache hits", _hits(reading, deployments))
    with tag("div", "table-box"):
        Rows(_COLUMNS, [_row(scraper, reading, name) for name in deployments])
    with tag("div", "charts two"):
        charts.line("Verdicts/s", scraper.rates(), "now")
        totals: dict[str, float] = {}
        for (_, source), count in reading.sources.items():
            totals[source or "none"] = totals.get(source or "none", 0.0) + count
        everything = sum(totals.values()) or 1.0
        with tag("figure", "chart"):
            tag("figcaption", text="Share of all verdicts by source")
            charts.bars({name: count / everything for name, count in sorted(totals.items())})


def _row(scraper: Scraper, reading: Reading, name: str) -> TableRow:
    rate = scraper.rate(name)
    total = reading.total(name)
    absent = total - reading.statuses.get((name, "ok"), 0.0)
    texts: Sequence[str] = (
        f"{len(reading.replicas.get(name, ())):,}",
        f"{reading.items.get(name, 0.0):,.0f}",
        "…" if rate is None else f"{rate:,.1f}",
        _ms(scraper.latency(name, 0.5)),
        _ms(scraper.latency(name, 0.95)),
        _hits(reading, [name]),
        f"{total:,.0f}",
        f"{absent:,.0f}",
    )
    return TableRow([Cell(pieces(name)), *(Cell([Piece(text)]) for text in texts)])


def _hits(reading: Reading, deployments: Sequence[str]) -> str:
    hits = sum(reading.cache.get((name, "hits"), 0.0) for name in deployments)
    misses = sum(reading.cache.get((name, "misses"), 0.0) for name in deployments)
    return f"{hits / (hits + misses):.0%}" if hits + misses else "-"


def _ms(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{1000 * seconds:,.0f} ms" if seconds < 10 else f"{seconds:,.0f} s"


def _tile(name: str, value: str, tone: str = "") -> None:
    with tag("div", "tile"):
        tag("span", "tile-name", name)
        tag("span", f"tile-value {tone}".strip(), value)
