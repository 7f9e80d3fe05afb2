"""What was reported of asking an endpoint: replies without a verdict, and its rate."""

from __future__ import annotations

import time
from typing import Any

import pytest

from reward_serve.config.models import RemoteModel
from reward_serve.replica.admission import Admission
from reward_serve.replica.scoring import Scorer
from reward_serve.reward_models.rubric import RubricJudge
from tests.service.engines.test_openai import ASKED, Endpoint, completion
from tests.unit.reward_models.test_judge import FakeEngine, judge, request

SILENT = completion("There is no way to tell.")
RIGHT = completion("They agree.\nVERDICT: 1")


@pytest.mark.parametrize(
    ("reply", "lacks"),
    [
        (SILENT, "does not match"),
        (completion(""), "no text"),
        (completion(None), "no text"),
        (completion("VERDICT: 1", finish_reason="content_filter"), "content_filter"),
    ],
)
async def test_a_reply_without_a_verdict_is_asked_for_once_more(reply: Any, lacks: str) -> None:
    endpoint = Endpoint(reply, RIGHT)
    result = await endpoint.scorer(mode="generate").score(ASKED)
    assert (result["score"], result["details"]["attempts"]) == (1.0, 2)
    assert lacks in result["details"]["first_reply"]
    first, second = endpoint.asked
    assert (first["seed"], first["temperature"]) == (0, 0.0)
    assert (second["seed"], second["temperature"]) == (1, 0.7)
    assert first["messages"] == second["messages"]


async def test_attempts_end() -> None:
    for settings, calls in (({}, 2), ({"attempts": 1}, 1), ({"attempts": 3}, 3)):
        endpoint = Endpoint(SILENT)
        result = await endpoint.scorer(mode="generate", **settings).score(ASKED)
        assert (result["status"], len(endpoint.asked)) == ("unparseable", calls)
        assert (result["details"] or {}).get("attempts", 1) == calls
        assert result["usage"]["completion_tokens"] == calls


async def test_a_late_reply_leaves_no_time_for_another() -> None:
    def late(_: Any) -> Any:
        time.sleep(0.6)
        return SILENT

    endpoint = Endpoint(late)
    result = await endpoint.scorer(mode="generate").score({**ASKED, "timeout_s": 1.0})
    assert (result["status"], len(endpoint.asked)) == ("unparseable", 1)


@pytest.mark.parametrize(
    ("mode", "reply"),
    [
        ("label", completion(logprobs={"Sure": -0.1})),
        ("generate", completion("VERDICT: 1", finish_reason="length")),
    ],
)
async def test_labels_and_a_text_that_was_cut_off_are_asked_for_once(mode: str, reply: Any) -> None:
    endpoint = Endpoint(reply)
    assert (await endpoint.scorer(mode=mode).score(ASKED))["score"] is None
    assert len(endpoint.asked) == 1


async def test_an_engine_of_our_own_is_asked_again_only_if_it_samples() -> None:
    for settings, seeds in (
        ({"attempts": 3}, [0]),
        ({"attempts": 3, "temperature": 0.5}, [0, 1, 2]),
        ({"temperature": 0.5}, [0]),
    ):
        engine = FakeEngine(text=lambda _: ("There is no way to tell.", False))
        await judge(engine, mode="generate", **settings).score(request())
        assert [sampling.sample for sampling in engine.settings] == seeds


async def test_a_rubric_keeps_the_fuller_of_two_replies() -> None:
    criteria = [{"name": name, "text": f"Is it {name}?"} for name in "ab"]
    config = {"name": "rubric", "kind": "remote", "remote": {"model": "m"}}
    config["rubric"] = {"rubrics": {"own": criteria}, "default": "own", "min_answered": 0.5}
    half, both = completion('{"a": "yes"}'), completion('{"a": "yes", "b": "no"}')
    for replies, answered in (((half, both), 2), ((half, SILENT), 1), ((SILENT, half), 1)):
        endpoint = Endpoint(*replies)
        judge = RubricJudge(RemoteModel.model_validate(config), endpoint.engine())
        result = await Scorer("rubric", judge, Admission(8, 8)).score(
            {"response": "r", "question": "q"}
        )
        assert result["score"] is not None, result["reason"]
        assert (result["details"]["criteria_answered"], len(endpoint.asked)) == (answered, 2)
        assert result["details"]["attempts"] == 2
