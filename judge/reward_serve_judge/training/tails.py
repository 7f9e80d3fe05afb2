"""Answers followed, or preceded and followed, by much other text."""

from __future__ import annotations

from reward_serve_judge.training.answers.base import Answer
from reward_serve_judge.training.answers.numbers import Number
from reward_serve_judge.training.committed import because, small_talk
from reward_serve_judge.training.drafts import Draft, Ending
from reward_serve_judge.training.texts import KINDS, TEXTS

_MARKED = ("box", "box", "hash", "label", "markdown")
_LENGTHS = (150, 400, 400, 800, 800, 1_500, 3_000)


def long_tail(draft: Draft[Answer]) -> Ending:
    """A marked answer, then its verification in many sentences."""
    text = draft.joined(draft.body(2), draft.closing(draft.rng.choice(_MARKED)))
    return draft.joined(text, _sentences(draft, draft.rng.choice(_LENGTHS))), draft.stated


def middle(draft: Draft[Answer]) -> Ending:
    """A marked answer between two stretches of text."""
    rng = draft.rng
    before, after = (_sentences(draft, rng.choice(_LENGTHS[:5])) for _ in range(2))
    return draft.joined(before, draft.closing(rng.choice(_MARKED)), after), draft.stated


def run_on(draft: Draft[Answer], wordings: str = "run_ons") -> Ending:
    """An answer, then another question and its answer, as if the turn had not ended."""
    rng = draft.rng
    form = rng.choice(KINDS[wordings])
    other = draft.gold if rng.random() < 0.6 else draft.other()
    next_turn = draft.filled(form, q=draft.elsewhere.question, w=other.plain(rng))
    return draft.joined(draft.body(2), draft.closing()) + next_turn, draft.stated


def _sentences(draft: Draft[Answer], characters: int) -> str:
    """About ``characters`` characters of text that does not change the answer."""
    rng, texts = draft.rng, [""]
    while sum(map(len, texts)) < characters:
        chance = rng.random()
        if chance < 0.5:
            texts.append(draft.filled(rng.choice(KINDS["verifications"])))
        elif chance < 0.7:
            texts.append(because(draft))
        elif chance < 0.85 and isinstance(draft.stated, Number):
            texts.append(draft.filled(rng.choice(TEXTS["explanations"])))
        else:
            texts.append(small_talk(draft))
    return rng.choice((" ", " ", "\n", "\n\n")).join(texts[1:])
