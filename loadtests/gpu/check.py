"""Does the bundled judge on a GPU give the verdicts that it gives on a CPU?

python -m loadtests.gpu.check reference --data rows.jsonl   # on the CPU, beforehand
python -m loadtests.gpu.check run --data rows.jsonl         # on the GPU; exit 1 if it does not
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from deployments.local import deployed
from examples.demo import SAMPLES
from loadtests.bench.common import NO_CACHE, read_rows
from loadtests.gpu.card import Place, run_on
from loadtests.gpu.carry import CARRIED
from loadtests.reports import RESULTS
from reward_serve import HttpRewardClient
from reward_serve.config.models import JudgeModel
from reward_serve.engines.vllm import VllmEngine
from reward_serve.reward_models.judge import Judge
from reward_serve.schema import ScoreRequest, ScoreResult
from reward_serve_lab.attacks.suite import crossed
from reward_serve_lab.evaluation.bulk import FORMATS

REFERENCE = CARRIED / "reference.json"
_SHARE = 0.2
_AT_ONCE = 128
_NEAR = 0.05  # a probability this close to 0.5 may fall on either side in another dtype

app = typer.Typer(add_completion=False)

Data = Annotated[Path | None, typer.Option(help="More labelled rows.")]
Attacks = Annotated[int | None, typer.Option(help="Number of attacks of the suite; default all.")]
Rows = Annotated[int | None, typer.Option(help="Number of rows of each file; default all.")]


@app.command()
def reference(
    data: Data = None,
    rows: Rows = None,
    attacks: Attacks = None,
    out: Annotated[Path, typer.Option()] = REFERENCE,
) -> None:
    """Judge the rows on the CPU, and write the probabilities to compare a GPU's with."""
    asked = rows_of(data, rows)
    scores, attacked, _ = asyncio.run(judged(Place("cpu"), asked, "float32", attacks))
    probabilities = {key(r): p for r, p in zip(asked, scores, strict=True)}
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"probabilities": probabilities, "attacks": attacked}))


@app.command()
def run(
    data: Data = None,
    device: Annotated[str, typer.Option(help="cuda, or cpu for a rehearsal.")] = "cuda",
    rows: Rows = None,
    attacks: Attacks = None,
    known: Annotated[Path, typer.Option(help="File written by `reference`.")] = REFERENCE,
    only: Annotated[str, typer.Option(help="Checks, as in float32,judge.yaml; default all.")] = "",
    out: Annotated[Path, typer.Option(help="Folder of gpu.json.")] = RESULTS,
) -> None:
    """Compare labels with the CPU's, attack, and serve by judge.yaml."""
    asked = rows_of(data, rows)
    place = Place("cuda" if device == "cuda" else "cpu")
    expected: dict[str, Any] = json.loads(known.read_text(encoding="utf-8"))
    dtypes = place.pick(("float32", "bfloat16"), ("float32",))
    checks = {
        **{d: (lambda d=d: _right(place, asked, expected, d, attacks)) for d in dtypes},  # type: ignore[misc]
        "judge.yaml": lambda: _deployed(place, asked),
    }
    run_on(checks, only, out / "gpu.json")


def rows_of(data: Path | None, most: int | None) -> list[dict[str, Any]]:
    """The first ``most`` rows of the sample set, of the formats and of the given file."""
    files = [SAMPLES, FORMATS, *([data] if data else [])]
    return [row for file in files for row in read_rows(file)[:most]]


def key(row: dict[str, Any]) -> str:
    """A row's key: a hash of its response and reference, so that the file holds no text of them."""
    texts = json.dumps([row["response"], row["reference"]])
    return hashlib.sha256(texts.encode()).hexdigest()[:16]


def compared(
    rows: list[dict[str, Any]], expected: dict[str, float], measured: list[float]
) -> dict[str, Any]:
    """Count the labels that differ from the CPU's, and compare probabilities.

    Raises:
        KeyError: the CPU's file was made from other rows.
    """
    pairs = [(expected[key(row)], here) for row, here in zip(rows, measured, strict=True)]
    flips = [(cpu, here) for cpu, here in pairs if (cpu >= 0.5) is not (here >= 0.5)]
    apart = sorted(abs(cpu - here) for cpu, here in pairs)
    right = [(p >= 0.5) is row["correct"] for row, p in zip(rows, measured, strict=True)]
    return {
        "rows": len(rows),
        "flips": [{"cpu": cpu, "here": here} for cpu, here in flips],
        "flips_not_near_half": sum(abs(cpu - 0.5) > _NEAR for cpu, _ in flips),
        "difference": {"median": apart[len(apart) // 2], "largest": apart[-1]},
        "agreement": sum(right) / len(rows),
    }


def _right(
    place: Place,
    rows: list[dict[str, Any]],
    expected: dict[str, Any],
    dtype: str,
    attacks: int | None,
) -> dict[str, Any]:
    measured, attacked, engine = asyncio.run(judged(place, rows, dtype, attacks))
    figures = {
        **compared(rows, expected["probabilities"], measured),
        "attacks": {"cpu": expected["attacks"], "here": attacked},
        "engine": engine,
    }
    if figures["flips_not_near_half"] or attacked["unscored"]:
        raise SystemExit(json.dumps(figures))
    return figures


async def judged(
    place: Place, rows: list[dict[str, Any]], dtype: str, attacks: int | None
) -> tuple[list[float], dict[str, int], dict[str, str]]:
    """Judge rows and attacks by the model alone.

    Args:
        place: where the engine runs.
        rows: the rows.
        dtype: the engine's data type.
        attacks: number of attacks of the suite; None for all.

    Returns:
        Each row's probability of being right, counts of the attacks, and the engine's description.
    """
    config = place.engine(
        "bundled", _SHARE, dtype=dtype, max_model_len=2048, max_num_seqs=64, cpu_kv_cache_gib=0.5
    )
    engine = await VllmEngine.start(config, num_cpus=2, num_gpus=place.pick(1.0, 0.0))
    alone = {"judge": {"rules_first": False}, "cache": {"enabled": False}}
    resources = place.pick({"num_gpus": 1}, {})
    model = {"name": "judge", "kind": "judge", "resources": resources, **alone}
    judge, places = Judge(JudgeModel.model_validate(model), engine), asyncio.Semaphore(_AT_ONCE)

    async def verdict(response: str, reference: Any) -> ScoreResult:
        async with places:
            return await judge.score(ScoreRequest(response=response, reference=reference))

    try:
        given = await asyncio.gather(*(verdict(r["response"], r["reference"]) for r in rows))
        suite = crossed()[:attacks]
        attacked = await asyncio.gather(*(verdict(a.response, a.reference) for a in suite))
    finally:
        engine.close()
    counts = {
        "rows": len(attacked),
        "accepted": sum(v.score is not None and v.score >= 0.5 for v in attacked),
        "unscored": sum(v.score is None for v in attacked),
    }
    return list(map(_probability, given)), counts, engine.describe()


def _probability(verdict: ScoreResult) -> float:
    """The probability of the label with score 1.

    Raises:
        RuntimeError: there is no verdict.
    """
    if verdict.label is None or verdict.probabilities is None:
        raise RuntimeError(f"no verdict: {verdict.status}, {verdict.reason}")
    likelier = verdict.probabilities[verdict.label]
    return likelier if verdict.label == "1" else 1.0 - likelier


def _deployed(place: Place, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Serve ``judge.yaml`` on a tenth of the GPU."""
    keys = ("response", "reference", "question")
    asked = [{**{k: row[k] for k in keys if k in row}, "options": NO_CACHE} for row in rows]
    with (
        deployed(cache=False, resources=place.resources(0.1)) as service,
        HttpRewardClient(service.url, timeout_s=600) as client,
    ):
        results = client.score_batch(asked)
        (model,) = client.models()
    agreed = [
        result.score is not None and (result.score >= 0.5) is row["correct"]
        for row, result in zip(rows, results, strict=True)
    ]
    figures = {
        "statuses": dict(Counter(result.status.value for result in results)),
        "agreement": sum(agreed) / len(rows),
        "engine": model["engine"],
        "ready_s": service.ready_s,
    }
    if figures["statuses"] != {"ok": len(rows)} or figures["agreement"] < 0.95:
        raise SystemExit(json.dumps(figures))
    return figures


if __name__ == "__main__":
    app()
