"""Responses that commit to an answer: plainly, in long texts, in notations, as a calculation."""

from __future__ import annotations

import re
from random import Random

from reward_serve_judge.training.answers.base import Answer
from reward_serve_judge.training.answers.measures import Quantity
from reward_serve_judge.training.answers.numbers import Number
from reward_serve_judge.training.answers.numerals import spelled
from reward_serve_judge.training.drafts import SHORT_SHAPES, Draft, Ending
from reward_serve_judge.training.sentences import bare, equations, is_operand, prose, statements
from reward_serve_judge.training.texts import CLOSINGS, KINDS, TEXTS

_SIGNS = {
    "+": ("+", "+", "plus", "and another"),
    "-": ("-", "-", "−", "minus", "less"),
    "*": ("*", "×", "x", "times", "\\times"),
    "/": ("/", "÷", "divided by"),
}


def sum_of(value: Number, rng: Random) -> str | None:
    """Such as "20 - 5", "20 minus 5" or "3 × 5" for 15; None unless an integer of at least 2."""
    number = value.number
    if number.denominator != 1 or not 2 <= number < 10**6 or value.percent:
        return None
    whole = int(number)
    sign = rng.choice("++--*/")
    part = rng.randint(1, max(2, whole - 1)) if rng.random() < 0.5 else rng.randint(1, 12)
    factors = [k for k in range(2, 61) if whole % k == 0 and k < whole]
    if sign == "*" and factors:
        part = rng.choice(factors)
        terms = [whole // part, part]
        rng.shuffle(terms)
    elif sign == "/":
        part = rng.randint(2, 12)
        terms = [whole * part, part]
    elif sign == "-" or part >= whole:
        sign, terms = "-", [whole + part, part]
    else:
        sign, terms = "+", [whole - part, part]
        if rng.random() < 0.3 and terms[0] > 1:
            third = rng.randint(1, terms[0] - 1)
            terms = [terms[0] - third, third, part]
    return f" {rng.choice(_SIGNS[sign])} ".join(map(str, terms))


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
    if (stripped := ending.strip()).isdigit():
        links = (
            ("\n", " ", ", ") if len(stripped) != 3 else ("\n", "\n\n")
        )  # "413 413" is one number
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


_MARKED = ("box", "box", "hash", "label", "markdown")
_LENGTHS = (150, 400, 400, 800, 800, 1_500, 3_000)


def long_tail(draft: Draft[Answer]) -> Ending:
    """A marked answer, then its verification in many sentences."""
    text = draft.joined(draft.body(2), draft.closing(draft.rng.choice(_MARKED)))
    return draft.joined(text, long_text(draft, draft.rng.choice(_LENGTHS))), draft.stated


def middle(draft: Draft[Answer]) -> Ending:
    """A marked answer between two stretches of text."""
    rng = draft.rng
    before, after = (long_text(draft, rng.choice(_LENGTHS[:5])) for _ in range(2))
    return draft.joined(before, draft.closing(rng.choice(_MARKED)), after), draft.stated


def run_on(draft: Draft[Answer], wordings: str = "run_ons") -> Ending:
    """An answer, then another question and its answer, as if the turn had not ended."""
    rng = draft.rng
    form = rng.choice(KINDS[wordings])
    other = draft.gold if rng.random() < 0.6 else draft.other()
    next_turn = draft.filled(form, q=draft.elsewhere.question, w=other.plain(rng))
    return draft.joined(draft.body(2), draft.closing()) + next_turn, draft.stated


def long_text(draft: Draft[Answer], characters: int) -> str:
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


_CONVERTED = (
    ("time", 1), ("time", 1), ("time", 2), ("length", 1), ("length", 2), ("length", 2),
    ("length", 3), ("mass", 0), ("mass", 1), ("volume", 0), ("volume", 1),
)  # fmt: skip
"""Units of which an amount is often written in two, by group and place."""
_EQUAL_NUMBERS = frozenset(
    ["{a}, {b}", "{a} / {b}", "{a} {b} {c}", "{a}; {b}", "{a}: {b}", "{a} | {b}", "{a}... {b}",
     "{a} slash {b}", "#### {a} / {b}", r"\boxed{{{a}, {b}}}", "{a} as well as {b}.",
     "{a} together with {b}.", "{a} followed by {b}.", "First: {a}. Second: {b}."]
)  # fmt: skip
"""Wordings that make one number, or a list, of two equal ones."""


def double(draft: Draft[Answer], wordings: str = "doubles") -> Ending:
    """Two different values as if they were one, the reference's mostly among them."""
    rng = draft.rng
    values = [draft.stated, draft.gold, draft.other()]
    if rng.random() < 0.9:  # the third value is for wordings of three
        values[:2] = rng.sample(values[:2], 2)
    else:
        rng.shuffle(values)
    forms, chance = KINDS[wordings], rng.random()
    if isinstance(draft.stated, Number) and chance < 0.12 and wordings == "doubles":
        forms = KINDS["doubles_units"]
    elif chance > 0.9 and wordings == "doubles":
        forms = KINDS["doubles_three"]
    text = then(draft, _filled(draft, rng.choice(forms), values), 0.12)
    return draft.joined(draft.body(1) if rng.random() < 0.35 else "", text), None


def restated(draft: Draft[Answer], wordings: str = "doubles") -> Ending:
    """One value in two or three notations."""
    rng = draft.rng
    three = rng.random() < 0.08 and wordings == "doubles"
    forms = KINDS["doubles_three" if three else wordings]
    form = rng.choice([form for form in forms if form not in _EQUAL_NUMBERS])
    text = then(draft, _filled(draft, form, [draft.stated] * 3), 0.12)
    return draft.joined(draft.body(1) if rng.random() < 0.35 else "", text), draft.stated


def _filled(draft: Draft[Answer], form: str, values: list[Answer]) -> str:
    rng, tex = draft.rng, "boxed" in form
    texts = {}
    for slot, value in zip("abc", values, strict=True):
        short = rng.random() < 0.5
        texts[slot] = value.plain(rng) if short else value.written(rng, tex=tex)
    units = dict(zip("uv", rng.sample(TEXTS["units"], 2), strict=True))
    return draft.filled(form, **texts, **units)


def converted(draft: Draft[Number]) -> Ending:
    """The answer with a unit, and the same amount in another: "540 meters (0.54 km)"."""
    rng, value = draft.rng, draft.stated
    group, unit = rng.choice(_CONVERTED)
    restated = Quantity(value.number, group, unit).restated(rng) if value.number > 0 else None
    if value.percent or not value.decimal or restated is None:
        return plain(draft)
    form = rng.choice(CLOSINGS[rng.choice(("prose", "hash", "label", "bare", "markdown"))])
    return then(draft, draft.joined(draft.body(1), draft.filled(form, s=restated)), 0.15), value


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
    steps = equations("\n".join(draft.problem.lines))[-rng.choice((1, 2, 2, 3)) :]
    last = _with_stated(draft, steps[-1]) if steps else None
    if last is None:
        return plain(draft)
    if rng.random() < 0.5:
        steps = [re.sub(r"(?<=[\d)])([-+*/])(?=[\d(.])", r" \1 ", step) for step in steps]
    link = rng.choice((", ", "\n", "; ", " and ", ", so ", ". ", " then "))
    text = link.join([*steps[:-1], last])
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
    text = "\n".join(f"{bullet}{name.format(u=unit)}{link}{value}" for name, value in lines)
    return then(draft, text, 0.1), draft.stated


def _with_stated(draft: Draft[Number], sentence: str) -> str | None:
    """The sentence with the draft's value as its last number, if possible."""
    answer = draft.problem.answer.decimal
    if not answer or draft.stated.percent or draft.gold.percent:
        return None
    matches = list(re.finditer(rf"(?<![\d.,]){re.escape(answer)}(?![\d]|[.,]\d)", sentence))
    if not matches:
        return None
    before, after = sentence[: matches[-1].start()], sentence[matches[-1].end() :]
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
