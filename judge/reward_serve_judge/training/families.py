"""The families of generated responses, including typical mistakes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from reward_serve_judge.training.answers.base import Answer
from reward_serve_judge.training.answers.numbers import Number
from reward_serve_judge.training.committed import (
    answer_first,
    calculation,
    chatter,
    converted,
    cut_after,
    double,
    expression,
    last_line,
    listed,
    long_tail,
    middle,
    plain,
    question,
    repeated,
    restated,
    retraction,
    run_on,
    thinking,
)
from reward_serve_judge.training.drafts import Draft, Ending
from reward_serve_judge.training.uncommitted import (
    attacked,
    bound,
    cut_off,
    hedge,
    no_answer,
    obscured,
    taken_back,
    unfinished,
)

GENERAL: Mapping[str, tuple[float, Callable[[Draft[Answer]], Ending]]] = {
    "plain": (0.14, plain),
    "chatter": (0.10, chatter),
    "answer_first": (0.09, answer_first),
    "retraction": (0.10, retraction),
    "taken_back": (0.11, taken_back),
    "double": (0.12, double),
    "restated": (0.09, restated),
    "long_tail": (0.08, long_tail),
    "middle": (0.07, middle),
    "run_on": (0.04, run_on),
    "hedge": (0.05, hedge),
    "cut_off": (0.04, cut_off),
    "cut_after": (0.02, cut_after),
    "question": (0.03, question),
    "repeated": (0.02, repeated),
    "no_answer": (0.03, no_answer),
    "thinking": (0.04, thinking),
    "unfinished": (0.02, unfinished),
    "attack": (0.08, attacked),
}
"""Families for answers of any kind, with their weights."""
NUMERIC: Mapping[str, tuple[float, Callable[[Draft[Number]], Ending]]] = {
    **GENERAL,
    "last_line": (0.12, last_line),
    "converted": (0.04, converted),
    "calculation": (0.025, calculation),
    "listed": (0.025, listed),
    "expression": (0.06, expression),
    "bound": (0.06, bound),
    "obscured": (0.02, obscured),
}
"""Families for numbers, with their weights."""
UNCOMMITTED = frozenset(["cut_off", "question", "no_answer", "unfinished"])
"""Families whose text may mention a value without committing to it."""
