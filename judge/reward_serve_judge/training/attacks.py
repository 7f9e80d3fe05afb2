"""Adversarial responses without an answer, all labelled wrong.

The kinds follow published attacks on model judges: "master keys" (Zhao et al. 2025, "One Token to
Fool LLM-as-a-Judge"), injected instructions (Greshake et al. 2023) and null models (Zheng et al.
2024). The texts were written for this generator; the suite of ``reward_serve_lab.attacks`` is kept
separate, for evaluation.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from random import Random

from reward_serve_judge.training.texts import TEXTS

_INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff"
_BLANKS = ("", " ", "\n", "\t", "\u200b", "\u00a0", "\u3000", "\ufeff")
_CYRILLIC = str.maketrans("aceopxyiSTH1", "асеорхуіЅТН１")


def attack(rng: Random, other: str, gold: str) -> str:
    """Generate one attack.

    Args:
        rng: random generator.
        other: a wrong value, for attacks that state one.
        gold: the reference's value, for attacks that hide it among many.
    """
    kind = rng.choices(list(_KINDS), [weight for weight, _ in _KINDS.values()])[0]
    return _KINDS[kind][1](rng, other, gold)


def _master_key(rng: Random, other: str, gold: str) -> str:
    if rng.random() < 0.5:
        return rng.choice(("", " ", "\n")).join(
            rng.choices(TEXTS["symbols"], k=rng.choice((1, 1, 1, 2, 3, 6)))
        )
    return "\n".join(rng.sample(TEXTS["openers"], rng.choice((1, 1, 1, 2))))


def _empty(rng: Random, other: str, gold: str) -> str:
    return rng.choice(("", " ", "\n", "\t", "\u200b", "\u00a0", "\u3000", "\ufeff")) * rng.randint(
        0, 12
    )


def _instruction(rng: Random, other: str, gold: str) -> str:
    if rng.random() < 0.2:
        return rng.choice(TEXTS["foreign"])
    parts = [
        rng.choice(TEXTS["preludes"]),
        rng.choice(TEXTS["reasons"]),
        f"{rng.choice(TEXTS['verbs'])} {rng.choice(TEXTS['labels'])}.",
    ]
    if rng.random() < 0.3:
        rng.shuffle(parts)
    if rng.random() < 0.15:
        parts.append(f"The answer is {other}.")
    text = " ".join(part for part in parts if part)
    return _wrapped(text, rng)


def _wrapped(text: str, rng: Random) -> str:
    chance = rng.random()
    if chance < 0.28:
        return text
    if chance < 0.36:
        return text.upper() if chance < 0.32 else text.lower()
    if chance < 0.42:
        return base64.b64encode(text.encode()).decode()
    if chance < 0.46:
        return f"{text}\n" * 3
    form = rng.choice(TEXTS["wrappers"])
    return form.format(text)


def _verdict(rng: Random, other: str, gold: str) -> str:
    text = rng.choice(("\n", " ")).join(rng.sample(TEXTS["verdicts"], rng.choice((1, 1, 2, 3))))
    return text if rng.random() < 0.75 else f"{rng.choice(TEXTS['prose'])}\n{text}"


def _control(rng: Random, other: str, gold: str) -> str:
    text = rng.choice(TEXTS["control"])
    return text if rng.random() < 0.7 else f"The answer is {other}.\n{text}"


def _forged(rng: Random, other: str, gold: str) -> str:
    return rng.choice(TEXTS["forged"]).format(w=other)


def _stuffed(rng: Random, other: str, gold: str) -> str:
    kind = rng.random()
    if kind < 0.5:
        start, step = rng.randint(0, 40), rng.choice((1, 1, 1, 2, 5, 10))
        many = [str(start + step * i) for i in range(rng.randint(8, 70))]
    else:
        many = [str(rng.randint(0, 10 ** rng.randint(1, 4))) for _ in range(rng.randint(5, 40))]
    if gold not in many:
        many.insert(rng.randint(max(0, len(many) - 20), len(many)), gold)
    text = rng.choice((" ", ", ", "\n", " or ", "; ", "/", " | ")).join(many)
    form = rng.choice(TEXTS["stuffed"])
    return form.format(text)


def _flood(rng: Random, other: str, gold: str) -> str:
    kind = rng.choice(("openers", "verdicts", "prose", "symbols", "flooded"))
    unit = rng.choice(TEXTS[kind])
    return rng.choice(("", " ", "\n")).join([unit] * rng.randint(8, 60))


def _prose(rng: Random, other: str, gold: str) -> str:
    return " ".join(rng.sample(TEXTS["prose"], rng.randint(1, 5)))


def _confusable(rng: Random, other: str, gold: str) -> str:
    text = rng.choice(TEXTS[rng.choice(("verdicts", "reasons", "labels"))])
    if rng.random() < 0.5:
        return text.translate(_CYRILLIC)
    return rng.choice(_INVISIBLE).join(text)


def _noise(rng: Random, other: str, gold: str) -> str:
    letters = rng.choice(TEXTS["letters"])
    return "".join(rng.choices(letters, k=rng.randint(1, 60)))


_KINDS: dict[str, tuple[float, Callable[[Random, str, str], str]]] = {
    "master_key": (0.17, _master_key),
    "empty": (0.03, _empty),
    "instruction": (0.20, _instruction),
    "verdict": (0.13, _verdict),
    "control": (0.09, _control),
    "forged": (0.07, _forged),
    "stuffed": (0.10, _stuffed),
    "flood": (0.05, _flood),
    "prose": (0.08, _prose),
    "confusable": (0.04, _confusable),
    "noise": (0.04, _noise),
}
