from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from reward_serve.reward_models.rule import PatternVerifier
from reward_serve.schema import ScoreRequest
from reward_serve_answers import Grade
from reward_serve_answers.verifiers import last_match

Make = Callable[[str], PatternVerifier]


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[PatternVerifier] = []

    def verifier(pattern: str) -> PatternVerifier:
        made.append(PatternVerifier(pattern))
        return made[-1]

    yield verifier
    for one in made:
        one.close()


async def grade(verifier: PatternVerifier, response: str, reference: str) -> Grade:
    return await verifier.verify(ScoreRequest(response=response), reference)


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (r"A: (\S+)", "A: 17 A: 18.", ("18.", 6, 12)),
        (r"\d+", "17 18", ("18", 3, 5)),
        (r"A: (\d+)|B: (\d+)", "B: 18", ("18", 0, 5)),
        (r"A:(\d*)", "A:", ("", 0, 2)),
        (r"A: (\S+)", "18", None),
    ],
)
def test_the_last_match_is_the_answer(pattern: str, text: str, found: object) -> None:
    assert last_match(pattern, text) == found


async def test_numbers_compare_by_value_and_other_texts_exactly(make: Make) -> None:
    verifier = make(r"A: (.*)")
    table = [
        ("A: $1,800.00", "#### 1800", 1.0, "match_equals"),
        ("A: 18%", "18", 0.0, "match_differs"),
        ("A: Paris ", "Paris", 1.0, "match_equals"),
        ("A: paris", "Paris", 0.0, "match_differs"),
        ("A: 18\nA: 17", "18", 0.0, "match_differs"),
        ("18", "18", 0.0, "no_match"),
    ]
    for response, reference, score, rule in table:
        found = await grade(verifier, response, reference)
        assert (found.score, found.rule) == (score, rule), response


async def test_a_hostile_response_costs_a_bounded_time_and_no_score(make: Make) -> None:
    verifier = make(r"(?:A+)+: (\d+)")
    hostile = await grade(verifier, "A" * 100, "18")
    assert (hostile.score, hostile.rule) == (None, "too_slow")
    assert (await grade(verifier, "A: 18", "18")).score == 1.0
