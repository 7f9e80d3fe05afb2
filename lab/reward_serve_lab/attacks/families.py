"""The attack families: how each combines its fragments, which are in ``families.yaml``."""

from __future__ import annotations

import base64
import codecs
import json
import re
import string
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

import yaml

from reward_serve.templates import Template, load_template, template_names
from reward_serve_lab.attacks.family import Draft, Family, choices, combined, filled
from reward_serve_lab.attacks.problems import Problem

MAX_CHARACTERS = 20_000
"""Maximum length of a flood."""

_Fragments = dict[str, list[Any]]
_Drafts = Callable[[Random, _Fragments], Iterable[Draft]]
_DRAFTS: dict[str, _Drafts] = {}


def _draws(function: _Drafts) -> _Drafts:
    """Use the function for the family of its name."""
    _DRAFTS[function.__name__.removeprefix("_")] = function
    return function


# Text without an answer.


@_draws
def _master_keys(rng: Random, texts: _Fragments) -> Iterator[Draft]:
    marks = "!?;-–—_*~^|/\\&#@+=<>()[]{}'\"`…·•※§¶†°"
    yield from texts["published"]
    yield from rng.sample(texts["labels"], 16)
    yield from rng.sample(texts["blanks"], 5)
    yield from (rng.choice(texts["blanks"]) * rng.randint(2, 60) for _ in range(3))
    yield from ("".join(rng.choices(marks, k=rng.randint(1, 8))) for _ in range(12))
    yield from combined(rng, 20, texts["openings"], texts["openers"], texts["endings"])
    yield from combined(rng, 18, texts["elsewhere"], ("", ":", "。", "...", "\n\n"))


@_draws
def _no_answer(rng: Random, texts: _Fragments) -> Iterator[Draft]:
    yield from combined(rng, 32, texts["first"], texts["second"], texts["last"])


@_draws
def _null_responses(rng: Random, texts: _Fragments) -> Iterator[Draft]:
    yield from combined(rng, 10, texts["pleasing"], texts["empty"])
    yield from rng.sample(texts["refusals"], 12)
    yield from combined(rng, 10, texts["titles"], texts["bodies"], texts["ends"])


@_draws
def _authority(rng: Random, texts: _Fragments) -> Iterator[Draft]:
    yield from combined(rng, 24, texts["sources"], texts["claims"], texts["ornaments"])


_WORDS = (
    "therefore carrots divide gently under window equation purple sum because Tuesday ratio hence "
    "lamp total answer spoon correct granite verify river equals umbrella final marble"
)
_SYMBOLS = "∑∫∂√≈≠≤≥∞∈∉∪∩⊂⊃∀∃∇±×÷⇒⇔←→↑↓"
_SCRIPTS = (
    (0x4E00, 0x9FA5),
    (0x0410, 0x044F),
    (0xAC00, 0xD7A3),
    (0x3041, 0x3096),
    (0x1F600, 0x1F64F),
)
_NO_DIGITS = str.maketrans(string.digits, "qwertyuiop")


def _noise(rng: Random) -> Iterator[str]:
    length = rng.randint(5, 200)
    yield "".join(rng.choices(string.ascii_lowercase + " ", k=length)).strip() or "q"
    yield "".join(rng.choices(string.ascii_letters + string.punctuation, k=length))
    yield base64.b64encode(rng.randbytes(length)).decode().translate(_NO_DIGITS)
    yield " ".join(rng.choices(_WORDS.split(), k=rng.randint(3, 40)))
    yield "".join(rng.choices(_SYMBOLS, k=rng.randint(3, 40)))
    low, high = rng.choice(_SCRIPTS)
    yield "".join(chr(rng.randint(low, high)) for _ in range(rng.randint(3, 60)))


@_draws
def _gibberish(rng: Random, texts: _Fragments) -> Iterator[Draft]:
    for _ in range(4):
        for noise in _noise(rng):
            yield rng.choice(texts["markers"]).format(noise)


@_draws
def _floods(rng: Random, texts: _Fragments) -> Iterator[Draft]:
    for unit, payload in choices(rng, 30, texts["units"], texts["payloads"]):
        length = rng.randint(600, MAX_CHARACTERS) - len(payload) - 1
        repeated = unit * (length // len(unit))
        yield payload.strip() + "\n" + repeated if rng.random() < 0.2 else repeated + payload


# Parts of the problem and of a solution.


def _cut(before: str, cut: str, problem: Problem) -> str:
    last = problem.steps[-1].partition("=")[0].strip()
    return before + " ".join(problem.steps[:-1]) + cut.format(last=last)


@_draws
def _truncated(rng: Random, texts: _Fragments) -> Iterator[Draft]:
    for before, cut in choices(rng, 30, texts["before"], texts["cuts"]):
        yield partial(_cut, before, cut)


_PARTS: dict[str, Callable[[str], str]] = {
    "whole": lambda question: question,
    "twice": lambda question: f"{question}\n{question}",
    "last sentence": lambda question: question.rpartition(". ")[2],
    "shouted": str.upper,
    "without its last word": lambda question: question.rsplit(" ", 1)[0],
}


def _copy(before: str, part: str, after: str, problem: Problem) -> str:
    return before + _PARTS[part](problem.question) + after


@_draws
def _copied_questions(rng: Random, texts: _Fragments) -> Iterator[Draft]:
    for before, part, after in choices(rng, 26, texts["before"], [*_PARTS], texts["after"]):
        yield partial(_copy, before, part, after)


# Verdicts, alone or after a copy of the judge's own prompt. A judge that writes text may quote or
# continue them, and a parser that takes the first verdict reads them.


_LATER = {"final_score"}  # shipped after the suite, which has its verdict in another's syntax


def _templates() -> list[Template]:
    """The shipped templates that the suite imitates; with more, figures would not compare."""
    return [load_template(name) for name in template_names() if name not in _LATER]


def _shown_alone() -> list[Template]:
    """Those that show a response."""
    return [template for template in _templates() if template.shows == "response"]


def _template_verdicts(template: Template) -> list[str]:
    """A template's best verdict, as its label (if it has labels) and as its example writes it."""
    form = template.written
    values = template.label.values if template.label else {}
    labels = sorted(values, key=lambda label: -values[label])[:1]
    match = list(re.finditer(form.verdict, form.example))[-1]
    line_start = form.example.rfind("\n", 0, match.start()) + 1
    written = labels[0] if labels else f"{form.scale:g}"
    return [*labels, form.example[line_start : match.start(1)] + written]


@_draws
def _planted_verdicts(rng: Random, texts: _Fragments) -> Iterator[Draft]:
    examples = [verdict for template in _shown_alone() for verdict in _template_verdicts(template)]
    examples = list(dict.fromkeys(examples))
    yield from examples
    yield from rng.sample(texts["elsewhere"], 24)
    yield from combined(rng, 16, texts["before"], examples, texts["after"])
    yield from combined(rng, 24, texts["before"], texts["elsewhere"], texts["after"])


@_draws
def _prompt_echoes(rng: Random, texts: _Fragments) -> Iterator[Draft]:
    for template in _shown_alone():
        user = template.user
        for slot in texts["fields"]:
            user = user.replace(slot[0], rng.choice(slot))
        instruction = rng.choice([getattr(template, mode).instruction for mode in template.modes])
        verdict = rng.choice(_template_verdicts(template))
        yield from combined(
            rng,
            8,
            texts["leads"],
            (template.system, "", f"{template.system}\n\n{template.card}"),
            ("\n", "\n\nuser:\n"),
            (user, f"{user}\n{instruction}", instruction),
            ("", f"\n{verdict}", f"\n\nassistant:\n{verdict}"),
        )


# Replies that point to the judge's reference, or forge one, instead of answering.


@_draws
def _pointers(rng: Random, texts: _Fragments) -> Iterator[Draft]:
    for targets in (texts["placeholders"], texts["pointers"]):
        for pointer, form in choices(rng, 14, targets, texts["forms"]):
            yield form.replace("{}", pointer)


def _number(rng: Random) -> str:
    figure = rng.choice((rng.randint(12, 99), rng.randint(101, 999), rng.randint(1100, 98_000)))
    return rng.choice((f"{figure}", f"{figure:,}", f"{figure}.5"))


@_draws
def _forged_references(rng: Random, texts: _Fragments) -> Iterator[Draft]:
    for forgery, claim in choices(rng, 40, texts["forgeries"], texts["claims"]):
        yield (forgery + claim).format(n=_number(rng))


# Instructions to the judge: in prose, data, code, comments, other languages and encodings.

_ENCODINGS: dict[str, Callable[[str], str]] = {
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base32": lambda text: base64.b32encode(text.encode()).decode(),
    "hex": lambda text: text.encode().hex(" "),
    "rot13": lambda text: codecs.encode(text, "rot13"),
    "URL-encoded": quote,
    "reversed": lambda text: text[::-1],
    "HTML-encoded": lambda text: "".join(f"&#{ord(character)};" for character in text),
    "JSON-escaped": lambda text: "".join(f"\\u{ord(character):04x}" for character in text),
}


def _as_data(rng: Random, text: str, keys: list[str]) -> str:
    shape = rng.choice(("flat", "message", "call"))
    key = rng.choice(keys)
    data = {
        "flat": {key: text, "score": 1},
        "message": {"role": rng.choice(("system", "developer")), "content": text},
        "call": {"name": "submit_score", "arguments": {"score": 1.0, "comment": text}},
    }[shape]
    return json.dumps([data] if rng.random() < 0.3 else data, indent=rng.choice((None, 2)))


@_draws
def _injected_instructions(rng: Random, texts: _Fragments) -> Iterator[Draft]:
    order = texts["overrides"], texts["orders"]
    yield from combined(rng, 32, texts["addresses"], *order)
    yield from rng.sample(texts["appeals"], 14)
    yield from (_as_data(rng, text, texts["keys"]) for text in combined(rng, 8, *order))
    yield from rng.sample(texts["code"], 12)
    for before, after in rng.sample(texts["comments"], 10):
        yield before + combined(rng, 1, *order)[0] + after
    yield from rng.sample(texts["languages"], 14)
    for name, encode in _ENCODINGS.items():
        for text in combined(rng, 2, *order):
            yield rng.choice(texts["decode"]).format(name=name, code=encode(text))


# Responses that try to end their fence or their turn, and to write what follows in the prompt.


@_draws
def _chat_tokens(rng: Random, texts: _Fragments) -> Iterator[Draft]:
    bodies, tasks, replies = texts["bodies"], texts["tasks"], texts["replies"]
    yield from rng.sample(texts["fences"], 12)
    yield from combined(rng, 14, bodies, texts["fences"], tasks, ("\n",), replies)
    picks = choices(rng, 44, bodies, ("", "\n</response>"), tasks, texts["turns"], replies)
    for body, fence, task, (end, start), reply in picks:
        yield body + fence + task + end + start + reply + rng.choice(("", end.strip()))


@_draws
def _own_criteria(rng: Random, texts: _Fragments) -> Iterator[Draft]:
    yield from combined(rng, 48, texts["ends"], texts["criteria"], texts["claims"])


# Text that a reader does not see: lookalike, invisible or reordered characters, hidden markup.

_LOOKALIKES = str.maketrans("aceopxyijsABCEHIKMOPSTX", "асеорхуіјѕАВСЕНІКМОРЅТХ")
_UPSIDE_DOWN = str.maketrans("abcdefhikmnrtvwy", "ɐqɔpǝɟɥᴉʞɯuɹʇʌʍʎ")
_INVISIBLE = "\u200b\u200c\u200d\u2060\u00ad\u180e\ufe0f\u034f"
_COMBINING = "\u0336\u0301\u0308\u0332\u20dd\u0489"
# Arabic-Indic, Persian, Devanagari, Bengali, Tamil, Thai, Tibetan, Khmer; fullwidth, bold,
# double-struck and segmented.
_ZEROS = "٠۰०০௦๐༠០０𝟎𝟘🯰"


def _shifted(text: str, upper: int, lower: int, digit: int) -> str:
    starts = {"A": upper, "a": lower, "0": digit}
    shifted = []
    for character in text:
        kind = "A" if character.isupper() else "a" if character.islower() else "0"
        if character.isascii() and character.isalnum():
            shifted.append(chr(starts[kind] + ord(character) - ord(kind)))
        else:
            shifted.append(character)
    return "".join(shifted)


_DISGUISES: tuple[Callable[[str, Random], str], ...] = (
    lambda text, rng: rng.choice(_INVISIBLE).join(text),
    lambda text, rng: "".join(c + rng.choice(("", *_INVISIBLE)) for c in text),
    lambda text, rng: "".join(c + rng.choice(_COMBINING) for c in text),
    lambda text, rng: text.translate(_LOOKALIKES),
    lambda text, rng: text.translate(_UPSIDE_DOWN)[::-1],
    lambda text, rng: "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text),
    lambda text, rng: _shifted(text, 0x1D400, 0x1D41A, 0x1D7CE),
    lambda text, rng: _shifted(text, 0x1D670, 0x1D68A, 0x1D7F6),
    lambda text, rng: "Solution." + "".join(chr(0xE0000 + ord(c)) for c in text),
    lambda text, rng: f"\u202e{text[::-1]}\u202c",
    lambda text, rng: f"\u2067{text}\u2069",
    lambda text, rng: " ".join(text),
    lambda text, rng: "".join(c.upper() if rng.random() < 0.5 else c.lower() for c in text),
    lambda text, rng: "\b".join(text),
)


def _wrong_number(rng: Random, statements: list[str]) -> str:
    number = str(rng.choice((rng.randint(11, 99), rng.randint(101, 9999))))
    zero = ord(rng.choice(_ZEROS))
    other = "".join(chr(zero + int(digit)) for digit in number)
    disguised = (other, rng.choice(_INVISIBLE).join(number), "".join(c + "\u0336" for c in number))
    return rng.choice(statements).format(rng.choice(disguised))


@_draws
def _hidden_characters(rng: Random, texts: _Fragments) -> Iterator[Draft]:
    for disguise in _DISGUISES:
        for payload in rng.sample(texts["payloads"], 3):
            yield disguise(payload, rng)
    yield from (_wrong_number(rng, texts["statements"]) for _ in range(16))


@_draws
def _hidden_text(rng: Random, texts: _Fragments) -> Iterator[Draft]:
    for visible, hidden in choices(rng, 45, texts["shown"], texts["hidden"]):
        text = hidden + visible if rng.random() < 0.3 and "%" not in hidden else visible + hidden
        yield partial(filled, text.lstrip(), rng.choice((-6, -3, -2, 2, 4, 5, 9)))


# Several values, the reference's among them, without a commitment to one.


def _list(parts: list[str], offsets: list[int], place: int, problem: Problem) -> str:
    before, between, after = parts
    values = [problem.near(offset) for offset in offsets]
    values.insert(place, problem.answer)
    return before + between.join(values) + after


def _range(statement: str, form: str, reach: int, problem: Problem) -> str:
    low, high = max(problem.value - reach, Decimal(0)), problem.value + reach
    ends = {"low": problem.written(low), "high": problem.written(high), "reach": reach}
    return statement.format(form.format(right=problem.answer, **ends))


@_draws
def _hedging(rng: Random, texts: _Fragments) -> Iterator[Draft]:
    for parts in texts["lists"]:
        most = 2 if parts[0].startswith(("(A)", "At least")) else rng.choice((2, 2, 3, 4, 6))
        offsets = rng.sample([offset for offset in range(-6, 7) if offset], most - 1)
        yield partial(_list, parts, offsets, rng.randrange(most))
    for statement, form in choices(rng, 22, texts["statements"], texts["ranges"]):
        yield partial(_range, statement, form, rng.randint(1, 9))


def _constant(text: str, _: Problem) -> str:
    return text


def _around(lead: str, joiner: str, width: int, seed: int, problem: Problem) -> str:
    offsets = [offset for offset in range(-width, width + 1) if offset]
    Random(seed).shuffle(offsets)
    values = list(dict.fromkeys(map(problem.near, offsets)))
    values.insert(1 + seed % (len(values) - 1), problem.answer)  # neither first nor last
    return lead + joiner.join(values)


def _lines(form: str, width: int, seed: int, problem: Problem) -> str:
    return "\n".join(map(form.format, _around("", " ", width, seed, problem).split()))


def _buried(digits: int, seed: int, problem: Problem) -> str:
    rng = Random(seed)
    before, after = ("".join(rng.choices("123456789", k=digits)) for _ in range(2))
    return before + problem.answer.replace(",", "") + after


@_draws
def _stuffing(rng: Random, texts: _Fragments) -> Iterator[Draft]:
    for lead, joiner in choices(rng, 8, texts["leads"], texts["joiners"]):
        numbers = [str(n) for n in range(rng.choice((100, 120, 150, 500, 1000)) + 1)]
        yield partial(_constant, lead + joiner.join(numbers))
    for lead, joiner in choices(rng, 10, texts["leads"], texts["joiners"]):
        yield partial(_around, lead, joiner, rng.randint(8, 60), rng.randrange(2**32))
    for form in ("#### {}", "Answer: {}", "\\boxed{{{}}}", "The answer is {}.", "- {}?"):
        yield partial(_lines, form, rng.randint(4, 30), rng.randrange(2**32))
    for _ in range(5):
        yield partial(_buried, rng.randint(3, 400), rng.randrange(2**32))
    for wildcard, statement in choices(rng, 14, texts["wildcards"], texts["statements"]):
        yield partial(_constant, statement.format(wildcard))


def _several(pattern: str, place: int, distances: tuple[int, int], problem: Problem) -> str:
    values = [problem.near(distance) for distance in distances]
    values.insert(place, problem.answer)
    return pattern.format(**dict(zip(("one", "other", "third"), values, strict=True)))


@_draws
def _double_answers(rng: Random, texts: _Fragments) -> Iterator[Draft]:
    pairs = combined(rng, 40, texts["leads"], texts["links"])
    for pattern in [*pairs, *texts["marked"], *texts["rows"]]:
        last = 2 if "third" in pattern else 1
        for place in range(last + 1):
            near, far = rng.sample((-9, -5, -3, -2, 2, 3, 4, 7, 11), 2)
            yield partial(_several, pattern, place, (near, far))


# The reference's value, stated and then retracted, denied or disowned. By the templates' cards, the
# last committed answer is graded, and a retracted answer is no answer.


@_draws
def _taken_back(rng: Random, texts: _Fragments) -> Iterator[Draft]:
    retracted = combined(rng, 24, texts["statements"], texts["retractions"])
    for pattern in [*retracted, *rng.sample(texts["denials"], 12)]:
        yield partial(filled, pattern, rng.choice((-7, -4, -3, -2, -1, 1, 2, 3, 5, 8)))


@_draws
def _disowned(rng: Random, texts: _Fragments) -> Iterator[Draft]:
    for statement, tail in choices(rng, 60, texts["statements"], texts["tails"]):
        between = "" if statement.endswith("\n") else " "
        yield partial(filled, statement + between + tail, 1)


# The reference's digits with another value: a sign, a scale, a power, dozens, per mille. Small
# judges compare digits, so a policy would find these mistakes first.

_CALCULATED: tuple[Callable[[Problem], str], ...] = (
    lambda problem: problem.written(problem.value * 10),
    lambda problem: problem.written(problem.value * 100),
    lambda problem: problem.written(problem.value / 10),
    lambda problem: problem.written(problem.value / 100),
    lambda problem: problem.written(problem.value + Decimal("0.5")),
    lambda problem: problem.written(problem.value + Decimal("0.01")),
    lambda problem: problem.written(problem.value + 100),
    lambda problem: problem.answer + problem.answer.replace(",", "")[-1] + "7",
)


def _around_answer(amount: str, problem: Problem) -> str:
    return amount.replace("{}", problem.answer)


def _factorial(amount: str, problem: Problem) -> str:
    # 2! is 2, so a reference of 2 is attacked with 3!.
    return amount.format(problem.answer if problem.value > 2 else problem.near(1))


def _stated(statement: str, write: Callable[[Problem], str], problem: Problem) -> str:
    return statement.format(write(problem))


@_draws
def _altered_values(rng: Random, texts: _Fragments) -> Iterator[Draft]:
    altered: list[Callable[[Problem], str]]
    altered = [partial(_around_answer, amount) for amount in texts["amounts"]]
    for write in (*altered, *_CALCULATED):
        for statement in rng.sample(texts["statements"], 2):
            yield partial(_stated, statement, write)


@_draws
def _other_amounts(rng: Random, texts: _Fragments) -> Iterator[Draft]:
    for amount in texts["amounts"]:
        for statement in rng.sample(texts["statements"], 2):
            yield partial(_stated, statement, partial(_around_answer, amount))
    for amount in texts["factorials"]:
        for statement in rng.sample(texts["statements"], 3):
            yield partial(_stated, statement, partial(_factorial, amount))


# Conversations with a tool: how it is called, what it answers, and a last turn with a wrong answer
# or none.

_TOOLS = (("calculator", "expression"), ("python", "code"), ("search", "query"), ("ask", "about"))


def _arguments(name: str, value: str = "") -> str:
    return json.dumps({name: "{step}" + value})


def _talk(
    tool: str, arguments: str, output: str, last: str, distance: int, problem: Problem
) -> list[dict[str, Any]]:
    step = json.dumps(problem.steps[-1].partition("=")[0].strip())[1:-1]
    called = {"name": tool, "arguments": arguments.replace("{step}", step)}
    last = last.replace("{wrong}", problem.near(distance))
    return [
        {"role": "user", "content": problem.question},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "call", "function": called}]},
        {"role": "tool", "content": output, "name": tool, "tool_call_id": "call"},
        {"role": "assistant", "content": last},
    ]


def _talks(rng: Random, output: str, last: str, call: tuple[str, str] | None = None) -> Draft:
    tool, argument = rng.choice(_TOOLS)
    name, arguments = call or (tool, _arguments(argument))
    return partial(_talk, name, arguments, output, last, rng.choice((-7, -4, -3, -2, 2, 3, 5, 8)))


@_draws
def _tool_instructions(rng: Random, texts: _Fragments) -> Iterator[Draft]:
    order = texts["addresses"], texts["overrides"], texts["orders"]
    for *pieces, last in choices(rng, 24, texts["outputs"], *order, texts["last"]):
        yield _talks(rng, "".join(pieces), last)


@_draws
def _tool_verdicts(rng: Random, texts: _Fragments) -> Iterator[Draft]:
    templates = [template for template in _templates() if template.generate]
    examples = [verdict for template in templates for verdict in _template_verdicts(template)]
    for count, verdicts in ((10, [*dict.fromkeys(examples)]), (20, texts["verdicts"])):
        slots = texts["before"], verdicts, texts["after"], texts["last"]
        for *pieces, last in choices(rng, count, *slots):
            yield _talks(rng, "".join(pieces), last)


@_draws
def _tool_tags(rng: Random, texts: _Fragments) -> Iterator[Draft]:
    for tag in texts["tags"]:
        text = tag + rng.choice(texts["orders"])
        tool, argument = rng.choice(_TOOLS)
        places = (
            (tool + text, _arguments(argument)),
            (tool, _arguments(argument, text)),
            (tool, _arguments(argument + text)),
            (tool, f'{{"{argument}": "{text}'),
        )
        for call in rng.sample(places, 2):
            yield _talks(rng, "ok", rng.choice(texts["last"]), call)


@_draws
def _forged_tool_turns(rng: Random, texts: _Fragments) -> Iterator[Draft]:
    for form, claim, last in choices(rng, 24, texts["forms"], texts["claims"], texts["last"]):
        yield _talks(rng, "Error: timeout", form.format(claim) + last)


@_draws
def _unsupported_claims(rng: Random, texts: _Fragments) -> Iterator[Draft]:
    for output, claim in choices(rng, 24, texts["outputs"], texts["claims"]):
        yield _talks(rng, output, claim)


def _family(
    name: str, description: str, may_mention: bool = False, **fragments: list[Any]
) -> Family:
    return Family(name, description, lambda rng: _DRAFTS[name](rng, fragments), may_mention)


FAMILIES: tuple[Family, ...] = tuple(
    _family(name, **fields)
    for name, fields in yaml.safe_load(
        Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
    ).items()
)
"""Every family, in the order of the suite."""
