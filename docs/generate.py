"""Writes the generated pages: ``python -m docs.generate``; with ``--check`` it compares them.

Commands, HTTP routes, the Python API, the fields of a deployments file, metrics, profiles, and
llms.txt from the site's navigation. ``tests/service/docs`` fails when a page differs from what this
writes.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, get_args
from unittest import mock

import typer
import yaml
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

DOCS = Path(__file__).parent
NOTE = "<!-- Written by `python -m docs.generate`. -->\n\n"
UNITS = {
    "_s": "seconds",
    "_gib": "GiB",
    "_mib": "MiB",
    "_bytes": "bytes",
    "_chars": "characters",
    "_characters": "characters",
    "_tokens": "tokens",
    "_items": "items",
    "_cpus": "CPU cores",
    "_gpus": "GPUs",
    "_replicas": "replicas",
    "_rate": "share, 0 to 1",
    "requests_per_minute": "requests a minute",
}


def pages() -> dict[str, str]:
    """The generated pages, by path within ``docs/``."""
    written = {
        "reference/cli.md": NOTE + _cli(),
        "reference/http.md": NOTE + _http(),
        "reference/python.md": NOTE + _python(),
        "reference/fields.md": NOTE + _fields(),
        "reference/metrics.md": NOTE + _metrics(),
        "reference/profiles.md": NOTE + _profiles(),
        "reference/judge-cards.md": NOTE + _cards(),
    }
    return {**written, "llms.txt": _llms(written)}


def _table(header: tuple[str, ...], rows: Iterator[tuple[str, ...]] | list[Any]) -> str:
    lines = [header, ("---",) * len(header), *rows]
    cells = ([cell.replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines)
    return "".join(f"| {' | '.join(line)} |\n" for line in cells)


def _code(value: object) -> str:
    return f"`{value}`" if str(value) else ""


def _plain(text: str) -> str:
    """Docstring markup as Markdown; indented examples as code."""
    return inspect.cleandoc(text).replace("``", "`").replace("\f", "")


def _cli() -> str:
    from reward_serve.cli.main import cli

    root = typer.main.get_command(cli)
    text = "# Commands\n\n`reward-serve COMMAND --help` prints the same.\n"
    lab = "reward_serve_lab"
    for path, command in _commands("reward-serve", root):
        callback: Any = inspect.unwrap(command.callback) if command.callback else None
        in_lab = getattr(callback, "__module__", "").startswith(lab)
        note = "\n\nIn the distribution `reward-serve-lab`." if in_lab else ""
        text += f"\n## {path}\n\n{_plain(command.help or '')}{note}\n\n"
        visible = (param for param in command.params if not getattr(param, "hidden", False))
        rows = [_parameter(param) for param in visible if param.name != "help"]
        if rows:
            text += _table(("argument or option", "default", ""), rows)
    return text


def _commands(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "commands"):
        yield path, command
        return
    for name, subcommand in sorted(command.commands.items()):
        if not subcommand.hidden:
            yield from _commands(f"{path} {name}", subcommand)


def _parameter(parameter: Any) -> tuple[str, str, str]:
    names = [*parameter.opts, *parameter.secondary_opts]
    argument = parameter.param_type_name == "argument"
    default = parameter.default
    plain = isinstance(default, str | int | float) and not isinstance(default, bool)
    label = ", ".join(str(parameter.name).upper() if argument else name for name in names)
    required = "required" if parameter.required else ""
    return _code(label), _code(default) if plain else required, getattr(parameter, "help", "") or ""


def _http() -> str:
    from tests.fake_ingress import BEARER, KEYS, served

    service = served(KEYS, compatible_with=["openai", "openrlhf", "slime"])
    document = service.get("/openapi.json", headers=BEARER).json()
    text = (
        "# HTTP\n\nThe service itself has this as `/openapi.json`, and as the page `/docs`, "
        "for which the browser loads Swagger UI from cdn.jsdelivr.net.\n\n## Routes\n"
    )
    others = set[str]()
    for path, methods in document["paths"].items():
        for method, route in methods.items():
            text += f"\n### {method.upper()} {path}\n\n{_plain(route.get('description', ''))}\n"
            others.add(route["responses"]["default"]["description"])
    (other,) = others
    text += f"\n## Statuses\n\n200 OK; {other}.\n"
    text += "\n## Bodies\n"
    for name, schema in sorted(document["components"]["schemas"].items()):
        rows = [
            (
                _code(field),
                _type(described),
                _default(described.get("default", "")),
                described.get("description", ""),
            )
            for field, described in schema.get("properties", {}).items()
        ]
        if rows:
            text += f"\n### {name}\n\n{_plain(schema.get('description', ''))}\n\n"
            text += _table(("field", "type", "default", ""), rows)
    return text


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return " or ".join(dict.fromkeys(_type(variant) for variant in schema[several]))
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return str(schema.get("type", schema.get("const", "any")))


def _default(value: object) -> str:
    if value in ("", {}, []):
        return ""
    return _code(json.dumps(value) if value is None or isinstance(value, bool) else value)


def _python() -> str:
    import reward_serve
    from reward_serve.client import Client, connect, metrics_of
    from reward_serve.client.outcomes import ScoringError

    sections: dict[str, list[Any]] = {
        "reward_serve": [
            reward_serve.HttpRewardClient,
            reward_serve.RewardClient,
            reward_serve.ScoreRequest,
            reward_serve.ScoreResult,
            reward_serve.Status,
            reward_serve.ServiceUnavailableError,
        ],
        "reward_serve.client": [connect, Client, ScoringError, metrics_of],
    }
    for adapter in sorted((DOCS.parent / "clients").glob("*/reward_serve_*")):
        try:
            module = import_module(adapter.name)
        except ModuleNotFoundError:  # its project needs an environment of its own
            continue
        sections[adapter.name] = [getattr(module, name) for name in module.__all__]
    text = "# Python\n"
    for name, things in sections.items():
        text += f"\n## {name}\n"
        for thing in things:
            text += _thing(thing)
    return text


def _thing(thing: Any) -> str:
    text = f"\n### {thing.__name__}\n\n"
    if inspect.isclass(thing) and not issubclass(thing, BaseModel | Exception | str):
        text += _signature(thing.__name__, thing.__init__) + _sections(thing.__doc__)
        for name, method in inspect.getmembers(thing, inspect.isfunction):
            if name in vars(thing) and not name.startswith("_") and method.__doc__:
                text += f"\n#### {name}\n\n" + _signature(name, method) + _sections(method.__doc__)
        base = thing.__mro__[1]
        if base.__module__.startswith("reward_serve"):
            text += f"\nOther methods: [`{base.__name__}`](#{base.__name__.lower()}).\n"
        return text
    if inspect.isfunction(thing):
        return text + _signature(thing.__name__, thing) + _sections(thing.__doc__)
    text += _sections(thing.__doc__)
    if issubclass(thing, BaseModel):
        text += "\nFields: [HTTP](http.md#bodies).\n"
    elif issubclass(thing, str):
        text += "\n" + ", ".join(f"`{member.value}`" for member in thing) + "\n"
    return text


def _signature(name: str, function: Any) -> str:
    parameters = [
        param for param in inspect.signature(function).parameters.values() if param.name != "self"
    ]
    plain = inspect.Signature([param.replace(annotation=param.empty) for param in parameters])
    prefix = "await " if inspect.iscoroutinefunction(function) else ""
    text = str(plain).replace("'", '"')  # as `ruff format` writes the page's code
    return f"```python\n{prefix}{name}{text}\n```\n\n"


def _sections(doc: str | None) -> str:
    """A Google docstring, its sections as lists."""
    text, out, inside = _plain(doc or ""), "", False
    for line in text.splitlines():
        if re.fullmatch(r"(Args|Raises|Returns|Attributes):", line):
            out, inside = f"{out}\n**{line[:-1]}**\n\n", True
        elif inside and re.match(r"    \S", line):
            head, colon, rest = line.strip().partition(": ")
            out += f"- `{head}`: {rest}\n" if colon and len(head) < 40 else f"- {line.strip()}\n"
        elif inside and line.strip():
            out += f"  {line.strip()}\n" if line.startswith("     ") else f"\n{line}\n"
            inside = line.startswith(" ")
        else:
            out += line + "\n"
    return re.sub(r"\n{3,}", "\n\n", out).rstrip() + "\n"


def _fields() -> str:
    from reward_serve.config.app import GatewayConfig, ServerConfig
    from reward_serve.config.models import ModelConfig
    from reward_serve.templates import Template

    text = (
        "# Fields of a deployments file\n\nUnder `args` of an application; `kind` selects what a "
        "model has. The rest of the file is [Ray Serve's](deployments.md). `reward-serve schema "
        "deployment` prints the same as JSON schema. A field without a text is Ray Serve's "
        "(resources, autoscaling) or vLLM's (engine) of that name.\n"
    )
    models = get_args(get_args(ModelConfig)[0])
    common = set.intersection(*(set(model.model_fields) for model in models))
    seen: dict[type[BaseModel], str] = {}
    first = models[0]
    text += "\n## models[], every kind\n\n" + _rows(first, common - {"kind"})
    for name in first.model_fields:
        if name in common:
            text += _below(first, name, seen)
    for model in models:
        kind, *_ = get_args(model.model_fields["kind"].annotation)
        specific = [name for name in model.model_fields if name not in common]
        plain = {n for n in specific if not any(_held(model.model_fields[n].annotation))}
        sections = ", ".join(f"[`{name}`](#{name})" for name in specific if name not in plain)
        text += f"\n## kind: {kind}\n\n{_plain(model.__doc__ or '')}\n\n"
        text += f"Sections: {sections}.\n"
        text += f"\n{_rows(model, plain)}" if plain else ""
        for name in specific:
            text += _below(model, name, seen)
    text += "\n## server\n\n" + _rows(ServerConfig)
    text += "".join(_below(ServerConfig, name, seen) for name in ServerConfig.model_fields)
    text += "\n## Gateway\n\nA gateway's `models[]`; its `server` is the same.\n\n"
    text += _rows(get_args(GatewayConfig.model_fields["models"].annotation)[0])
    text += "\n## Judging templates\n\nFields of a template file.\n\n"
    text += _rows(Template, set(Template.model_fields) - {"name", "digest"})
    for part in ("label", "generate", "likelihood"):
        text += _below(Template, part, seen)
    return text


def _below(section: type[BaseModel], name: str, seen: dict[type[BaseModel], str]) -> str:
    for model in _held(section.model_fields[name].annotation):
        if model not in seen:
            seen[model] = name
            inner = "".join(_below(model, field, seen) for field in model.model_fields)
            return f"\n### {name}\n\n{_plain(model.__doc__ or '')}\n\n{_rows(model)}{inner}"
    return ""


def _held(annotation: Any) -> Iterator[type[BaseModel]]:
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _held(inner)


def _rows(section: type[BaseModel], only: set[str] | None = None) -> str:
    schema = section.model_json_schema()["properties"]
    rows = []
    for name, field in section.model_fields.items():
        if only is not None and name not in only:
            continue
        default = field.default
        if field.default_factory is not None:
            default = ""
        elif default is PydanticUndefined:
            default = "required"
        cell = default if default == "required" else _default(default)
        unit = next((unit for end, unit in UNITS.items() if name.endswith(end)), "")
        described = field.description or ""
        of = f"[section](#{name})" if any(_held(field.annotation)) else _type(schema[name])
        rows.append((_code(name), of, cell, unit, described))
    return _table(("field", "type", "default", "unit", ""), rows)


def metrics() -> list[tuple[str, str, tuple[str, ...], str]]:
    """The name (as Ray exports it), type, labels and description of each of a replica's metrics."""
    from ray.serve import metrics

    from reward_serve.replica.observers import Metrics

    rows: list[tuple[str, str, tuple[str, ...], str]] = []

    def noted(kind: str) -> Any:
        def make(name: str, description: str, other: Any = ()) -> mock.MagicMock:
            labels = other if kind == "counter" else ()
            rows.append((f"ray_{name}", kind, labels, description))
            return mock.MagicMock()

        return make

    kinds = {"Counter": "counter", "Histogram": "histogram", "Gauge": "gauge"}
    with mock.patch.multiple(metrics, **{name: noted(kind) for name, kind in kinds.items()}):
        Metrics(lambda: 0, dict)
    return rows


def _metrics() -> str:
    from deploy.monitoring.generate import source

    alerts = [
        (_code(alert["alert"]), alert["severity"], alert["description"], alert["remedy"])
        for alert in source()["alerts"]
    ]
    rows = [
        (_code(name), kind, ", ".join(_code(label) for label in labels), description)
        for name, kind, labels, description in metrics()
    ]
    return (
        "# Metrics\n\nReplicas export these to Prometheus through Ray, which adds the prefix "
        "`ray_`; Serve adds the labels `application`, `deployment` and `replica`. How to scrape "
        "and read them, with a dashboard and alerts: "
        "[observability](../how-to/observability.md#dashboard-and-alerts).\n\n"
        + _table(("metric", "type", "labels", ""), rows)
        + "\n## Alerts\n\nThe rules of `deploy/monitoring/rules.yaml`.\n\n"
        + _table(("alert", "severity", "when", "what to do"), alerts)
    )


def _profiles() -> str:
    from reward_serve.cli.profiles import FOLDER

    text = (
        "# Profiles\n\n`reward-serve serve MODEL` takes what a model needs from the profile of its "
        "family and the closest [shipped file](deployments.md), says so in one line, and with "
        "`--dry-run` prints the file that it made; options and `--set` win. The profile with the "
        "longest name that is part of the model's is taken, so `my-Qwen3-8B-tuned` and "
        "`Qwen/Qwen3-8B-FP8` are served as `Qwen/Qwen3-8B`; an endpoint's name must be the whole "
        "one. A name that adds base or R1 gets no profile; a reward model without one needs "
        "`--kind`, and another kind than the profile's leaves the profile out. Only the command "
        "reads profiles: a deployments file has all that was set.\n\n"
        "Weights are in GiB a replica, at two bytes a parameter "
        "unless the profile says otherwise; a model of more than 64 GiB is spread over 2, 4 or 8 "
        "GPUs (`tensor_parallel_size`). *Read* is what was read, mostly copies of cards; what is "
        "*assumed* was not. *Run* is what was run here: no profile's own weights were.\n\n"
        "A trained verifier needs its card's prompt: [serve a model](../how-to/models.md).\n"
    )
    for path in sorted(FOLDER.glob("*.yaml")):
        profile = yaml.safe_load(path.read_bytes())
        first = path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        text += f"\n## {path.stem}\n\n{first} {_sentence(profile['about'])}\n\n"
        rows = [(_code(model), f"{gib or ''}") for model, gib in profile["models"].items()]
        text += _table(("model", "weights, GiB"), rows)
        if profile["model"]:
            fields = yaml.safe_dump(profile["model"], sort_keys=False, width=100)
            text += f"\n```yaml\n{fields}```\n"
        if prompt := profile.get("prompt"):
            names = (
                f"{field} as {' or '.join(_code(f'{{{placeholder}}}') for placeholder in given)}"
                for field, given in prompt["fields"].items()
            )
            scores = prompt["template"]["label"]["values"].items()
            verdict = ", ".join(f"{_code(label)} {score:g}" for label, score in scores)
            text += f"\nIts prompt names the {', the '.join(names)}. Scores: {verdict}.\n"
        text += f"\nRead: {profile['read']}.\n\nRun: {profile['run']}.\n"
    return text


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


_ERRORS = {
    "false accepts": ("false_accept", "true_reject"),
    "false rejects": ("false_reject", "true_accept"),
}
_NOT_RUN = (
    ("Qwen3 instruct", "reward-serve serve Qwen/Qwen3-30B-A3B-Instruct-2507", ""),
    ("gpt-oss", "reward-serve serve openai/gpt-oss-20b", "--mode generate"),
    ("a hosted judge", "reward-serve serve openai.yaml", "--attacks 400"),
    ("a trained verifier", "reward-serve serve FOLDER --prompt FILE", "--mode generate"),
)


def _cards() -> str:
    from reward_serve_judge import ADAPTER

    card = yaml.safe_load((ADAPTER / "card.yaml").read_text(encoding="utf-8"))
    machine, versions = (
        ", ".join(f"{name} {value}" for name, value in card[part].items())
        for part in ("machine", "versions")
    )
    speed, right = card["verdicts_per_s"], card["right_answers_in_attacked_conversations"]
    text = (
        "# Judge cards\n\nA judge's card says what is known of it before a run is spent on it. "
        "[`reward-serve card`](cli.md#reward-serve-card) measures a running service and writes it; "
        "[what it holds](judge.md#measure-and-attack).\n\n## The bundled judge\n\n"
        f"{_code(card['command'])}, {card['date']}. Machine: {machine}. Versions: {versions}. "
        f"Template {_code(card['template'])}, mode {card['mode']}.\n\n"
        + _table(("", *_titles(card["attacks"])), list(_figures(card)))
        + f"\nVerdicts per second: {speed['in_flight']} in flight, of {speed['rows']}; for "
        "the model alone, of its rows that no rule decides. Other programs ran on the same cores: "
        "[idle ones](../development/benchmarks.md#agreement). Of the conversations that attack, "
        f"with a right answer instead, {right['accepted']} of {right['n']} are accepted.\n"
    )
    for name, both in card["labelled"].items():
        text += f"\n### {name}, by kind of answer\n\n" + _by_kind(both)
    text += "\n### attacks accepted, by family\n\n"
    ways = card["attacks"]
    families = [
        (
            name,
            *(
                f"{report['families'][name]['false_accepts']} of {family['n']}"
                for report in ways.values()
            ),
        )
        for name, family in ways["served"]["families"].items()
    ]
    text += _table(("", *_titles(ways)), families)
    rows = [
        (what, _code(command), _code(f"reward-serve card {options}".strip()))
        for what, command, options in _NOT_RUN
    ]
    return text + (
        "\n## Others\n\nNot run here: run the two commands, on your machine. For a "
        "service with keys, set `REWARD_SERVE_API_KEY`.\n\n"
        + _table(("judge", "serve", "then"), rows)
        + "\nA classifier such as Skywork-Reward-V2 compares responses and reads no reference, so "
        "these rows say nothing of it: [`reward-serve pairs`](cli.md#reward-serve-pairs).\n"
    )


def _figures(card: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Rows of a table: the figures as served, and of the model alone."""

    def share(report: dict[str, Any], rate: float, interval: str) -> str:
        low, high = report[interval]
        return f"{rate:.1%} ({low:.1%} to {high:.1%})"

    for name, both in card["labelled"].items():
        ways = list(both.values())
        yield (f"{name}: rows", *(str(report["n"]) for report in ways))
        yield ("agreement", *(share(o, o["agreement"], "agreement_interval") for o in ways))
        for title, pair in _ERRORS.items():
            yield (title, *(_of(report["confusion"], *pair) for report in ways))
        yield ("decided by rules", *(f"{report['by_rules']:.0%}" for report in ways))
        yield ("calibration error (ECE)", *(f"{report['ece']:.3f}" for report in ways))
        yield ("without a verdict", *(str(report["unscored"]) for report in ways))
    ways = list(card["attacks"].values())
    yield ("attacks accepted", *(f"{report['false_accepts']} of {report['n']}" for report in ways))
    yield ("without a verdict", *(str(report["unscored"]) for report in ways))
    speeds = card["verdicts_per_s"]
    yield ("verdicts per second", *(f"{speeds[way]:.0f}" for way in card["attacks"]))


def _by_kind(ways: dict[str, Any]) -> str:
    rows = []
    for kind in ways["served"]["kinds"]:
        of_kind = [report["kinds"][kind] for report in ways.values()]
        cells = [_of(counts, *pair) for counts in of_kind for pair in _ERRORS.values()]
        rows.append((kind, *cells))
    return _table(("", *(f"{e}, {way}" for way in _titles(ways) for e in _ERRORS)), rows)


def _of(counts: dict[str, int], wrong: str, other: str) -> str:
    return f"{counts[wrong]} of {counts[wrong] + counts[other]}"


def _titles(ways: dict[str, Any]) -> list[str]:
    return [way.replace("_", " ") for way in ways]


class _Config(yaml.SafeLoader):
    """Reads mkdocs.yml, whose tags name Python functions."""


_Config.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)


def _llms(written: dict[str, str]) -> str:
    config = yaml.load((DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8"), _Config)
    text = f"# {config['site_name']}\n\n> {config['site_description']}\n"
    for section in config["nav"]:
        ((title, inner),) = section.items()
        if isinstance(inner, str):
            inner = [{title: inner}]
        text += f"\n## {title}\n\n"
        for page in inner:
            ((name, path),) = page.items()
            page_text = written.get(path) or (DOCS / path).read_text(encoding="utf-8")
            url = f"./{path.removesuffix('.md').removesuffix('index')}"
            text += f"- [{name}]({url}): {_first_sentence(page_text)}\n"
    return text


def _first_sentence(text: str) -> str:
    prose = re.sub(r"<!--.*?-->|^```.*?^```", "", text, flags=re.S | re.M)
    prose = re.sub(r"^#.*$", "", prose, flags=re.M).strip()
    first = re.split(r"(?<=[.])\s", prose.split("\n\n")[0].replace("\n", " "))[0]
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", first)


def main(arguments: list[str] | None = None) -> int:
    """Write the pages, or with ``--check`` name those that differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args(arguments).check
    differing = []
    for path, text in pages().items():
        file = DOCS / path
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            differing.append(path)
            if not check:
                file.write_text(text, encoding="utf-8")
    if check and differing:
        sys.stderr.write(f"run `python -m docs.generate`: {', '.join(differing)} differ\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
