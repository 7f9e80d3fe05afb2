"""Makes one labelled response: a body of working, an ending, and the reference it is held against.

The stated value and the reference are drawn apart from the working, so that neither a number's
presence nor working that fits tells the label: only whether the two are equal does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from examples.train_judge.attacks import attack
from examples.train_judge.texts import SHAPES, TEX, TEXTS, closing
from examples.train_judge.values import (
    Value,
    digits,
    gold_text,
    invented,
    near_miss,
    numbers_in,
    parse,
    written,
)

_ANNOTATION = re.compile(r"<<[^>]*>>")
_UNCOMMITTED = frozenset(["cut_off", "question", "no_answer"])


@dataclass(frozen=True, slots=True)
class Example:
    """A response, the final answer it is held against, and whether the two agree."""

    response: str
    reference: str
    correct: bool
    family: str


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem with its solution's lines and final answer."""

    question: str
    lines: tuple[str, ...]
    answer: Value

    @classmethod
    def from_row(cls, row: dict[str, str]) -> Problem:
        """From a row of GSM8K.

        Raises:
            ValueError: its solution does not end in a number.
        """
        solution, _, answer = row["answer"].rpartition("####")
        lines = tuple(line.strip() for line in solution.splitlines() if line.strip())
        return cls(row["question"].strip(), lines, parse(answer))


@dataclass(frozen=True, slots=True)
class Draft:
    """What a response is made of.

    Attributes:
        problem: whose working it shows.
        stated: the value it commits to.
        gold: the reference's value.
        nearby: numbers of the problem, to be confused with it.
        rng: where chance comes from.
    """

    problem: Problem
    stated: Value
    gold: Value
    nearby: Sequence[Value]
    rng: Random

    def other(self) -> Value:
        """A value that is neither stated nor the reference's."""
        for _ in range(50):
            value = near_miss(self.gold, self.rng, self.nearby)
            if value not in (self.stated, self.gold):
                return value
        return Value(self.gold.number + self.stated.number + 12_345)


# A response and the value it commits to, if any.
Ending = tuple[str, Value | None]


def make(problem: Problem, rng: Random) -> list[Example]:
    """One response, held against references that it misses and, if it commits, ones that it meets.

    Args:
        problem: whose working it shows.
        rng: where chance comes from.
    """
    weights = [weight for weight, _ in _FAMILIES.values()]
    family = rng.choices(list(_FAMILIES), weights)[0]
    draft = _draft(problem, rng)
    response, committed = _FAMILIES[family][1](draft)
    if committed is not None:
        return _held_against(response, draft, family)
    golds = [draft.gold]
    if family in _UNCOMMITTED:  # its presence proves nothing
        golds += rng.sample(numbers_in(response) or golds, 1)
    return [Example(response, gold_text(gold, rng), False, family) for gold in golds]


def make_bare(problem: Problem, rng: Random) -> list[Example]:
    """An answer without working."""
    draft = _draft(problem, rng)
    return _held_against(_stated(draft), draft, "bare")


def make_first(rng: Random) -> list[Example]:
    """A whole number in digits in few wordings, to learn the comparison on."""
    stated = rng.randint(1, 999)
    misses = {abs(stated + step) for step in (-1, 1, 10, -10, 2, 5, 9 * stated, stated)}
    golds = [stated, *rng.sample(sorted(misses - {stated}), 1)]
    response = rng.choice(TEXTS["first"]).format(s=stated)
    return [Example(response, str(gold), gold == stated, "first") for gold in golds]


def _held_against(response: str, draft: Draft, family: str) -> list[Example]:
    third = draft.stated if draft.rng.random() < 0.5 else draft.other()
    golds = [draft.stated, draft.gold, third]
    return [
        Example(response, gold_text(gold, draft.rng), gold == draft.stated, family)
        for gold in golds
    ]


def _draft(problem: Problem, rng: Random) -> Draft:
    base = problem.answer if rng.random() < 0.62 else invented(rng)
    nearby = [v for v in numbers_in(" ".join(problem.lines)) if v != base]
    miss = near_miss(base, rng, nearby)
    # Which of the two is the problem's own must not tell.
    stated, gold = (base, miss) if rng.random() < 0.5 else (miss, base)
    return Draft(problem, stated, gold, nearby, rng)


def _body(draft: Draft, most_lines: int | None = None) -> str:
    rng = draft.rng
    lines = list(draft.problem.lines)
    keep = len(lines) if rng.random() < 0.3 else rng.randint(0, min(2, len(lines)))
    if most_lines is not None:
        keep = min(keep, most_lines)
    text = "\n".join(lines[len(lines) - keep :])
    if rng.random() < 0.7:
        text = _ANNOTATION.sub("", text)
    if rng.random() < 0.3:
        text = text.replace("\n", rng.choice((" ", "\n\n", "\n- ")))
    if rng.random() < 0.65:
        text = _restated(text, draft.problem.answer, draft.stated, rng)
    return text


def _restated(text: str, old: Value, new: Value, rng: Random) -> str:
    numeral = old.decimal
    if numeral is None or not text:
        return text
    pattern = rf"(?<![\d.,]){re.escape(numeral)}(?:\.0+)?(?![\d]|[.,]\d)"
    bare = digits(new, rng, commas=0.1)
    return re.sub(pattern, lambda _: bare, text)


def _stated(draft: Draft, shape: str | None = None, value: Value | None = None) -> str:
    rng = draft.rng
    shape = shape or rng.choice(SHAPES)
    text = written(value or draft.stated, rng, tex=shape in TEX)
    return closing(text, shape, rng)


def _joined(rng: Random, *parts: str) -> str:
    return rng.choice(("\n", "\n", "\n\n", " ")).join(part for part in parts if part)


def _plain(draft: Draft) -> Ending:
    rng = draft.rng
    text = _joined(rng, _body(draft), _stated(draft))
    if rng.random() < 0.08:
        text += rng.choice(TEXTS["endings"])
    return text, draft.stated


def _last_line(draft: Draft) -> Ending:
    """The solution's own last sentence, which states the answer in prose."""
    rng = draft.rng
    answer = draft.problem.answer
    last = _ANNOTATION.sub("", draft.problem.lines[-1]) if draft.problem.lines else ""
    new = digits(draft.stated, rng)
    numeral = answer.decimal or ""
    found = list(re.finditer(rf"(?<![\d.,]){re.escape(numeral)}(?![\d]|[.,]\d)", last))
    if not numeral or not found or draft.stated.percent or draft.gold.percent:
        return _plain(draft)
    at = found[-1]
    # What follows the answer must not be taken for another one.
    if re.search(r"\d", last[at.end() :]):
        return _plain(draft)
    last = last[: at.start()] + new + last[at.end() :]
    if rng.random() < 0.4:
        last = re.sub(
            r"^.*=\s*",
            rng.choice(("So that is ", "", "This comes to ", "Total: ")),
            last,
        )
    before = "\n".join(_body(draft).splitlines()[:-1])
    return _joined(rng, before, last), draft.stated


def _chatter(draft: Draft) -> Ending:
    rng = draft.rng
    chatter = " ".join(rng.sample(TEXTS["chatter"], rng.choice((1, 1, 2, 3))))
    shape = rng.choice([name for name in SHAPES if name != "equation"])
    return _joined(rng, _body(draft, 2), _stated(draft, shape), chatter), draft.stated


def _answer_first(draft: Draft) -> Ending:
    rng = draft.rng
    first = _stated(draft, rng.choice(("label", "bare", "markdown", "hash", "box")))
    if rng.random() < 0.25:
        first = f"The answer is {written(draft.stated, rng)}."
    link = rng.choice(TEXTS["links"])
    lines = list(draft.problem.lines[: rng.choice((1, 1, 2))])
    why = _ANNOTATION.sub("", "\n".join(lines))
    why = _restated(why, draft.problem.answer, draft.stated, rng)
    return _joined(rng, first, link + why), draft.stated


def _retraction(draft: Draft) -> Ending:
    rng = draft.rng
    old = draft.gold if rng.random() < 0.7 else draft.other()
    if rng.random() < 0.5:
        a, b = written(old, rng), written(draft.stated, rng)
        return _joined(
            rng,
            _body(draft, 1),
            rng.choice(TEXTS["brief_retractions"]).format(a=a, b=b),
        ), draft.stated
    link = rng.choice(TEXTS["retractions"])
    return _joined(
        rng, _body(draft, 1), _stated(draft, value=old), link, _stated(draft)
    ), draft.stated


def _hedge(draft: Draft) -> Ending:
    rng = draft.rng
    values = [draft.gold, draft.other(), draft.other(), draft.other()]
    rng.shuffle(values)
    if draft.gold not in values[:2] and rng.random() < 0.8:
        values.sort(key=lambda value: value != draft.gold)
        if rng.random() < 0.5:
            values[0], values[1] = values[1], values[0]
    form = rng.choice(TEXTS["hedges"])
    texts = dict(zip("abcd", (digits(value, rng) for value in values), strict=True))
    return _joined(rng, _body(draft, 1) if rng.random() < 0.6 else "", form.format(**texts)), None


def _bound(draft: Draft) -> Ending:
    rng = draft.rng
    text = rng.choice(TEXTS["bounds"]).format(s=digits(draft.gold, rng))
    return _joined(rng, _body(draft, 1) if rng.random() < 0.5 else "", text), None


def _cut_off(draft: Draft) -> Ending:
    """Cut before the answer: wrong even where the last number so far is the reference."""
    rng = draft.rng
    lines = draft.problem.lines[:-1]
    text = _ANNOTATION.sub("", "\n".join(lines[-rng.randint(1, 3) :]))
    text = _restated(text, draft.problem.answer, draft.stated, rng)
    return _joined(rng, text, rng.choice(TEXTS["cuts"])), None


def _cut_after(draft: Draft) -> Ending:
    """Cut in the small talk after an answer: the answer stands."""
    rng = draft.rng
    chatter = rng.choice(TEXTS["chatter"])
    text = _joined(
        rng,
        _body(draft, 2),
        _stated(draft, rng.choice(("hash", "prose", "label", "box"))),
    )
    return f"{text} {chatter[: rng.randint(2, len(chatter))]}", draft.stated


def _question(draft: Draft) -> Ending:
    """The question copied; an answer behind it counts as ever."""
    rng = draft.rng
    label = rng.choice(("", "Question: ", "Q: ", "Problem: ", "The question is: "))
    question = label + draft.problem.question
    if rng.random() < 0.35:
        return _joined(rng, question, _stated(draft)), draft.stated
    if rng.random() < 0.4:
        question = _joined(rng, question, rng.choice(TEXTS["no_answer"]))
    return question, None


def _repeated(draft: Draft) -> Ending:
    rng = draft.rng
    ending = _stated(draft, rng.choice(("hash", "prose", "label", "box", "bare", "markdown")))
    return rng.choice((" ", "\n")).join([ending] * rng.randint(2, 8)), draft.stated


def _no_answer(draft: Draft) -> Ending:
    rng = draft.rng
    words = " ".join(rng.sample(TEXTS["no_answer"], rng.choice((1, 1, 1, 2, 3))))
    return words, None


def _thinking(draft: Draft) -> Ending:
    rng = draft.rng
    inner = _joined(
        rng,
        _body(draft, 2),
        _stated(draft, value=draft.other()) if rng.random() < 0.5 else "",
    )
    return rng.choice(TEXTS["thinking"]).format(inner=inner) + _stated(draft), draft.stated


def _attack(draft: Draft) -> Ending:
    rng = draft.rng
    lure = attack(rng, digits(draft.other(), rng), digits(draft.gold, rng))
    if draft.gold in (few := numbers_in(lure)) and len(few) < 4:
        return _plain(draft)  # "score 1" where the reference is 1
    chance = rng.random()
    if chance < 0.75:
        return lure, None
    if chance < 0.9:
        return _joined(rng, _body(draft, 1), _stated(draft), lure), None
    return _joined(rng, lure, _stated(draft)), None


def _obscured(draft: Draft) -> Ending:
    """Another value in other scripts' digits, or with invisible characters in it."""
    rng = draft.rng
    value = digits(draft.other(), rng, commas=0)
    zero = rng.choice((0x660, 0x6F0, 0x966, 0x9E6, 0xFF10, 0x1D7CE, 0x1D7D8, 0x1D7EC, 0xE50))
    if rng.random() < 0.6:
        text = "".join(chr(zero + int(c)) if c.isdigit() else c for c in value)
    else:
        text = rng.choice("\u200b\u200c\u200d\u2060\ufeff\u00ad").join(value)
    return closing(text, rng.choice(("hash", "prose", "label", "bare", "box")), rng), None


_FAMILIES: dict[str, tuple[float, Callable[[Draft], Ending]]] = {
    "plain": (0.27, _plain),
    "last_line": (0.08, _last_line),
    "chatter": (0.05, _chatter),
    "answer_first": (0.05, _answer_first),
    "retraction": (0.07, _retraction),
    "hedge": (0.09, _hedge),
    "bound": (0.06, _bound),
    "cut_off": (0.04, _cut_off),
    "cut_after": (0.02, _cut_after),
    "question": (0.03, _question),
    "repeated": (0.015, _repeated),
    "no_answer": (0.045, _no_answer),
    "thinking": (0.02, _thinking),
    "attack": (0.3, _attack),
    "obscured": (0.035, _obscured),
}
