"""Endings that do not commit to a value, although they may contain numbers, and attacks."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from random import Random

from reward_serve_judge.training.answers.base import Answer
from reward_serve_judge.training.answers.numbers import Number, numbers_in
from reward_serve_judge.training.committed import long_text, plain, then, thoughts
from reward_serve_judge.training.drafts import Draft, Ending
from reward_serve_judge.training.sentences import bare, statements
from reward_serve_judge.training.texts import CLOSINGS, KINDS, TEXTS

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


def _echo(rng: Random, other: str, gold: str) -> str:
    parts = rng.sample(TEXTS["echoes"], rng.choice((1, 2, 2, 3, 4)))
    return rng.choice(("\n", " ", "\n\n")).join(parts)


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
    "empty": (0.03, lambda rng, *_: rng.choice(_BLANKS) * rng.randint(0, 12)),
    "instruction": (0.20, _instruction),
    "verdict": (0.13, _verdict),
    "control": (0.09, _control),
    "forged": (0.07, lambda rng, other, _: rng.choice(TEXTS["forged"]).format(w=other)),
    "stuffed": (0.10, _stuffed),
    "flood": (0.05, _flood),
    "prose": (0.08, lambda rng, *_: " ".join(rng.sample(TEXTS["prose"], rng.randint(1, 5)))),
    "echo": (0.05, _echo),
    "confusable": (0.04, _confusable),
    "noise": (0.04, _noise),
}


def taken_back(draft: Draft[Answer], negations: str = "negations") -> Ending:
    """The reference's value, denied without a replacement."""
    rng, gold = draft.rng, draft.gold.written(draft.rng)
    chance, number = rng.random(), isinstance(draft.gold, Number)
    if chance < 0.3:
        denials = TEXTS["denials"] if number else KINDS["denied"]
        text = draft.filled(rng.choice(denials), s=gold)
    elif chance < 0.45 and (sentence := draft.in_sentence(gold)):
        text = rng.choice(TEXTS["doubts"]).format(sentence)
    else:
        denial = TEXTS["rejections"] if number and chance < 0.75 else KINDS[negations]
        link = rng.choice((" ", " ", "\n", "\n\n"))
        text = draft.closing(value=draft.gold) + link + draft.filled(rng.choice(denial))
        text = then(draft, text, 0.1)
        if rng.random() < 0.08:
            text = draft.joined(text, long_text(draft, 400))
    return draft.joined(draft.body(1) if rng.random() < 0.4 else "", text), None


def hedge(draft: Draft[Answer]) -> Ending:
    """Several values, usually with the reference's among the first two."""
    rng = draft.rng
    values = [draft.gold, draft.other(), draft.other(), draft.other()]
    rng.shuffle(values)
    if draft.gold not in values[:2] and rng.random() < 0.8:
        values.sort(key=lambda value: value != draft.gold)
        if rng.random() < 0.5:
            values[0], values[1] = values[1], values[0]
    several = dict(zip("abcd", (value.plain(rng) for value in values), strict=True))
    sentence = None
    if rng.random() < 0.3:
        sentence = draft.in_sentence(rng.choice(TEXTS["several"]).format(**several))
    text = sentence or draft.filled(rng.choice(TEXTS["hedges"]), **several)
    return draft.joined(draft.body(1) if rng.random() < 0.6 else "", text), None


def bound(draft: Draft[Number]) -> Ending:
    """The reference's value as a limit or an estimate."""
    rng = draft.rng
    gold = draft.gold.plain(rng)
    sentence = None
    if rng.random() < 0.4:
        sentence = draft.in_sentence(rng.choice(TEXTS["limits"]).format(gold))
    text = sentence or draft.filled(rng.choice(TEXTS["bounds"]), s=gold)
    return draft.joined(draft.body(1) if rng.random() < 0.5 else "", text), None


def cut_off(draft: Draft[Answer]) -> Ending:
    """Truncated before the answer; wrong even if the last number is the reference."""
    rng, chance = draft.rng, draft.rng.random()
    if not isinstance(draft.stated, Number):
        steps = [draft.filled(text) for text in rng.sample(KINDS["workings"], 2)]
        return draft.joined(*steps, draft.filled(rng.choice(KINDS["cuts"]))), None
    if chance < 0.25:
        text = draft.filled(rng.choice(TEXTS["story"]), s=draft.gold.plain(rng))
        return draft.joined(draft.body(1) if rng.random() < 0.3 else "", text), None
    lines = draft.problem.lines[:-1]
    text = draft.restated(bare("\n".join(lines[-rng.randint(1, 3) :])))
    if chance < 0.45 and (last := draft.in_sentence("\0")):
        beginning = last.partition("\0")[0].rstrip("$ ")
        if not re.search(r"\d", beginning):  # "He pays 240 for the"
            return draft.joined(text, beginning), None
    return draft.joined(text, draft.filled(rng.choice(TEXTS["cuts"]))), None


def no_answer(draft: Draft[Answer]) -> Ending:
    """Small talk, a plan, a refusal, or abandoned working."""
    rng = draft.rng
    if rng.random() < 0.25:
        return draft.joined(draft.body(2), draft.filled(rng.choice(TEXTS["gave_up"]))), None
    texts = rng.sample(TEXTS["no_answer"], rng.choice((1, 1, 1, 2, 3)))
    return " ".join(map(draft.filled, texts)), None


def unfinished(draft: Draft[Answer]) -> Ending:
    """Truncated while thinking or before the answer; thinking does not count as an answer."""
    rng, inner = draft.rng, thoughts(draft)
    if rng.random() < 0.6:
        return rng.choice(TEXTS["unfinished_thinking"]).format(inner=inner), None
    facts = " ".join(statements(draft.problem.question)[:2])
    after = rng.choice(("", facts, draft.filled(rng.choice(TEXTS["no_answer"]))))
    return f"<think>{inner}</think>\n{after}", None


def attacked(draft: Draft[Answer]) -> Ending:
    """An attack, alone or beside a wrong answer."""
    rng = draft.rng
    lure = attack(rng, draft.other().plain(rng), draft.gold.plain(rng))
    if draft.gold in (few := numbers_in(lure)) and len(few) < 4:
        return plain(draft)  # it may state the reference: "score 1"
    chance = rng.random()
    if chance < 0.75:
        return lure, None
    if chance < 0.9:
        return draft.joined(draft.body(1), draft.closing(), lure), None
    return draft.joined(lure, draft.closing()), None


def obscured(draft: Draft[Number]) -> Ending:
    """A wrong value in another script's digits, or with invisible characters in it."""
    rng = draft.rng
    value = draft.other().plain(rng)
    zero = rng.choice((0x660, 0x6F0, 0x966, 0x9E6, 0xFF10, 0x1D7CE, 0x1D7D8, 0x1D7EC, 0xE50))
    if rng.random() < 0.6:
        text = "".join(chr(zero + int(c)) if c.isdigit() else c for c in value)
    else:
        text = rng.choice("\u200b\u200c\u200d\u2060\ufeff\u00ad").join(value)
    form = rng.choice(CLOSINGS[rng.choice(("hash", "prose", "label", "bare", "box"))])
    return draft.filled(form, s=text), None
