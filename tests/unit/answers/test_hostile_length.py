"""Texts as long as an item may be, of parts that make a careless reader backtrack."""

import contextlib
import json
import re
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from reward_serve.off_loop import LIMIT, grading_cost
from reward_serve.prompts.critiques import tells
from reward_serve.prompts.rendering import defuse
from reward_serve.reward_models.classifier import _BLANK_LINES
from reward_serve.reward_models.rubric import _last_object
from reward_serve.schema import MAX_ITEM_BYTES, ScoreRequest
from reward_serve.templates import (
    MAX_REASON_CHARACTERS,
    inline_template,
    load_template,
    read_verdict,
    template_names,
)
from reward_serve_answers import TEXT_VERIFIERS, final_answer, grade_choice
from reward_serve_answers.calls import grade_calls
from reward_serve_answers.gsm8k import final_formula
from reward_serve_answers.schemas import compare
from reward_serve_answers.verifiers import grade_match
from tests.rows import rows

PARTS = rows(__file__, "parts")

CALL = '{"name": "f", "arguments": {"a": 1}}'
OPENERS = {**dict.fromkeys(PARTS, ""), **dict(rows(__file__, "openers"))}


def _writing() -> dict[str, Callable[[str], object]]:
    """The readers of what a judge writes, by template."""
    readers: dict[str, Callable[[str], object]] = {
        "critiques": lambda text: re.findall(
            load_template("critique").written.critique or "", text
        ),
        "told": lambda text: tells(text[:MAX_REASON_CHARACTERS], "Paris, or 18 of the 20"),
    }
    for folder in ("", "rubrics", "groups"):
        for template in (load_template(name, folder) for name in template_names(folder)):
            if template.generate:
                name = f"{folder} {template.name}"
                readers[name] = partial(_verdict, template)
                pattern = template.generate.verdict
                if r"(\{" in pattern:
                    readers[f"{name} object"] = partial(_last_object, pattern=pattern, names={"a"})
    inline = inline_template("{CANDIDATE_SOLUTION}")
    return readers | {"inline": partial(_verdict, inline)}


def _verdict(template: object, text: str) -> object:
    return read_verdict(template, text, cut_off=False)  # type: ignore[arg-type]


def _readers() -> dict[str, Callable[[str], object]]:
    """Every reader of a text that a policy, a judge or a caller wrote."""
    return {
        **{f"{name} of it": partial(grade, reference="18") for name, grade in GRADES.items()},
        **{f"{name} by it": partial(grade, "#### 18") for name, grade in GRADES.items()},
        "options": lambda text: grade_choice("(B)", "B", text),
        "math": lambda text: final_formula(text, r"\sqrt{2}"),
        "math by it": lambda text: final_formula(r"\boxed{\sqrt{2}}", text),
        "match": lambda text: grade_match(text, "18"),
        "calls": lambda text: grade_calls(text, CALL),
        "no calls": lambda text: grade_calls(text, "[]"),
        "calls by it": lambda text: grade_calls(CALL, text),
        "arguments": lambda text: grade_calls([("f", text)], CALL),
        "text argument": lambda text: grade_calls([("f", json.dumps({"a": text}))], CALL),
        "schema": lambda text: compare(text, "{}"),
        "schema by it": lambda text: compare("{}", text),
        "fence": defuse,
        "steps": _BLANK_LINES.split,
        **_writing(),
    }


GRADES = {
    **{name: lambda r, reference, g=g: g(r, reference) for name, g in TEXT_VERIFIERS.items()},
    "choice": grade_choice,
}
READERS = _readers()


def _texts(opener: str, size: int) -> Iterator[str]:
    """An opener in several shapes: repeated, on lines, nested, in pairs, and before blanks."""
    closer = OPENERS[opener]
    many = size // len(opener + closer)
    yield opener * many
    yield f"{opener} x\n" * (size // (len(opener) + 3))
    yield opener + " " * size + "x"
    if closer:
        yield opener * many + closer * many
        yield f"{opener}x{closer} " * (size // len(f"{opener}x{closer} "))


def _cpu_s(read: Callable[[str], object], text: str) -> float:
    """The CPU time of a reader, which may refuse the text; the lesser of two."""
    times = []
    for end in ("", " "):  # readers remember the last texts
        began = time.process_time()
        with contextlib.suppress(ValueError, RecursionError):
            read(text + end)
        times.append(time.process_time() - began)
        if times[0] < _ENOUGH_S or times[0] > 1:
            break
    return min(times)


_SIZE = 2**14
_ENOUGH_S = 0.05


@pytest.mark.timeout(60)
@pytest.mark.parametrize("opener", OPENERS, ids=repr)
def test_every_reader_is_linear_or_bounded_in_openers_of_every_kind(opener: str) -> None:
    for small, large in zip(_texts(opener, _SIZE), _texts(opener, 4 * _SIZE), strict=True):
        for name, read in READERS.items():
            taken_s = _cpu_s(read, large)
            if taken_s > _ENOUGH_S:
                assert taken_s < 8 * _cpu_s(read, small), f"{name} of {small[:40]!r}..."


@pytest.mark.timeout(60)  # it takes a second; what is quadratic takes minutes
@pytest.mark.parametrize("part", PARTS, ids=repr)
def test_a_verifiers_time_grows_with_the_length_alone(part: str) -> None:
    response = (part * (MAX_ITEM_BYTES // len(part) + 1))[:MAX_ITEM_BYTES]
    for verifier in (*TEXT_VERIFIERS.values(), grade_choice):
        verifier(response, "B" if verifier is grade_choice else "18")
    grade_calls(response, "[]")
    with contextlib.suppress(ValueError):  # it holds no answer
        final_answer(response)


@pytest.mark.parametrize(
    ("response", "references", "is_long"),
    [
        ("1" * 60_000, ["18"], False),  # a usual rollout, for which a thread costs more
        ("1" * 70_000, ["18"], True),
        ("1" * 1_000, ["18"] * 30, True),
        ("18", ["1" * 20_000], True),
    ],
)
def test_only_what_may_hold_the_loop_up_is_verified_off_it(
    response: str, references: list[str], is_long: bool
) -> None:
    request = ScoreRequest(response=response, reference=references)
    assert (grading_cost(request) > LIMIT) is is_long
