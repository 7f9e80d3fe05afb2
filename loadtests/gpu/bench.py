"""``python -m loadtests.gpu.bench``: each part measures, and writes its part of gpu.json.

python -m loadtests.gpu.bench --only settings,together --out $OUT
python -m loadtests.gpu.bench --device cpu --out /tmp/rehearsal   # figures that mean nothing
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import typer

from deployments.local import console
from examples.demo import SAMPLES
from loadtests.bench import label_mode
from loadtests.bench.common import Request, machine, read_requests
from loadtests.bench.kinds import served
from loadtests.bench.settings import OWN, compare
from loadtests.gpu import speed, together
from loadtests.gpu.models import write_model
from loadtests.gpu.place import Place, card
from reward_serve import RewardClient

RESULTS = Path(__file__).parents[1] / "results"
_SHARE = 0.13
VARIANTS: dict[str, dict[str, Any]] = {
    OWN: {},
    "max_num_batched_tokens 4096": {"max_num_batched_tokens": 4096},
    "max_num_seqs 64": {"max_num_seqs": 64},
    "cudagraph_mode NONE": {"engine_kwargs": {"compilation_config": {"cudagraph_mode": "NONE"}}},
    "enforce_eager": {"engine_kwargs": {"enforce_eager": True}},
    "enable_prefix_caching off": {"enable_prefix_caching": False},
}


def main(
    only: Annotated[str, typer.Option(help="Parts, as in speed-1.5b,settings; default all.")] = "",
    device: Annotated[str, typer.Option(help="cuda, or cpu for a rehearsal.")] = "cuda",
    rounds: Annotated[int, typer.Option(min=1, help="Repeats, in alternation.")] = 3,
    out: Annotated[Path, typer.Option(help="Folder of gpu.json.")] = RESULTS,
) -> None:
    """Run the parts one after another, whether or not earlier ones failed."""
    if device not in ("cuda", "cpu"):
        raise typer.BadParameter(f"--device is cuda or cpu, not {device!r}")
    with tempfile.TemporaryDirectory() as folder:
        known = parts(Place(cast(Literal["cuda", "cpu"], device), Path(folder)), rounds)
        chosen = [name for name in only.split(",") if name] or list(known)
        if unknown := set(chosen) - known.keys():
            raise typer.BadParameter(f"only: unknown {sorted(unknown)}; known: {', '.join(known)}")
        failed = [name for name in chosen if not record(name, known[name], out / "gpu.json")]
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}; the reasons are in {out / 'gpu.json'}")


def parts(place: Place, rounds: int) -> dict[str, Callable[[], dict[str, Any]]]:
    """What can be measured, by name."""
    small, large = place.pick(("qwen2.5-1.5b", "llama-8b"), ("tiny", "tiny"))
    samples = read_requests(SAMPLES)[: place.pick(None, 8)]
    return {
        "speed-1.5b": lambda: speed.label(place, small, rounds),
        "speed-8b": lambda: speed.label(place, large, rounds),
        "classifier": lambda: speed.classifier(place, small, rounds),
        "written": lambda: _written(place, small, samples),
        "settings": lambda: _settings(place, small, rounds),
        "together": lambda: together.together(place, samples, rounds),
        "memory": lambda: together.memory(place),
    }


def record(name: str, measure: Callable[[], dict[str, Any]], path: Path) -> bool:
    """Add a part's figures to the file, or why it failed; return whether it succeeded."""
    began = time.monotonic()
    try:
        measured = measure()
    except (Exception, SystemExit) as error:
        console.print_exception()
        measured = {"failed": f"{type(error).__name__}: {error}"[:2000]}
    report = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    report[name] = {
        **measured,
        "command": command(sys.orig_argv),
        "took_s": round(time.monotonic() - began, 1),
        "machine": machine() | card(),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    console.print_json(json.dumps({name: measured}))
    return "failed" not in measured


def command(arguments: list[str]) -> str:
    """The command without this machine's folders, so that anyone can repeat it."""
    kept = arguments[1:]
    for option in ("--out", "--known"):
        if option in kept:
            del kept[kept.index(option) : kept.index(option) + 2]
    return " ".join(["python", *kept])


def _written(place: Place, shape: str, requests: list[Request]) -> dict[str, Any]:
    """Label mode against up to 512 written tokens, in a batch and one by one, on this device."""
    config = place.engine(str(write_model(place.folder / shape, shape)), 0.9)
    tokens: int = place.pick(512, 16)
    model = {
        "name": "judge",
        "kind": "judge",
        "engine": config.model_dump(exclude_none=True, exclude={"device"}),
        "judge": {"rules_first": False, "audit_rate": 0.0},
        "resources": place.resources(1),
        "max_concurrent_items": 512,
    }
    batched, old = place.pick((256, 4), (2, 1))
    with served([model]):
        client = RewardClient("reward", timeout_s=900.0)
        compared = label_mode.compare(requests, client, batched, old, tokens)
        return asyncio.run(compared)


def _settings(place: Place, shape: str, rounds: int) -> dict[str, Any]:
    model = str(write_model(place.folder / shape, shape))
    tried: dict[str, dict[str, Any]] = VARIANTS if place.device == "cuda" else {OWN: {}}
    variants = {name: place.engine(model, _SHARE, **each) for name, each in tried.items()}
    items: int = place.pick(1024, 8)
    asked = speed.requests(0, items, 256)
    return asyncio.run(compare(variants, asked, rounds, response_tokens=place.pick(227, 96)))


if __name__ == "__main__":
    typer.run(main)
