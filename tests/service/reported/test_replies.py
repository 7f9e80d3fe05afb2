"""What judges and rubrics at an endpoint were reported to reply, and what is read of it."""

from typing import Any

import httpx
import orjson
import pytest

from reward_serve.config.models import JudgeModel, RubricModel
from reward_serve.prompts.critiques import tells
from reward_serve.replica.admission import Admission
from reward_serve.replica.scoring import Scorer
from reward_serve.reward_models.judge import Judge
from reward_serve.reward_models.rubric import RubricJudge
from reward_serve.templates import GROUPS, Template, load_template, read_verdict, template_names
from tests.rows import rows
from tests.service.engines.test_openai import JSON, Endpoint, completion


async def scored(reply: Any, kind: str, mode: str = "generate") -> dict[str, Any]:
    """The result of one request to a judge or rubric at an endpoint with this reply."""
    config: dict[str, Any] = {"name": kind, "kind": kind, "remote": {"model": "m"}}
    config["judge"] = {"mode": mode}
    asked = {"response": "r", "question": "q"}
    if kind == "rubric":
        criteria = [{"name": name, "text": f"Is it {name}?"} for name in "abc"]
        config["rubric"] = {"rubrics": {"own": criteria}, "default": "own"}
    else:
        template = "similarity" if mode == "generate" else "final_answer"
        config["judge"] |= {"template": template, "rules_first": False}
        asked["reference"] = "1"
    engine = Endpoint(reply).engine()
    judge: Judge
    if kind == "rubric":
        judge = RubricJudge(RubricModel.model_validate(config), engine)
    else:
        judge = Judge(JudgeModel.model_validate(config), engine)
    result = await Scorer(kind, judge, Admission(8, 8)).score(asked)
    orjson.dumps(result)  # as the ingress writes it
    return result


@pytest.mark.parametrize(("say", "score", "reason"), rows(__file__, "thoughts"))
async def test_no_verdict_is_in_thoughts(say: str, score: float | None, reason: str | None) -> None:
    result = await scored(completion(say), "judge")
    assert result["score"] == score
    assert reason is None or (result["status"], reason in result["reason"]) == ("unparseable", True)
    cut_off = await scored(completion(say, finish_reason="length"), "judge")
    assert (cut_off["status"], cut_off["score"]) == ("truncated", None)


WRITTEN = [
    load_template(name, folder)
    for folder in ("", GROUPS)
    for name in template_names(folder)
    if load_template(name, folder).generate
]


@pytest.mark.parametrize("template", WRITTEN, ids=lambda template: template.name)
@pytest.mark.parametrize("thought", ["[THINK]{}", "{}</reasoning>", "<|inner_prefix|>{}"])
def test_no_template_of_a_response_or_a_group_reads_thinking(
    template: Template, thought: str
) -> None:
    example = template.written.example
    assert read_verdict(template, example, cut_off=False).status == "ok"
    verdict = read_verdict(template, thought.format(example), cut_off=False)
    assert (verdict.status, verdict.score) == ("unparseable", None)


YES = '{"a": "yes", "b": "yes", "c": "yes"}'


@pytest.mark.parametrize(
    ("say", "answers"),
    [
        *rows(__file__, "rubrics"),
        ('{"a":' * 9_000 + YES, "---"),
        (
            '{"a": {"reason": '
            + "[" * 900
            + "]" * 900
            + ', "verdict": "yes"}, "b": "no", "c": "no"}',
            "100",
        ),
    ],
)
async def test_a_rubrics_last_json_object_is_read_as_json(say: str, answers: str) -> None:
    result = await scored(completion(say), "rubric")
    parts = result["components"].values()
    joined = "".join("-" if part["score"] is None else f"{part['score']:g}" for part in parts)
    assert joined == answers
    assert {part["status"] for part in parts if part["score"] is None} <= {"unparseable"}
    mean = pytest.approx(answers.count("1") / 3, abs=1e-9)
    assert result["score"] == (None if "-" in answers else mean)


async def test_a_reason_with_latex_is_shown_as_it_was_written() -> None:
    why = r"\(\frac{1}{2}\) by \theta \times \sqrt{2}"
    say = f'{{"a": {{"reason": "{why}", "verdict": "yes"}}, "b": "no", "c": "no"}}'
    result = await scored(completion(say), "rubric")
    assert result["components"]["a"]["reason"] == why


def choice(**message: Any) -> Any:
    """A reply whose message has these fields."""
    reply = completion(None)
    reply["choices"][0]["message"] |= message
    return reply


PARTS = [
    {"type": "thinking", "thinking": [{"type": "text", "text": "REWARD: 1"}]},
    {"type": "reasoning", "text": "REWARD: 1"},
    {"type": "text", "text": "They agree.\nREW"},
    {"type": "output_text", "text": "ARD: 0.5"},
    "!",
    {"type": "text", "text": None},
    None,
]
CALL = {"id": "1", "type": "function", "function": {"name": "score", "arguments": '{"REWARD": 1}'}}
FAULT = {"message": "Provider returned error", "code": 502}
WEB_PAGE = httpx.Response(200, text="<html>Sign in</html>", headers={"content-type": "text/html"})


@pytest.mark.parametrize(
    ("reply", "status", "message"),
    [
        (choice(content=PARTS[:4]), "ok", ""),
        (choice(content={"type": "text", "text": "REWARD: 0.5"}), "ok", ""),
        (completion("REWARD: 0.5", message={"content": "REWARD: 0.5"}), "ok", ""),
        (choice(content=PARTS[:2]), "unparseable", "has no text"),
        (choice(content=PARTS), "unparseable", "neither a label nor"),
        (completion(message=None), "unparseable", "has no text"),
        (completion(message="REWARD: 0.5"), "unparseable", "has no text"),
        (choice(content=[]), "unparseable", "has no text"),
        (choice(content=7), "unparseable", "has no text"),
        (choice(refusal="I can't grade this."), "unparseable", "I can't grade this."),
        (choice(reasoning="REWARD: 1", thinking="REWARD: 1"), "unparseable", "has no text"),
        (choice(tool_calls=[CALL]), "unparseable", "has no text"),
        (completion(None, finish_reason="tool_calls"), "unparseable", "tool_calls"),
        (completion("REWARD: 1", finish_reason="content_filter"), "unparseable", "content_filter"),
        (completion("REWARD: 1", finish_reason={"type": "stop"}), "unparseable", "finish_reason"),
        (completion(None, finish_reason="error", error=FAULT), "unparseable", "Provider returned"),
        (completion(None, message=None, finish_reason="length"), "truncated", "max_tokens"),
        ({**completion(), "choices": None}, "error", "no choices"),
        ({**completion(), "choices": [None]}, "error", "no choices"),
        ({**completion(), "choices": "none"}, "error", "no choices"),
        ({**completion(), "choices": {"message": "REWARD: 1"}}, "error", "no choices"),
        ({"error": FAULT}, "error", "Provider returned error"),
        ({"error": "model is loading"}, "error", "model is loading"),
        ({"detail": "Not authenticated"}, "error", "Not authenticated"),
        ({}, "error", "no choices"),
        ([completion("REWARD: 1")], "error", "no choices"),
        ("REWARD: 1", "error", "no choices"),
        (httpx.Response(200, json=None), "error", "no choices"),
        (WEB_PAGE, "error", "Sign in"),
        (httpx.Response(200, text="", headers=JSON), "error", "no choices"),
        (httpx.Response(200, text="[" * 100_000, headers=JSON), "error", "no choices"),
        ({**completion("REWARD: 0.5"), "usage": None}, "ok", ""),
        ({**completion("REWARD: 0.5"), "usage": ["many"]}, "ok", ""),
        ({**completion("REWARD: 0.5"), "usage": {"prompt_tokens": "9"}}, "ok", ""),
    ],
)
async def test_a_reply_is_read_or_a_reason_quotes_it(reply: Any, status: str, message: str) -> None:
    result = await scored(reply, "judge")
    assert (result["status"], result["score"]) == (status, 0.5 if status == "ok" else None)
    assert message in (result["reason"] or "")
    assert len(result["reason"] or "") < 500 and "Error:" not in (result["reason"] or "")


NEXT = {"token": "1", "logprob": -0.1}


@pytest.mark.parametrize(
    ("logprobs", "status", "message"),
    [
        *rows(__file__, "logprobs"),
        ({"content": [{"top_logprobs": [NEXT, {"token": " 0", "logprob": -3}]}]}, "ok", ""),
        ({"content": [{"top_logprobs": [NEXT, {"token": None}]}]}, "error", "judge.mode: generate"),
    ],
)
async def test_labels_are_read_of_any_logprobs(logprobs: Any, status: str, message: str) -> None:
    reply = completion(None, message=None)
    reply["choices"][0]["logprobs"] = logprobs
    result = await scored(reply, "judge", "label")
    assert (result["status"], result["score"]) == (status, 1.0 if status == "ok" else None)
    assert message in (result["reason"] or "")


@pytest.mark.parametrize(("critique", "reference"), rows(__file__, "tells"))
def test_a_critique_tells_an_answer_in_other_forms(critique: str, reference: str) -> None:
    assert tells(critique, reference)


@pytest.mark.parametrize(("critique", "reference"), rows(__file__, "tells_nothing"))
def test_a_critique_that_names_a_mistake_tells_nothing(critique: str, reference: str) -> None:
    assert not tells(critique, reference)
