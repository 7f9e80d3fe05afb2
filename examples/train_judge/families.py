"""The families of generated responses, including typical mistakes."""

from __future__ import annotations

import re
from collections.abc import Callable

from examples.train_judge.attacks import attack
from examples.train_judge.drafts import SHORT_SHAPES, Draft, Ending
from examples.train_judge.sentences import bare, equations, is_operand, prose, statements
from examples.train_judge.sums import sum_of
from examples.train_judge.texts import CLOSINGS, TEXTS
from examples.train_judge.uncommitted import (
    bound,
    cut_off,
    hedge,
    no_answer,
    obscured,
    taken_back,
)
from examples.train_judge.values import digits, numbers_in, numeral, spelled, written


def _plain(draft: Draft) -> Ending:
    rng = draft.rng
    text = draft.joined(draft.body(), draft.closing())
    if rng.random() < 0.08:
        text += rng.choice(TEXTS["endings"])
    return text, draft.stated


def _last_line(draft: Draft) -> Ending:
    """The solution's last sentence, which states the answer in prose or with its equation."""
    rng, lines = draft.rng, draft.problem.lines
    in_prose = rng.random() < 0.65
    last = _with_stated(draft, prose(lines[-1]) if in_prose else bare(lines[-1])) if lines else None
    if last is None:
        return _plain(draft)
    if not in_prose and rng.random() < 0.4:
        lead = rng.choice(("So that is ", "", "This comes to ", "Total: "))
        last = re.sub(r"^.*=\s*", lead, last)
    if rng.random() < 0.2:
        last = last.rstrip(".")
    before = lines[max(0, len(lines) - 1 - rng.choice((0, 0, 1, 2))) : -1]
    working = rng.choice((" ", "\n")).join(prose(x) if in_prose else bare(x) for x in before)
    if rng.random() < 0.15:
        working = " ".join(statements(draft.problem.question)[-2:])
    return _then(draft, draft.joined(working, last), 0.3), draft.stated


def _calculation(draft: Draft) -> Ending:
    """Only calculations; the result of the last one is the answer."""
    rng = draft.rng
    found = equations("\n".join(draft.problem.lines))[-rng.choice((1, 2, 2, 3)) :]
    last = _with_stated(draft, found[-1]) if found else None
    if last is None:
        return _plain(draft)
    if rng.random() < 0.5:
        found = [re.sub(r"(?<=[\d)])([-+*/])(?=[\d(.])", r" \1 ", one) for one in found]
    link = rng.choice((", ", "\n", "; ", " and ", ", so ", ". ", " then "))
    text = link.join([*found[:-1], last])
    if rng.random() < 0.3 and (sentence := draft.in_sentence(digits(draft.stated, rng))):
        return text + rng.choice((", so ", ": ", ". ", ", ", "; ", "\n")) + sentence, draft.stated
    return text + rng.choice(("", "", ".")), draft.stated


def _with_stated(draft: Draft, sentence: str) -> str | None:
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
    spoken = spelled(draft.stated) if draft.rng.random() < 0.12 else None
    if spoken:
        before = before.rstrip("$")
    return before + (spoken or digits(draft.stated, draft.rng)) + after


def _chatter(draft: Draft) -> Ending:
    rng = draft.rng
    if rng.random() < 0.07:
        talk = draft.filled(rng.choice(TEXTS["foreign_chatter"]))
        return draft.joined(draft.body(1), draft.closing("language"), talk), draft.stated
    shape = rng.choice((None, *SHORT_SHAPES))
    ending = draft.closing(shape)
    if rng.random() < 0.25:
        ending += rng.choice((" ✅", " 🎉", "\n---", "\n\n", " (final)"))
    return draft.joined(draft.body(2), ending, _small_talk(draft)), draft.stated


def _small_talk(draft: Draft) -> str:
    rng, problem = draft.rng, draft.problem
    chance = rng.random()
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


def _answer_first(draft: Draft) -> Ending:
    rng = draft.rng
    chance = rng.random()
    if chance < 0.15:
        return f"{written(draft.stated, rng)}, because {_because(draft)}", draft.stated
    if chance < 0.4:
        form = rng.choice(TEXTS["answers_first"])
        first = draft.filled(form, s=written(draft.stated, rng))
        return draft.joined(first, _because(draft)), draft.stated
    if chance < 0.52:
        first = draft.closing(rng.choice(("prose", "sentence", "bare"))).rstrip(".")
        why = re.sub(r"^(?:So|Thus|Therefore|Then|Hence)\b,? *", "", _because(draft))
        return first + rng.choice(TEXTS["since"]) + why, draft.stated
    first = draft.closing(rng.choice(SHORT_SHAPES))
    if chance > 0.84 and (calculation := sum_of(draft.stated, rng)):
        return _beside(draft, first, calculation), draft.stated
    if chance < 0.64:
        first = f"The answer is {written(draft.stated, rng)}."
    return draft.joined(first, rng.choice(TEXTS["links"]) + _because(draft)), draft.stated


def _beside(draft: Draft, first: str, calculation: str) -> str:
    rng = draft.rng
    if rng.random() < 0.6:
        first = draft.closing(rng.choice(("prose", "sentence", "bare")))
    form = rng.choice(TEXTS["asides_of_sums"])
    return first.rstrip(". ") + draft.filled(form, e=calculation, s=digits(draft.stated, rng))


def _because(draft: Draft) -> str:
    """The working, with or without its result."""
    rng, lines = draft.rng, list(draft.problem.lines)
    chance = rng.random()
    if chance < 0.35:
        sentences = rng.sample(TEXTS["explanations"], rng.choice((1, 1, 1, 2)))
        return rng.choice((" ", "\n")).join(map(draft.filled, sentences))
    if chance < 0.45:
        return draft.filled(rng.choice(TEXTS["chatter"]))
    start = rng.randrange(max(1, len(lines) - 1))
    plain = prose if rng.random() < 0.4 else bare
    why = draft.restated(plain("\n".join(lines[start : start + rng.choice((1, 1, 2))])))
    return rng.choice((why, why.replace("\n", " "), "\n".join(f"- {w}" for w in why.split("\n"))))


def _retraction(draft: Draft) -> Ending:
    rng = draft.rng
    old = draft.gold if rng.random() < 0.7 else draft.other()
    kind = rng.random()
    if kind < 0.5:
        texts = TEXTS["corrections" if kind < 0.35 else "brief_retractions"]
        a, b = written(old, rng), written(draft.stated, rng)
        text = draft.joined(draft.body(1), draft.filled(rng.choice(texts), a=a, b=b))
        if rng.random() < 0.15:
            text += rng.choice((" This is because ", " The reason: ", " ")) + _because(draft)
    elif kind < 0.75:
        new = rng.choice(TEXTS["replacements"]).format(b=written(draft.stated, rng))
        parts = draft.closing(value=old), draft.filled(rng.choice(TEXTS["rejections"])), new
        text = draft.joined(draft.body(1), rng.choice((" ", " ", "\n")).join(parts))
    else:
        link = draft.filled(rng.choice(TEXTS["retractions"]))
        text = draft.joined(draft.body(1), draft.closing(value=old), link, draft.closing())
    return _then(draft, text, 0.15), draft.stated


def _expression(draft: Draft) -> Ending:
    """The reference's value inside an expression with another value."""
    rng = draft.rng
    if abs(draft.gold.number) <= 2:
        return _plain(draft)  # twice 0 or 1 cubed would equal the value
    n, k = (str(rng.randint(2, 60)) for _ in "nk")
    text = rng.choice(TEXTS["expressions"]).format(s=digits(draft.gold, rng), n=n, k=k)
    if rng.random() < 0.7:
        form = rng.choice(CLOSINGS[rng.choice(("hash", "label", "prose", "bare", "box"))])
        text = draft.filled(form, s=text)
    return draft.joined(draft.body(1) if rng.random() < 0.4 else "", text), None


def _then(draft: Draft, text: str, share: float) -> str:
    return draft.joined(text, _small_talk(draft)) if draft.rng.random() < share else text


def _cut_after(draft: Draft) -> Ending:
    """Truncated after the answer, which still counts."""
    rng = draft.rng
    chatter = draft.filled(rng.choice(TEXTS["chatter"]))
    if rng.random() < 0.3:
        chatter = rng.choice(TEXTS["links"]) + _because(draft)
    shape = rng.choice(("sentence", "prose", *SHORT_SHAPES))
    text = draft.joined(draft.body(2), draft.closing(shape))
    return f"{text} {chatter[: rng.randint(2, len(chatter))]}", draft.stated


def _question(draft: Draft) -> Ending:
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


def _repeated(draft: Draft) -> Ending:
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


def _thinking(draft: Draft) -> Ending:
    text = draft.rng.choice(TEXTS["thinking"]).format(inner=_thoughts(draft))
    return _then(draft, text + draft.closing(), 0.15), draft.stated


def _unfinished(draft: Draft) -> Ending:
    """Truncated while thinking or before the answer; thinking does not count as an answer."""
    rng, thoughts = draft.rng, _thoughts(draft)
    if rng.random() < 0.6:
        return rng.choice(TEXTS["unfinished_thinking"]).format(inner=thoughts), None
    facts = " ".join(statements(draft.problem.question)[:2])
    after = rng.choice(("", facts, draft.filled(rng.choice(TEXTS["no_answer"]))))
    return f"<think>{thoughts}</think>\n{after}", None


def _thoughts(draft: Draft) -> str:
    rng = draft.rng
    value = rng.choice((draft.other(), draft.stated, draft.gold, draft.gold))
    ending = draft.closing(value=value) if rng.random() < 0.6 else ""
    return draft.joined(draft.body(rng.choice((1, 2, 4))), ending)


def _attack(draft: Draft) -> Ending:
    rng = draft.rng
    lure = attack(rng, numeral(draft.other(), rng), numeral(draft.gold, rng))
    if draft.gold in (few := numbers_in(lure)) and len(few) < 4:
        return _plain(draft)  # it may state the reference: "score 1"
    chance = rng.random()
    if chance < 0.75:
        return lure, None
    if chance < 0.9:
        return draft.joined(draft.body(1), draft.closing(), lure), None
    return draft.joined(lure, draft.closing()), None


FAMILIES: dict[str, tuple[float, Callable[[Draft], Ending]]] = {
    "plain": (0.15, _plain),
    "last_line": (0.10, _last_line),
    "calculation": (0.025, _calculation),
    "chatter": (0.14, _chatter),
    "answer_first": (0.12, _answer_first),
    "retraction": (0.13, _retraction),
    "taken_back": (0.055, taken_back),
    "expression": (0.03, _expression),
    "hedge": (0.07, hedge),
    "bound": (0.07, bound),
    "cut_off": (0.055, cut_off),
    "cut_after": (0.03, _cut_after),
    "question": (0.045, _question),
    "repeated": (0.025, _repeated),
    "no_answer": (0.035, no_answer),
    "thinking": (0.05, _thinking),
    "unfinished": (0.02, _unfinished),
    "attack": (0.12, _attack),
    "obscured": (0.01, obscured),
}
