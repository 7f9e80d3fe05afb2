"""Responses that commit to an answer of any kind."""

from __future__ import annotations

import re

from reward_serve_judge.training.answers.base import Answer
from reward_serve_judge.training.answers.numbers import Number
from reward_serve_judge.training.drafts import SHORT_SHAPES, Draft, Ending
from reward_serve_judge.training.sentences import bare, prose, statements
from reward_serve_judge.training.sums import sum_of
from reward_serve_judge.training.texts import KINDS, TEXTS

_BRIEF = [form for form in TEXTS["brief_retractions"] if not re.search(r"\{[mnku]\}", form)]


def plain(draft: Draft[Answer]) -> Ending:
    """Working, if any, and an answer."""
    rng = draft.rng
    text = draft.joined(draft.body(), draft.closing())
    if rng.random() < 0.08:
        text += rng.choice(TEXTS["endings"])
    return text, draft.stated


def chatter(draft: Draft[Answer]) -> Ending:
    """An answer, then talk."""
    rng = draft.rng
    if rng.random() < 0.07:
        talk = draft.filled(rng.choice(TEXTS["foreign_chatter"]))
        return draft.joined(draft.body(1), draft.closing("language"), talk), draft.stated
    shape = rng.choice((None, *SHORT_SHAPES))
    ending = draft.closing(shape)
    if rng.random() < 0.25:
        ending += rng.choice((" ✅", " 🎉", "\n---", "\n\n", " (final)"))
    return draft.joined(draft.body(2), ending, small_talk(draft)), draft.stated


def small_talk(draft: Draft[Answer]) -> str:
    """Sentences that do not change an answer."""
    rng, problem = draft.rng, draft.problem
    chance = rng.random()
    if not isinstance(draft.stated, Number) and chance < 0.4:
        return because(draft)
    if chance < 0.15 and (others := statements(draft.elsewhere.question)):
        return rng.choice(TEXTS["asides"]) + " ".join(others[: rng.choice((1, 1, 2))])
    if chance < 0.35:  # about the problem
        facts = [*statements(problem.question), *map(prose, problem.lines[:-1])]
        if facts:
            sentences = rng.sample(facts, min(len(facts), rng.choice((1, 1, 2))))
            lead = rng.choice(("", "", "Note that ", "Remember: ", "As given, ", "We used that "))
            return lead + " ".join(sentences)
    texts = rng.sample(TEXTS["chatter"], rng.choice((1, 1, 1, 2, 2, 3)))
    return rng.choice((" ", " ", "\n")).join(draft.filled(text) for text in texts)


def answer_first(draft: Draft[Answer]) -> Ending:
    """An answer, then its reasons."""
    rng = draft.rng
    chance = rng.random()
    if chance < 0.15:
        return f"{draft.stated.written(rng)}, because {because(draft)}", draft.stated
    if chance < 0.4 and isinstance(draft.stated, Number):
        form = rng.choice(TEXTS["answers_first"])
        first = draft.filled(form, s=draft.stated.written(rng))
        return draft.joined(first, because(draft)), draft.stated
    if chance < 0.52:
        first = draft.closing(rng.choice(("prose", "sentence", "bare"))).rstrip(".")
        why = re.sub(r"^(?:So|Thus|Therefore|Then|Hence)\b,? *", "", because(draft))
        return first + rng.choice(TEXTS["since"]) + why, draft.stated
    first = draft.closing(rng.choice(SHORT_SHAPES))
    if chance > 0.84 and isinstance(draft.stated, Number):
        return _beside(draft, first, draft.stated), draft.stated
    if chance < 0.64:
        first = f"The answer is {draft.stated.written(rng)}."
    return draft.joined(first, rng.choice(TEXTS["links"]) + because(draft)), draft.stated


def _beside(draft: Draft[Answer], first: str, stated: Number) -> str:
    """The answer beside a calculation with the same result."""
    rng, calculation = draft.rng, sum_of(stated, draft.rng)
    if not calculation:
        return draft.joined(first, rng.choice(TEXTS["links"]) + because(draft))
    if rng.random() < 0.6:
        first = draft.closing(rng.choice(("prose", "sentence", "bare")))
    form = rng.choice(TEXTS["asides_of_sums"])
    return first.rstrip(". ") + draft.filled(form, e=calculation, s=stated.digits(rng))


def because(draft: Draft[Answer]) -> str:
    """The working, with or without its result."""
    rng, lines = draft.rng, list(draft.problem.lines)
    chance = rng.random()
    if not isinstance(draft.stated, Number):
        reasons = rng.sample(KINDS["because"], rng.choice((1, 1, 2, 3)))
        return " ".join(map(draft.filled, reasons))
    if chance < 0.35:
        sentences = rng.sample(TEXTS["explanations"], rng.choice((1, 1, 1, 2)))
        return rng.choice((" ", "\n")).join(map(draft.filled, sentences))
    if chance < 0.45:
        return draft.filled(rng.choice(TEXTS["chatter"]))
    start = rng.randrange(max(1, len(lines) - 1))
    plain = prose if rng.random() < 0.4 else bare
    why = draft.restated(plain("\n".join(lines[start : start + rng.choice((1, 1, 2))])))
    return rng.choice((why, why.replace("\n", " "), "\n".join(f"- {w}" for w in why.split("\n"))))


def retraction(draft: Draft[Answer]) -> Ending:
    """An answer that replaces another."""
    rng = draft.rng
    old = draft.gold if rng.random() < 0.7 else draft.other()
    kind = rng.random()
    if kind < 0.5:
        texts = TEXTS["corrections" if kind < 0.32 else "brief_retractions"]
        if kind < 0.08 or not isinstance(draft.stated, Number):
            texts = rng.choice((_BRIEF, KINDS["retractions_foreign"]))
        a, b = old.written(rng), draft.stated.written(rng)
        text = draft.joined(draft.body(1), draft.filled(rng.choice(texts), a=a, b=b))
        if rng.random() < 0.15:
            text += rng.choice((" This is because ", " The reason: ", " ")) + because(draft)
    elif kind < 0.75:
        new = rng.choice(TEXTS["replacements"]).format(b=draft.stated.written(rng))
        parts = draft.closing(value=old), draft.filled(rng.choice(TEXTS["rejections"])), new
        text = draft.joined(draft.body(1), rng.choice((" ", " ", "\n")).join(parts))
    else:
        link = draft.filled(rng.choice(TEXTS["retractions"]))
        text = draft.joined(draft.body(1), draft.closing(value=old), link, draft.closing())
    return then(draft, text, 0.15), draft.stated


def then(draft: Draft[Answer], text: str, share: float) -> str:
    """The text, sometimes followed by talk."""
    return draft.joined(text, small_talk(draft)) if draft.rng.random() < share else text


def cut_after(draft: Draft[Answer]) -> Ending:
    """Truncated after the answer, which still counts."""
    rng = draft.rng
    chatter = draft.filled(rng.choice(TEXTS["chatter"]))
    if rng.random() < 0.3:
        chatter = rng.choice(TEXTS["links"]) + because(draft)
    shape = rng.choice(("sentence", "prose", *SHORT_SHAPES))
    text = draft.joined(draft.body(2), draft.closing(shape))
    return f"{text} {chatter[: rng.randint(2, len(chatter))]}", draft.stated


def question(draft: Draft[Answer]) -> Ending:
    """The question copied in full or in part, sometimes followed by an answer, which counts."""
    rng = draft.rng
    label = rng.choice(("", "", "Question: ", "Q: ", "Problem: ", "The question is: "))
    question = draft.problem.question
    if rng.random() < 0.4:
        facts = statements(question)
        if len(facts) > 1:  # a single one may be an answer
            question = " ".join(facts[-rng.randint(2, len(facts)) :])
    if rng.random() < 0.3:
        return draft.joined(label + question, draft.closing()), draft.stated
    if rng.random() < 0.2:
        question = question[: rng.randint(len(question) // 3, len(question))]
    elif rng.random() < 0.4:
        plan = draft.filled(rng.choice(TEXTS["no_answer"]))
        question = draft.joined(*rng.sample((question, plan), 2))
    return label + question, None


def repeated(draft: Draft[Answer]) -> Ending:
    """The answer, several times."""
    rng = draft.rng
    ending = draft.closing(rng.choice(SHORT_SHAPES))
    times = rng.randint(2, 8)
    if (shown := ending.strip()).isdigit():
        links = ("\n", " ", ", ") if len(shown) != 3 else ("\n", "\n\n")  # "413 413" is one number
    else:
        links = (" ", "\n", "\n\n")
    text = rng.choice(links).join([ending] * times)
    if rng.random() < 0.3 and (digit := re.search(r"\d", ending)):
        text += "\n" + ending[: digit.start()]  # truncated while repeating
    return draft.joined(draft.body(1), text), draft.stated


def thinking(draft: Draft[Answer]) -> Ending:
    """Thoughts, which do not count, then an answer."""
    text = draft.rng.choice(TEXTS["thinking"]).format(inner=thoughts(draft))
    return then(draft, text + draft.closing(), 0.15), draft.stated


def thoughts(draft: Draft[Answer]) -> str:
    """Thoughts that may reach another answer."""
    rng = draft.rng
    value = rng.choice((draft.other(), draft.stated, draft.gold, draft.gold))
    ending = draft.closing(value=value) if rng.random() < 0.6 else ""
    return draft.joined(draft.body(rng.choice((1, 2, 4))), ending)
