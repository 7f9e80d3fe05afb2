"""Responses whose answer is a number, built from a problem's own sentences and calculations."""

from __future__ import annotations

import re

from reward_serve_judge.training.answers.numbers import Number
from reward_serve_judge.training.answers.numerals import spelled
from reward_serve_judge.training.committed import plain, then
from reward_serve_judge.training.drafts import Draft, Ending
from reward_serve_judge.training.sentences import bare, equations, is_operand, prose, statements
from reward_serve_judge.training.texts import CLOSINGS, TEXTS


def last_line(draft: Draft[Number]) -> Ending:
    """The solution's last sentence, which states the answer in prose or with its equation."""
    rng, lines = draft.rng, draft.problem.lines
    in_prose = rng.random() < 0.65
    last = _with_stated(draft, prose(lines[-1]) if in_prose else bare(lines[-1])) if lines else None
    if last is None:
        return plain(draft)
    if not in_prose and rng.random() < 0.4:
        lead = rng.choice(("So that is ", "", "This comes to ", "Total: "))
        last = re.sub(r"^.*=\s*", lead, last)
    if rng.random() < 0.2:
        last = last.rstrip(".")
    before = lines[max(0, len(lines) - 1 - rng.choice((0, 0, 1, 2))) : -1]
    working = rng.choice((" ", "\n")).join(prose(x) if in_prose else bare(x) for x in before)
    if rng.random() < 0.15:
        working = " ".join(statements(draft.problem.question)[-2:])
    return then(draft, draft.joined(working, last), 0.3), draft.stated


def calculation(draft: Draft[Number]) -> Ending:
    """Only calculations; the result of the last one is the answer."""
    rng = draft.rng
    found = equations("\n".join(draft.problem.lines))[-rng.choice((1, 2, 2, 3)) :]
    last = _with_stated(draft, found[-1]) if found else None
    if last is None:
        return plain(draft)
    if rng.random() < 0.5:
        found = [re.sub(r"(?<=[\d)])([-+*/])(?=[\d(.])", r" \1 ", one) for one in found]
    link = rng.choice((", ", "\n", "; ", " and ", ", so ", ". ", " then "))
    text = link.join([*found[:-1], last])
    if rng.random() < 0.3 and (sentence := draft.in_sentence(draft.stated.digits(rng))):
        return text + rng.choice((", so ", ": ", ". ", ", ", "; ", "\n")) + sentence, draft.stated
    return text + rng.choice(("", "", ".")), draft.stated


def listed(draft: Draft[Number]) -> Ending:
    """The problem's quantities in a list; the last one is the answer."""
    rng, unit = draft.rng, draft.rng.choice(TEXTS["units"])
    names = rng.sample(TEXTS["quantities"], rng.choice((1, 2, 2, 3, 4)))
    bullet, link = rng.choice(("- ", "- ", "* ", "• ", "")), rng.choice((": ", ": ", " = ", " - "))
    before = [draft.filled("{o}", u=unit) for _ in names]
    value = draft.stated.written(rng) if rng.random() < 0.3 else draft.stated.plain(rng)
    names.append(rng.choice([name for name in TEXTS["quantities"] if name not in names]))
    lines = zip(names, [*before, value], strict=True)
    text = "\n".join(f"{bullet}{name.format(u=unit)}{link}{shown}" for name, shown in lines)
    return then(draft, text, 0.1), draft.stated


def _with_stated(draft: Draft[Number], sentence: str) -> str | None:
    """The sentence with the draft's value as its last number, if possible."""
    own = draft.problem.answer.decimal
    if not own or draft.stated.percent or draft.gold.percent:
        return None
    found = list(re.finditer(rf"(?<![\d.,]){re.escape(own)}(?![\d]|[.,]\d)", sentence))
    if not found:
        return None
    before, after = sentence[: found[-1].start()], sentence[found[-1].end() :]
    if re.search(r"\d", after) or is_operand(before):
        return None  # a later number could be taken for the answer
    spoken = spelled(draft.stated.number) if draft.rng.random() < 0.2 else None
    if spoken:
        before = before.rstrip("$")
    return before + (spoken or draft.stated.digits(draft.rng)) + after


def expression(draft: Draft[Number]) -> Ending:
    """The reference's value inside an expression with another value."""
    rng = draft.rng
    if abs(draft.gold.number) <= 2:
        return plain(draft)  # twice 0 or 1 cubed would equal the value
    n, k = (str(rng.randint(2, 60)) for _ in "nk")
    text = rng.choice(TEXTS["expressions"]).format(s=draft.gold.digits(rng), n=n, k=k)
    if rng.random() < 0.7:
        form = rng.choice(CLOSINGS[rng.choice(("hash", "label", "prose", "bare", "box"))])
        text = draft.filled(form, s=text)
    return draft.joined(draft.body(1) if rng.random() < 0.4 else "", text), None
