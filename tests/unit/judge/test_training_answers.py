"""The answers of training rows: every notation has the answer's value, no near miss has."""

import re
import sys
from collections.abc import Callable
from fractions import Fraction
from random import Random
from types import SimpleNamespace

import pytest
from sympy import Expr, simplify, sympify
from sympy.parsing.sympy_parser import implicit_multiplication, parse_expr, standard_transformations

from reward_serve_answers.values import parse_number
from reward_serve_judge.canonical import canonical
from reward_serve_judge.training.answers.base import Answer, near_miss
from reward_serve_judge.training.answers.bases import Based
from reward_serve_judge.training.answers.formulas import Formula
from reward_serve_judge.training.answers.intervals import Interval, Union
from reward_serve_judge.training.answers.kinds import drawn
from reward_serve_judge.training.answers.measures import Day, Duration, Quantity, Time
from reward_serve_judge.training.answers.numbers import Number, invented
from reward_serve_judge.training.answers.sequences import Ordered, Unordered
from reward_serve_judge.training.answers.tasks import Task, read_tasks
from reward_serve_judge.training.answers.words import Choice, Symbol, Verdict, Words
from reward_serve_judge.training.committed import sum_of
from reward_serve_judge.training.texts import KINDS

SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")


def test_a_near_miss_is_another_answer_of_the_same_kind() -> None:
    for seed in range(200):
        rng = Random(seed)
        answer = drawn(rng)
        miss = near_miss(answer, rng)
        assert miss != answer and miss.kind == answer.kind
        assert miss.reference(Random(0)) != answer.reference(Random(0))
        for tex in (False, True):
            assert answer.written(rng, tex=tex).strip()


def value_of(text: str) -> Expr:
    text = re.sub(r"([a-z0-9)])([⁰¹²³⁴⁵⁶⁷⁸⁹]+)", lambda m: m[1] + "**" + m[2], text)
    text = re.sub(r"√(\d+)", r"sqrt(\1)", text.translate(SUPERSCRIPTS))
    text = re.sub(r"e\^\(?(\d*)x\)?", r"exp(\1 x)", re.sub(r"^[a-zA-Z(]+\) ?= ?|^y = ", "", text))
    text = text.replace("^", "**").replace("π", "pi").replace("i", "I").replace("pI", "pi")
    text = text.replace("sIn", "sin")
    text = re.sub(r"(?<![a-z])([a-z])(?=\()", r"\1*", text)
    return parse_expr(text, transformations=(*standard_transformations, implicit_multiplication))


@pytest.mark.parametrize("seed", range(20))
def test_every_notation_of_a_formula_has_its_value_and_a_near_miss_has_not(seed: int) -> None:
    rng = Random(seed)
    formula = Formula.invented(rng)
    miss = near_miss(formula, rng)
    value = value_of(formula.written(rng))
    for _ in range(4):
        text = formula.written(rng)
        assert simplify(value_of(text) - value) == 0, text
    assert simplify(value_of(miss.written(rng)) - value) != 0


def test_every_notation_of_a_number_has_its_value_where_the_rules_read_it() -> None:
    for seed in range(300):
        rng = Random(seed)
        value = invented(rng)
        assert near_miss(value, rng) != value
        for text in (value.written(rng), value.written(rng, tex=True), value.reference(rng)):
            number = parse_number(text)
            if number is not None:
                assert (number.value, number.percent) == (value.number, value.percent), text


def references(answer: Answer) -> set[str]:
    return {answer.reference(Random(seed)) for seed in range(40)}


@pytest.mark.parametrize(
    ("invent", "other"),
    [
        (Interval.invented, lambda i: Interval(i.low, i.high, (not i.closed[0], i.closed[1]))),
        (Union.invented, lambda u: near_miss(u, Random(0))),
        (Ordered.pair, lambda t: Ordered((t.elements[0] + 1, *t.elements[1:]))),
        (Unordered.invented, lambda s: Unordered(frozenset(list(s.elements)[1:]))),
        (Quantity.invented, lambda q: Quantity(q.number, q.group, q.unit - 1)),
        (Day.invented, lambda d: near_miss(d, Random(0))),
        (Time.invented, lambda t: near_miss(t, Random(0))),
        (Duration.invented, lambda d: near_miss(d, Random(0))),
        (Based.invented, lambda b: near_miss(b, Random(0))),
        (Choice.invented, lambda c: near_miss(c, Random(0))),
        (Verdict.invented, lambda v: near_miss(v, Random(0))),
        (Words.several, lambda w: near_miss(w, Random(0))),
        (Symbol.invented, lambda s: near_miss(s, Random(0))),
    ],
)
def test_two_answers_share_no_reference(
    invent: Callable[[Random], Answer], other: Callable[[Answer], Answer]
) -> None:
    for seed in range(30):
        answer = invent(Random(seed))
        if isinstance(answer, Interval) and answer.low is None:
            continue
        assert not references(answer) & references(other(answer))


def test_a_sum_is_worth_the_value() -> None:
    signs = {
        "plus|and another": "+",
        "minus|less|−": "-",
        r"\\times|times|×|(?<= )x(?= )": "*",
        "divided by|÷": "/",
    }
    for whole in (2, 3, 7, 15, 60, 997, 4_096, 999_999):
        for seed in range(60):
            text = sum_of(Number(Fraction(whole)), Random(seed))
            assert text
            for words, sign in signs.items():
                text = re.sub(words, sign, text)
            assert sympify(text) == whole
    for other in (Number(Fraction(1)), Number(Fraction(5, 2)), Number(Fraction(15), True)):
        assert sum_of(other, Random(0)) is None


class FakeTask:
    """A task of reasoning-gym whose oracle ignores case and white space, and fails on "?"."""

    def __init__(self, answers: list[str]) -> None:
        self.answers = answers

    def __getitem__(self, at: int) -> dict[str, str]:
        return {"answer": self.answers[at % len(self.answers)]}

    def score_answer(self, answer: str, entry: dict[str, str]) -> float:
        if "?" in answer:
            raise ValueError(answer)
        same = answer.lower().replace(" ", "") == entry["answer"].lower().replace(" ", "")
        return 1.0 if same else 0.6 if answer.startswith("almost") else 0.0


def test_a_tasks_oracle_tells_a_miss_from_a_notation(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = ["[red, blue]", "[green, blue]", "almost", "what?", "x" * 90]
    fake = SimpleNamespace(create_dataset=lambda name, size, seed: FakeTask(answers))
    monkeypatch.setitem(sys.modules, "reasoning_gym", fake)
    made: list[Task] = read_tasks(["colours"], 5, seed=0)

    task = next(task for task in made if task.text == "[red, blue]")
    assert "[blue, red]" in task.misses
    assert not {"almost", "what?", task.text} & set(task.misses)
    assert {"[red,blue]", "[RED, BLUE]"} <= set(task.equals)
    for task in made:
        miss = near_miss(task, Random(0))
        assert len({task.text, miss.text, near_miss(task, Random(1), but=[miss]).text}) == 3
        assert len(task.text) < 90, "long answers are left out"


def minutes_of(text: str) -> Fraction:
    """The minutes of "2 h 40 min", "2 and a half hours" or "9600 sec"."""
    text = re.sub(r"(\d+) and a half", r"\1.5", canonical(text))
    match = re.fullmatch(r"([\d.]+) ?(s|m|h|d)\w*", text)
    assert match, text
    seconds = {"s": 1, "m": 60, "h": 3600, "d": 86_400}[match[2]]
    return Fraction(match[1]) * seconds / 60


def test_every_form_of_a_duration_has_its_minutes_and_a_near_miss_has_not() -> None:
    for seed in range(200):
        rng = Random(seed)
        duration = Duration.invented(rng)
        miss = near_miss(duration, rng)
        for _ in range(4):
            assert {minutes_of(text) for text in duration.forms(rng)} == {duration.minutes}
            assert minutes_of(miss.reference(rng)) == miss.minutes != duration.minutes


def test_every_form_of_a_time_is_shown_as_its_reference_or_is_left_to_the_judge() -> None:
    left = re.compile(r"1[0-2]:\d\d(?: hours)?|\d+h\d\d|noon|midnight", re.IGNORECASE)
    for seed in range(400):
        rng = Random(seed)
        time = Time.invented(rng)
        right, wrong = (
            canonical(quantity.reference(rng)) for quantity in (time, near_miss(time, rng))
        )
        written = canonical(time.written(rng))
        assert written == right or left.fullmatch(written), (written, right)
        assert written != wrong


def test_a_number_of_another_base_is_shown_in_decimal_digits() -> None:
    for seed in range(300):
        rng = Random(seed)
        based = Based.invented(rng)
        miss = near_miss(based, rng)
        for text in (based.written(rng), based.written(rng, tex=True), based.reference(rng)):
            assert canonical(text) == str(based.number)
        assert canonical(miss.reference(rng)) == str(miss.number) != str(based.number)


def test_another_spelling_is_the_same_word_and_a_synonym_or_an_opposite_is_not() -> None:
    pairs = [line.split() for line in KINDS["spellings"]]
    for word, other in pairs:
        texts = {Words(word).written(Random(seed)).strip("\"'`*“”").lower() for seed in range(60)}
        assert {word.lower(), other.lower()} <= texts
        assert near_miss(Words(word), Random(0)).text not in (word, other)
    for line in KINDS["synonyms"] + KINDS["opposites"]:
        word, *others = line.split()
        misses = {near_miss(Words(word), Random(seed)).text for seed in range(60)}
        assert misses >= set(others)


def test_a_quantity_is_restated_by_the_same_amount() -> None:
    texts = {Quantity(Fraction(540), "length", 2).restated(Random(seed)) for seed in range(200)}
    assert {"540 meters (0.54 km)", "540 m, which is 0.54 kilometers"} <= texts
    assert Quantity(Fraction(540), "money", 0).restated(Random(0)) is None
    assert Quantity(Fraction(160), "time", 1).restated(Random(0))
