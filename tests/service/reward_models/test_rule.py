from __future__ import annotations

from typing import Any

import pytest

from reward_serve.config.models import RuleModel
from reward_serve.reward_models.base import InvalidRequestError, Trace
from reward_serve.reward_models.rule import RuleRewardModel
from reward_serve.schema import ScoreRequest, Status, Usage
from reward_serve_answers import VERSION


@pytest.fixture
def rule() -> RuleRewardModel:
    return RuleRewardModel(RuleModel(name="gsm8k", kind="rule"))


@pytest.mark.parametrize(
    ("response", "reference", "score", "label", "details"),
    [
        pytest.param(
            "9 * 2 = 18\n#### 18",
            "#### 18",
            1.0,
            "right",
            {"rule": "marker_matches", "answer": "18"},
            id="right",
        ),
        pytest.param(
            "The answer is 17.",
            "18",
            0.0,
            "wrong",
            {"rule": "marker_differs", "answer": "17"},
            id="wrong",
        ),
        pytest.param(
            " \n", "18", 0.0, "wrong", {"rule": "empty_response", "answer": None}, id="blank"
        ),
        pytest.param(
            "#### 18",
            ["17", "18"],
            1.0,
            "right",
            {"rule": "marker_matches", "answer": "18"},
            id="right by one of two",
        ),
        pytest.param(
            "#### 17",
            ["19", "18"],
            0.0,
            "wrong",
            {"rule": "marker_differs", "answer": "17"},
            id="wrong by both",
        ),
    ],
)
async def test_what_the_verifier_proves_is_the_score(
    response: str,
    reference: Any,
    score: float,
    label: str,
    details: dict[str, Any],
    rule: RuleRewardModel,
) -> None:
    verdict = await rule.score(ScoreRequest(response=response, reference=reference))
    assert (verdict.status, verdict.score, verdict.source) == (Status.OK, score, "rule")
    assert verdict.label == label
    assert verdict.details == details
    assert verdict.reason is None
    assert verdict.usage == Usage()


@pytest.mark.parametrize(
    ("response", "reference", "why"),
    [
        pytest.param("She makes 18", "18", "no_marker", id="no marker"),
        pytest.param("#### 17 to 18", "18", "marker_not_understood", id="a range"),
        pytest.param("It is Paris", "Paris", "reference_not_numeric", id="no number"),
        pytest.param("She makes 18", ["17", "18"], "no_marker", id="unsure of one"),
    ],
)
async def test_what_it_cannot_prove_is_unparseable_not_zero(
    response: str, reference: Any, why: str, rule: RuleRewardModel
) -> None:
    verdict = await rule.score(ScoreRequest(response=response, reference=reference))
    assert (verdict.status, verdict.score) == (Status.UNPARSEABLE, None)
    assert (verdict.source, verdict.label) == (None, None)
    assert verdict.reason == f"the verifier abstains: {why}"
    assert verdict.details is not None
    assert verdict.details["rule"] == why


async def test_a_missing_reference_is_asked_for(rule: RuleRewardModel) -> None:
    with pytest.raises(InvalidRequestError, match="reference: "):
        await rule.score(ScoreRequest(response="#### 18"))


@pytest.mark.parametrize("reference", ["####", "9 * 2 = 18 ####", r"\boxed{}", ["18", "####"]])
async def test_a_reference_without_an_answer_is_refused(
    reference: Any, rule: RuleRewardModel
) -> None:
    with pytest.raises(InvalidRequestError, match="reference: "):
        await rule.score(ScoreRequest(response="#### 18", reference=reference))


async def test_every_verdict_carries_the_fingerprint_it_describes(rule: RuleRewardModel) -> None:
    fingerprint = rule.describe()["fingerprint"]
    assert fingerprint == f"verifier=gsm8k;version={VERSION}"
    assert rule.describe()["kind"] == "rule"
    for response in ("#### 18", "#### 17", "She makes 18"):
        verdict = await rule.score(ScoreRequest(response=response, reference="18"))
        assert verdict.fingerprint == fingerprint


async def test_it_never_fails_and_still_scores_when_closed(rule: RuleRewardModel) -> None:
    rule.close()
    assert await rule.fatal_error() is None
    assert (await rule.score(ScoreRequest(response="#### 18", reference="18"))).score == 1.0


def own(name: str) -> RuleRewardModel:
    rule = {"verifier": "function", "function": f"tests.own_functions:{name}"}
    return RuleRewardModel(RuleModel.model_validate({"name": "r", "kind": "rule", "rule": rule}))


async def test_a_function_of_ones_own_scores_without_a_reference() -> None:
    verdict = await own("half").score(ScoreRequest(response="x"))
    assert (verdict.status, verdict.score, verdict.source) == (Status.OK, 0.5, "rule")
    assert verdict.label is None


async def test_the_best_of_several_references_counts() -> None:
    model = own("is_it")
    assert (await model.score(ScoreRequest(response="b", reference=["a", "b"]))).score == 1.0
    assert (await model.score(ScoreRequest(response="c", reference=["a", "b"]))).score == 0.0


@pytest.mark.parametrize(
    ("response", "status"),
    [("raise", Status.ERROR), ("nan", Status.ERROR), ("none", Status.UNPARSEABLE)],
)
async def test_a_function_without_a_score_gives_none(response: str, status: Status) -> None:
    verdict = await own("scripted").score(ScoreRequest(response=response, reference="18"))
    assert (verdict.status, verdict.score, verdict.source) == (status, None, None)
    assert verdict.reason


async def test_a_reference_that_the_verifier_cannot_use_is_refused() -> None:
    rule = {"verifier": "numeric"}
    config = RuleModel.model_validate({"name": "r", "kind": "rule", "rule": rule})
    with pytest.raises(InvalidRequestError, match="reference: 'Paris' is not a number"):
        await RuleRewardModel(config).score(ScoreRequest(response="18", reference="Paris"))


@pytest.mark.parametrize(
    ("verifier", "response", "words"),
    [
        ("gsm8k", "So\n#### 18\n", "18"),
        ("gsm8k_strict_first", "#### 18 and #### 19", "#### 18"),
        ("gsm8k_strict_last", "x" * 400 + "#### 18 and #### 19", "#### 19"),
        ("numeric", "17, or 18.", "18."),
        ("exact", "<think>hm</think>18", "18"),
        ("regex", "A: 17\nA: 18\nB", "A: 18"),
        ("math", r"It is $\boxed{18}$", "18"),
        ("numeric", "none", None),
    ],
)
async def test_the_words_that_each_verifier_matched_are_shown(
    verifier: str, response: str, words: str | None
) -> None:
    settings = {"verifier": verifier, "pattern": r"A: (\d+)" if verifier == "regex" else None}
    model = RuleRewardModel(
        RuleModel.model_validate({"name": "m", "kind": "rule", "rule": settings})
    )
    asked, trace = ScoreRequest(response=response, reference="18"), Trace()
    try:
        verdict = await model.score(asked, trace)
        assert verdict == await model.score(asked)
    finally:
        model.close()
    assert trace.rule is not None
    assert trace.rule.score == verdict.score
    span = trace.rule.span
    assert (None if span is None else response[span.start : span.end]) == words


async def test_of_several_references_the_outcome_is_that_of_the_best(rule: RuleRewardModel) -> None:
    trace = Trace()
    await rule.score(ScoreRequest(response="#### 18", reference=["17", "18"]), trace)
    assert trace.rule is not None
    assert (trace.rule.outcome, trace.rule.rule) == ("right", "marker_matches")
