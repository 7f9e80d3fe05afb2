from __future__ import annotations

from typing import Any

import pytest

from reward_serve.config.models import RuleModel
from reward_serve.reward_models.base import InvalidRequestError, Trace
from reward_serve.reward_models.rule import RuleRewardModel
from reward_serve.schema import ScoreRequest, Status


def rule(**settings: Any) -> RuleRewardModel:
    return RuleRewardModel(
        RuleModel.model_validate({"name": "r", "kind": "rule", "rule": settings})
    )


@pytest.mark.parametrize(
    ("response", "reference", "score", "rule_", "answer"),
    [
        ("9 * 2 = 18\n#### 18", "#### 18", 1.0, "marker_matches", "18"),
        ("The answer is 17.", "18", 0.0, "marker_differs", "17"),
        (" \n", "18", 0.0, "empty_response", None),
        ("#### 18", ["17", "18"], 1.0, "marker_matches", "18"),
        ("#### 17", ["19", "18"], 0.0, "marker_differs", "17"),
    ],
)
async def test_what_the_verifier_proves_is_the_score(
    response: str, reference: Any, score: float, rule_: str, answer: str | None
) -> None:
    trace = Trace()
    verdict = await rule().score(ScoreRequest(response=response, reference=reference), trace)
    assert (verdict.status, verdict.score, verdict.source) == (Status.OK, score, "rule")
    assert verdict.label == ("right" if score else "wrong")
    assert verdict.details == {"rule": rule_, "answer": answer}
    assert verdict.fingerprint == rule().describe()["fingerprint"]
    assert trace.rule is not None
    assert (trace.rule.outcome, trace.rule.rule) == (verdict.label, rule_)


@pytest.mark.parametrize(
    ("response", "reference", "why"),
    [
        ("She makes 18", ["17", "18"], "no_marker"),
        ("#### 17 to 18", "18", "marker_not_understood"),
        ("It is Paris", "Paris", "reference_not_numeric"),
    ],
)
async def test_what_it_cannot_prove_is_unparseable_not_zero(
    response: str, reference: Any, why: str
) -> None:
    verdict = await rule().score(ScoreRequest(response=response, reference=reference))
    assert (verdict.status, verdict.score) == (Status.UNPARSEABLE, None)
    assert (verdict.source, verdict.label) == (None, None)
    assert verdict.reason == f"the verifier abstains: {why}"


@pytest.mark.parametrize("reference", [None, "####", r"\boxed{}", ["18", "####"]])
async def test_a_reference_without_an_answer_is_refused(reference: Any) -> None:
    with pytest.raises(InvalidRequestError, match="reference: "):
        await rule().score(ScoreRequest(response="#### 18", reference=reference))


async def test_a_reference_that_the_verifier_cannot_use_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="reference: 'Paris' is not a number"):
        await rule(verifier="numeric").score(ScoreRequest(response="18", reference="Paris"))


@pytest.mark.parametrize(
    ("name", "response", "reference", "status", "score"),
    [
        ("half", "x", None, Status.OK, 0.5),
        ("is_it", "b", ["a", "b"], Status.OK, 1.0),
        ("is_it", "c", ["a", "b"], Status.OK, 0.0),
        ("later", "x", None, Status.OK, 3.0),
        ("scripted", "raise", "18", Status.ERROR, None),
        ("scripted", "nan", "18", Status.ERROR, None),
        ("scripted", "none", "18", Status.UNPARSEABLE, None),
    ],
)
async def test_a_function_of_ones_own_scores_or_there_is_no_score(
    name: str, response: str, reference: Any, status: Status, score: float | None
) -> None:
    model = rule(verifier="function", function=f"tests.own_functions:{name}")
    asked = ScoreRequest(response=response, reference=reference, metadata={"points": 3})
    verdict = await model.score(asked)
    assert (verdict.status, verdict.score) == (status, score)
    assert bool(verdict.reason) is (score is None)


@pytest.mark.parametrize(
    ("verifier", "response", "words"),
    [
        ("gsm8k", "So\n#### 18\n", "18"),
        ("gsm8k_strict_last", "x" * 400 + "#### 18 and #### 19", "#### 19"),
        ("exact", "<think>hm</think>18", "18"),
        ("regex", "A: 17\nA: 18\nB", "A: 18"),
        ("math", r"It is $\boxed{18}$", "18"),
        ("numeric", "none", None),
    ],
)
async def test_the_words_that_each_verifier_matched_are_shown(
    verifier: str, response: str, words: str | None
) -> None:
    model = rule(verifier=verifier, pattern=r"A: (\d+)" if verifier == "regex" else None)
    trace = Trace()
    try:
        verdict = await model.score(ScoreRequest(response=response, reference="18"), trace)
    finally:
        model.close()
    assert trace.rule is not None
    assert trace.rule.score == verdict.score
    span = trace.rule.span
    assert (None if span is None else response[span.start : span.end]) == words
