"""Writes the dashboard and the rules of ``source.yaml``: ``python -m deploy.monitoring.generate``.

A query may name only metrics and labels that ``reward_serve.replica.observers.Metrics`` defines,
and every metric must be in a panel, which shows its definition.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import yaml
from grafana_foundation_sdk.builders import dashboard, prometheus, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import DataSourceRef, VariableOption, VariableRefresh

from docs.generate import metrics
from reward_serve.schema import DEFAULT_TIMEOUT_S

FOLDER = Path(__file__).parent
NOTE = "# Written by `python -m deploy.monitoring.generate`; its source is source.yaml.\n"
_BY_ALL = {"application", "deployment", "replica", "le"}
_DEFINED = {name: (_BY_ALL | set(labels), text) for name, _, labels, text in metrics()}
_METRIC = re.compile(r"\b(ray_reward_serve_\w+?)(?:_bucket)?\b(?:\{([^}]*)\})?")
_SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
_ALL = VariableOption(text="All", value="$__all")
_WORDS = {
    "$shown": 'application=~"$application",deployment=~"$deployment"',
    "$half_timeout": f"{DEFAULT_TIMEOUT_S / 2:g}",
    "$timeout": f"{DEFAULT_TIMEOUT_S:g}",
}
_QUANTILES = {"p50": 0.5, "p99": 0.99}


def source() -> dict[str, list[dict[str, Any]]]:
    """The panels and alerts of ``source.yaml``; a panel's ``quantiles`` are queries.

    Raises:
        ValueError: a query names a metric or a label that is not defined, or a metric is in no
            panel.
    """
    text = (FOLDER / "source.yaml").read_text(encoding="utf-8")
    for word, meaning in _WORDS.items():
        text = text.replace(word, meaning)
    read: dict[str, list[dict[str, Any]]] = yaml.safe_load(text)
    for panel in read["panels"]:
        if name := panel.pop("quantiles", None):
            rate = f"rate({name}_bucket{{{_WORDS['$shown']}}}[$__rate_interval])"
            panel["queries"] = {
                legend: f"histogram_quantile({share}, sum by (le) ({rate}))"
                for legend, share in _QUANTILES.items()
            }
    queries = [query for panel in read["panels"] for query in panel["queries"].values()]
    named = {name for query in queries for name in _named(query)}
    if hidden := _DEFINED.keys() - named:
        raise ValueError(f"no panel shows {', '.join(sorted(hidden))}")
    for alert in read["alerts"]:
        list(_named(alert["expr"]))
    return read


def _named(query: str) -> Iterator[str]:
    """The replicas' metrics in a query."""
    for name, matchers in _METRIC.findall(query):
        if name not in _DEFINED:
            raise ValueError(f"{name} is not a metric of a replica; those are {[*_DEFINED]}")
        labels = re.findall(r"(\w+)[=!]", matchers)
        labels += [label for by in re.findall(r"by \(([^)]*)\)", query) for label in by.split(", ")]
        if unknown := set(labels) - _DEFINED[name][0]:
            raise ValueError(f"{name} has no label {unknown}: {query}")
        yield name


def board() -> str:
    """The dashboard, as JSON."""
    made = dashboard.Dashboard("reward_serve").uid("reward-serve").refresh("30s")
    made.time("now-3h", "now")
    made.with_variable(dashboard.DatasourceVariable("datasource").type("prometheus"))
    for label in ("application", "deployment"):
        choice = dashboard.QueryVariable(label).datasource(_SOURCE).multi(True).include_all(True)
        choice.query(f"label_values(ray_reward_serve_items, {label})").all_value(".*")
        made.with_variable(choice.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED).current(_ALL))
    for number, definition in enumerate(source()["panels"], 1):
        queries = definition["queries"]
        names = dict.fromkeys(name for query in queries.values() for name in _named(query))
        paragraphs = [definition["question"], *(f"`{name}`: {_DEFINED[name][1]}" for name in names)]
        panel = (
            timeseries.Panel().id(number).title(definition["title"]).unit(definition["unit"]).min(0)
        )
        panel.description("\n\n".join(paragraphs)).datasource(_SOURCE).span(8).height(8)
        for ref, (legend, query) in zip(ascii_uppercase, queries.items(), strict=False):
            panel.with_target(prometheus.Dataquery().ref_id(ref).legend_format(legend).expr(query))
        made.with_panel(panel)
    return JSONEncoder(indent=1, sort_keys=True).encode(made.build()) + "\n"


def rules() -> str:
    """The alerts, as a file of Prometheus rules."""
    written = [
        {
            "alert": alert["alert"],
            "expr": alert["expr"],
            "for": alert["for"],
            "labels": {"severity": alert["severity"]},
            "annotations": {name: alert[name] for name in ("summary", "description", "remedy")},
        }
        for alert in source()["alerts"]
    ]
    groups = {"groups": [{"name": "reward_serve", "rules": written}]}
    return NOTE + yaml.dump(groups, Dumper=_Dumper, sort_keys=False, width=100)


class _Dumper(yaml.SafeDumper):
    """Writes queries of several lines as they are."""


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, "|" if "\n" in text else None
    ),
)


def files() -> dict[str, str]:
    """The files beside this one, by name."""
    return {"reward-serve.json": board(), "rules.yaml": rules()}


if __name__ == "__main__":
    for name, text in files().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
