"""Other projects' judges and this service's: the same endpoint and faults, the same engine.

python -m loadtests.peers stand-in --only plain,verl-naive --weathers calm,faults
python -m loadtests.peers engine --data labelled.jsonl   # the bundled model behind vLLM's server
python -m loadtests.peers chart                          # docs/comparison.svg from compare.json
"""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import httpx
import psutil
import typer

from deployments.local import ROOT, console, deployed, free_port
from examples.demo import SAMPLES
from loadtests.bench.bare_engine import vllm_server
from loadtests.bench.common import read_rows
from loadtests.cluster import served
from loadtests.peers.endpoint import WEATHERS, Running
from loadtests.reports import RESULTS, Figures, add_figures, chosen_of
from reward_serve.config.engine import EngineConfig
from reward_serve.engines.vllm import locate
from reward_serve_judge.weights import prepare_bundled

GROUP, WARM, BOUND_S = 8, 16, 120.0
PEERS = {
    "verifiers": (".venv-pool", "verifiers", "verifiers"),
    "nemo-gym": (".venv-pool", "nemo_gym", "nemo-gym"),
    "verl-naive": (".venv-verl", "verl", "verl"),
    "verl-rate_limited": (".venv-verl", "verl", "verl"),
    "skyrl": (".venv", "skyrl", "skyrl-gym"),
    "inspect": (".venv-peers", "inspect", "inspect-ai"),
    "trl": (".venv", "trl", "trl"),
    "plain": (".venv", "plain", "openai"),
    "ours-http": (".venv", "ours", "reward-serve"),
    "ours-handle": (".venv", "ours", "reward-serve"),
}
"""Each one's environment, function in ``asks`` and distribution."""
JUDGES = ("verifiers", "nemo-gym", "verl-naive", "skyrl", "inspect", "plain", "ours", "ours-rules")
"""Those that ask differently, for a real engine."""
MASTER_KEYS = ("Thought process:", ":", " ", "Let's solve this step by step.")
COLOURS = {
    "right": "#4c9f70", "wrong": "#b3261e", "no verdict": "#e07b39", "absent": "#c9ced6",
    "hung": "#5b6472",
}  # fmt: skip
"""What becomes of a row; "no verdict" is a number, though the endpoint gave none for the row."""
JUDGE = {
    "name": "judge",
    "kind": "remote",
    "judge": {"template": "problem", "mode": "generate", "max_tokens": 1024, "rules_first": False},
}
"""The judge of ``docs/how-to/endpoint.md`` without rules, so that it asks for every row."""
app = typer.Typer()
Only = Annotated[str, typer.Option(help="Peers, separated by commas; default: all.")]
Out = Annotated[Path, typer.Option(help="Folder of compare.json.")]
Row = dict[str, Any]


def rows_of(run: str, count: int, first: int = 0) -> list[Row]:
    """Rows new to every cache, in groups of 8; odd ones are right."""
    return [
        {
            "row": row,
            "question": f"What is the total of order {row // GROUP} of {run}?",
            "reference": "18",
            "response": f"{run}, row {row}: the parts have a total of {17 + row % 2}.",
            "group": f"{run}-{row // GROUP}",
        }
        for row in range(first, first + count)
    ]


class Program:
    """A peer's program in its own environment."""

    def __init__(self, peer: str, url: str, **settings: str) -> None:
        folder, function, self.package = PEERS[peer]
        model, _, variant = (peer, "", "") if peer == "nemo-gym" else peer.partition("-")
        environment = {
            "PEER_URL": url, "PEER_MODEL": model, "PEER_VARIANT": variant, "PEER_KEY": "none",
            "PEER_PORT": str(free_port()), "PEER_TOKENIZER": str(prepare_bundled()),
            "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "INSPECT_DISPLAY": "none",
        }  # fmt: skip
        self._python = str(ROOT / folder / "bin" / "python")
        self._log = os.memfd_create("printed")
        self._process = subprocess.Popen(
            [self._python, "-m", "loadtests.peers.asks", function], cwd=ROOT, stderr=self._log,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | environment | settings,
        )  # fmt: skip
        self.process = psutil.Process(self._process.pid)

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        os.close(self._log)

    def version(self) -> str:
        """The installed version of its distribution."""
        code = f"from importlib.metadata import version; print(version({self.package!r}))"
        found = subprocess.run([self._python, "-c", code], capture_output=True, text=True)
        return f"{self.package} {found.stdout.strip()}"

    def ask(self, rows: list[Row], bound_s: float) -> list[Row]:
        """The lines that came within the bound, each with its ``s``econds."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(rows).encode() + b"\n")
        self._process.stdin.flush()
        began, lines, rest = time.monotonic(), list[Row](), b""
        while not lines or "done" not in lines[-1]:
            left = max(0.0, began + bound_s - time.monotonic())
            if not select.select([self._process.stdout], [], [], left)[0]:
                break
            if not (got := os.read(self._process.stdout.fileno(), 1 << 20)):
                printed = os.pread(self._log, 1 << 20, 0).decode()
                raise RuntimeError(f"the program ended: {printed[-2000:]}")
            *whole, rest = (rest + got).split(b"\n")
            lines += [json.loads(line) | {"s": time.monotonic() - began} for line in whole]
        return lines


def cpu_s(process: psutil.Process) -> float:
    """Seconds of processor time of a process and all below it."""
    total = 0.0
    for each in (process, *process.children(recursive=True)):
        try:
            total += sum(each.cpu_times()[:2])
        except psutil.NoSuchProcess:
            continue
    return total


def tallied(lines: list[Row], count: int, verdicts: set[int]) -> Figures:
    """Rows by what became of them, and when."""
    by_row = {line["row"]: line for line in lines if "row" in line}
    tally, reasons = Counter[str](), Counter[str]()
    for row, line in by_row.items():
        if line["score"] is None:
            tally["absent"] += 1
            reasons[str(line.get("reason"))[:90]] += 1
        elif row not in verdicts:
            tally["no verdict"] += 1
        else:
            tally["right" if line["score"] == row % 2 else "wrong"] += 1
    is_over = any("done" in line for line in lines[-1:])
    tally["absent" if is_over else "hung"] += count - len(by_row)
    seconds = sorted(line["s"] for line in by_row.values()) or [0.0]
    return {name: tally[name] for name in COLOURS} | {
        "half_s": round(median(seconds), 2),
        "last_s": round(seconds[-1], 2),
        "reasons": dict(reasons.most_common(3)),
    }


def measured(peer: str, weather: str, count: int) -> Figures:
    """One peer in one weather."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/v1"
    running, me = Running(port, weather), psutil.Process()
    at = {"model": "ours", "base_url": url, "api_key_env": None}
    ours = peer.startswith("ours")
    service: AbstractContextManager[str] = (
        served([JUDGE | {"remote": at}]) if ours else nullcontext(url)
    )
    with service as address:
        if peer == "ours-handle":
            import ray

            address = ray.get_runtime_context().gcs_address
        with Program(peer, address) as program:

            def spent_s() -> tuple[float, float]:
                own_s = cpu_s(program.process)
                others_s = sum(me.cpu_times()[:2]) + cpu_s(running.process)
                return own_s, cpu_s(me) - others_s - own_s

            program.ask(rows_of("warm", WARM, -WARM), BOUND_S)
            before = spent_s()
            lines = program.ask(rows_of(f"{peer} {weather}", count), BOUND_S)
            client_s, service_s = (now - then for now, then in zip(spent_s(), before, strict=True))
            version = program.version()
    calls, verdicts = running.end()
    return tallied(lines, count, verdicts) | {
        "calls": calls,
        "client_cpu_s": round(client_s, 2),
        "service_cpu_s": round(service_s, 2) if ours else 0.0,
        "version": version,
    }


@app.command("stand-in")
def stand_in(
    only: Only = "", weathers: str = ",".join(WEATHERS), rows: int = 1024, out: Out = RESULTS
) -> None:
    """Ask every peer for 1,024 verdicts in every weather."""
    for peer in (name for name in chosen_of(only, {*PEERS, *JUDGES}) if name in PEERS):
        for weather in chosen_of(weathers, WEATHERS):
            with console.status(f"{peer}, {weather}"):
                figures = measured(peer, weather, rows)
            console.print(peer, weather, json.dumps(figures), soft_wrap=True, markup=False)
            command = f"python -m loadtests.peers stand-in --only {peer} --weathers {weather}"
            add_figures(out / "compare.json", f"{weather} {peer}", figures, command, rows=rows)


def labelled(data: Path | None, count: int) -> list[Row]:
    """Labelled rows, spread over the file, and after them 64 master keys, which are wrong."""
    every = read_rows(data or SAMPLES)
    rows = every[:: max(1, len(every) // count)][:count]
    rows += [row | {"response": key, "correct": False} for row in rows[:16] for key in MASTER_KEYS]
    return [row | {"row": number, "group": row["question"]} for number, row in enumerate(rows)]


def judged(
    program: Program, rows: list[Row], bound_s: float, tokens: Callable[[], Counter[str]]
) -> Figures:
    """Verdicts of master keys, then of labelled rows: their rate, tokens and agreement."""
    cut = len(rows) - 16 * len(MASTER_KEYS)
    program.ask(rows[:4], bound_s)
    keys = [line["score"] for line in program.ask(rows[cut:], bound_s) if "row" in line]
    before = tokens()
    lines = [line for line in program.ask(rows[:cut], bound_s) if line.get("row", cut) < cut]
    spent = tokens() - before
    scored = {line["row"]: line["score"] for line in lines if line["score"] is not None}
    return {
        "asked": cut, "answered": len(lines), "scored": len(scored), "version": program.version(),
        "agree": sum((score >= 0.5) == rows[row]["correct"] for row, score in scored.items()),
        "per_s": round(len(lines) / lines[-1]["s"], 2) if lines else 0.0,
        "tokens": {name: round(n / max(1, len(lines)), 1) for name, n in spent.items()},
        "keys": len(keys), "keys_accepted": sum((score or 0.0) >= 0.5 for score in keys),
    }  # fmt: skip


def _tokens(url: str) -> Counter[str]:
    text = httpx.get(f"{url}/metrics").text
    found = re.findall(r"^vllm:(prompt|generation)_tokens_total\{.*?\} (\S+)$", text, re.M)
    return Counter({name: int(float(number)) for name, number in found})


@app.command()
def engine(
    only: Only = "",
    data: Annotated[Path | None, typer.Option(help="Labelled rows; default: the demo's.")] = None,
    rows: int = 128,
    max_tokens: int = 32,
    bound_s: float = 100.0,
    out: Out = RESULTS,
) -> None:
    """Have every peer judge labelled rows, and master keys, with the bundled model."""
    chosen = [name for name in chosen_of(only, {*PEERS, *JUDGES}) if name in JUDGES]
    model, asked = str(locate(EngineConfig(device="cpu"))), labelled(data, rows)
    settings = {"PEER_MODEL": model, "PEER_MAX_TOKENS": str(max_tokens), "PEER_CALL_S": "600"}
    settled = f"--rows {rows} --max-tokens {max_tokens} --bound-s {bound_s:g}"
    command = f"python -m loadtests.peers engine --data DATA {settled} --only "

    def report(name: str, program: Program, tokens: Callable[[], Counter[str]]) -> None:
        with program:
            figures = judged(program, asked, bound_s, tokens)
        console.print(name, json.dumps(figures), soft_wrap=True, markup=False)
        add_figures(out / "compare.json", f"engine {name}", figures, command + name)

    if theirs := [name for name in chosen if not name.startswith("ours")]:
        limit = json.dumps({"max_new_tokens": max_tokens})  # for calls without one
        extra = {"override_generation_config": limit, "disable_log_stats": False}
        with vllm_server(model, EngineConfig(device="cpu", engine_kwargs=extra)) as url:
            for name in theirs:
                report(name, Program(name, f"{url}/v1", **settings), lambda: _tokens(url))
    for name in (name for name in chosen if name.startswith("ours")):
        with deployed(rules_first=name == "ours-rules", cache=False) as service:
            report(
                name, Program("ours-http", service.url, REWARD_SERVE_TIMEOUT_S="600"), Counter[str]
            )


@app.command()
def chart(out: Out = RESULTS, svg: Path = ROOT / "docs" / "comparison.svg") -> None:
    """Draw what became of the rows, by weather and peer."""
    report = json.loads((out / "compare.json").read_text(encoding="utf-8"))
    drawn, y = list[str](), 20.0

    def box(x: float, y: float, width: float, colour: str) -> None:
        drawn.append(
            f'<rect x="{x:.1f}" y="{y - 11}" width="{width:.1f}" height="13" fill="{colour}"/>'
        )

    def text(x: float, y: float, what: str) -> None:
        drawn.append(f'<text x="{x}" y="{y}">{what}</text>')

    for place, (name, colour) in enumerate(COLOURS.items()):
        box(150 + 105 * place, y, 12, colour)
        text(167 + 105 * place, y, name)
    for weather in WEATHERS[1:]:
        text(8, y := y + 28, weather)
        for peer in PEERS:
            if not (figures := report.get(f"{weather} {peer}")):
                continue
            x = 150.0
            text(20, y := y + 18, peer)
            for name, colour in COLOURS.items():
                width = 520 * figures[name] / sum(figures[each] for each in COLOURS)
                box(x, y, width, colour)
                x += width
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 680 {y + 12:.0f}"'
    style = 'font-family="sans-serif" font-size="12" style="background: white">'
    svg.write_text("\n".join([f"{head} {style}", *drawn, "</svg>", ""]), encoding="utf-8")


if __name__ == "__main__":
    app()
