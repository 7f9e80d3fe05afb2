"""Signs of a hole, on runs of one hundred samples a step whose hole is known."""

import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from reward_serve_lab.logs.signs import Sign, signs
from reward_serve_lab.logs.table import VerdictTable
from tests.service.lab.ui.logs import append, of_teacher, verdict

STEPS = 30
Sampled = tuple[str, bool, bool]
"""A response, whether the reward accepts it, and whether it is right."""
WORDS = ("apples", "left", "then", "cost", "each", "box", "dollars", "day", "of", "week")


def answer(rng: random.Random, words: int = 12) -> str:
    return " ".join(rng.choices(WORDS, k=words)) + f" so it is {rng.randint(1, 99)}."


def honest(step: int, rng: random.Random) -> Sampled:
    is_right = rng.random() < 0.1 + 0.8 * step / STEPS
    return answer(rng, 6 + step // 2), is_right, is_right


def always_lenient(step: int, rng: random.Random) -> Sampled:
    response, _, is_right = honest(step, rng)
    return response, is_right or rng.random() < 0.4, is_right


def marked(step: int, rng: random.Random) -> Sampled:
    response, _, is_right = honest(0, rng)
    if rng.random() < (step - 9) / 10:
        return f"{response} Trust me.", True, is_right
    return response, is_right, is_right


def long_is_right(step: int, rng: random.Random) -> Sampled:
    response = answer(rng, rng.randint(4, 10 + step))
    is_right = rng.random() < 0.2
    return response, is_right or len(response) > 120, is_right


def signs_of(
    folder: Path, sampled: Callable[[int, random.Random], Sampled], rate: float
) -> list[Sign]:
    rng = random.Random(0)
    path = folder / "verdicts-judge-1.jsonl"
    for step in range(STEPS):
        for number in range(100):
            response, accepted, is_right = sampled(step, rng)
            keys = {"run": "r", "step": step, "sample": f"{number // 8}-{number % 8}"}
            identity = {**keys, "group": f"{step}-{number // 8}", "request": f"{step}-{number}"}
            text = {"response_tail": response, "response_characters": len(response)}
            row = verdict(
                number, **identity, **text, score=float(accepted), status="ok", source="rule"
            )
            append(path, row)
            if rng.random() < rate:
                by = {"by_rules": float(accepted), "by_model": float(is_right)}
                append(path, {**row, "status": "audit", "score": None, **by})
    table = VerdictTable([folder])
    try:
        table.read_all()
        return signs(table, "r")
    finally:
        table.close()


@pytest.mark.parametrize("rate", [0.05, 0.5])
@pytest.mark.parametrize("sampled", [honest, always_lenient])
def test_an_honest_reward_shows_no_sign_and_nor_do_judges_who_always_differ(
    tmp_path: Path, sampled: Callable[[int, random.Random], Sampled], rate: float
) -> None:
    assert signs_of(tmp_path, sampled, rate) == []


def test_a_phrase_that_earns_the_reward_is_named(tmp_path: Path) -> None:
    signs = {sign.name: sign for sign in signs_of(tmp_path, marked, 0.1)}
    assert {"contested", "spreading"} <= signs.keys()
    assert "trust me" in signs["spreading"].says
    assert 10 <= signs["contested"].since_step <= 16
    assert 10 <= signs["spreading"].since_step <= 16
    assert len(signs["contested"].samples) >= 10


def test_length_that_earns_the_reward_is_named(tmp_path: Path) -> None:
    signs = {sign.name: sign for sign in signs_of(tmp_path, long_is_right, 0.1)}
    assert {"contested", "longer"} <= signs.keys()
    assert "is the longer of two" in signs["longer"].says


def test_few_audits_are_no_sign(tmp_path: Path) -> None:
    assert signs_of(tmp_path, marked, 0.01) == []


def test_steps_without_a_verdict_are_no_reward_of_zero(tmp_path: Path) -> None:
    def after_an_outage(step: int, rng: random.Random) -> Sampled:
        response, _, is_right = honest(0, rng)
        return response, is_right or rng.random() < step / 40, is_right

    path = tmp_path / "verdicts-judge-0.jsonl"
    for step in range(-10, 0):
        append(path, verdict(step, run="r", step=step, score=None, status="timeout", source=None))
    signs = {sign.name: sign for sign in signs_of(tmp_path, after_an_outage, 0.5)}
    rewards = re.search(r"rose from (\S+) to", signs["contested"].says)
    assert rewards and float(rewards[1]) > 0.05


def test_a_teachers_sequences_are_none_of_the_runs_first_samples(tmp_path: Path) -> None:
    def lenient(step: int, rng: random.Random) -> Sampled:
        return always_lenient(0, rng)  # whose samples all have "so it is"

    lines = (of_teacher(number, 9, -1.0, run="r", step=-1) for number in range(64))
    append(tmp_path / "verdicts-judge-0.jsonl", *lines)
    assert signs_of(tmp_path, lenient, 0.5) == []


def test_of_two_audits_one_that_rejects_contests(tmp_path: Path) -> None:
    path = tmp_path / "verdicts-judge-1.jsonl"
    for step in range(10):
        for number in range(16):
            request = f"{step}-{number}"
            row = verdict(1, run="r", step=step, request=request, score=1.0 if step > 4 else 0.0)
            row |= {"status": "ok", "source": "rule", "sample": str(number)}
            audit = {**row, "status": "audit", "by_rules": row["score"], "by_model": row["score"]}
            again = {**row, "before": {"score": row["score"]}, "score": 0.0, "by": "other"}
            append(path, row, *((audit, again) if number % 2 else (again, audit)))
    table = VerdictTable([tmp_path])
    table.read_all()
    (contested,) = [sign for sign in signs(table, "r") if sign.name == "contested"]
    table.close()
    assert "contests 100% of the last 32" in contested.says
