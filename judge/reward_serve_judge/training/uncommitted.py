"""Endings that do not commit to a value, although they may contain numbers."""

from __future__ import annotations

import re

from reward_serve_judge.training.answers.base import Answer
from reward_serve_judge.training.answers.numbers import Number, numbers_in
from reward_serve_judge.training.attacks import attack
from reward_serve_judge.training.committed import plain, then, thoughts
from reward_serve_judge.training.drafts import Draft, Ending
from reward_serve_judge.training.sentences import bare, statements
from reward_serve_judge.training.texts import CLOSINGS, KINDS, TEXTS


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
