"""What people reported of rules and judges, asked of the deployed service.

Each line of the tables in ``tests/service/reported`` is a case: ``kind``, ``model``, ``request``,
``say`` (what an endpoint replies) and ``want``, the right scores, of which "absent" is any status
without one. ``reading.jsonl`` has what was reported, ``fresh.jsonl`` what a reader made up who had
not seen the code. A case may move to another table, and is not dropped.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reward_serve import HttpRewardClient, ScoreResult
from tests.fake_service import Call, FakeService, Reply
from tests.service.integration.applications import rule
from tests.service.integration.conftest import Deploy, wait_for

APP = "reading"
TABLES = sorted((Path(__file__).parents[1] / "reported").glob("*.jsonl"))
CASES: list[dict[str, Any]] = [
    json.loads(line)
    for table in TABLES
    for line in table.read_text(encoding="utf-8").strip().split("\n")
]
CRITERIA = [{"name": name, "text": f"The response is {name}."} for name in "abc"]
AT_START = 'REWARD: 1\n{"a": "yes", "b": "yes", "c": "yes"}'


class Endpoint(FakeService):
    """A stand-in for a hosted model, which replies to a case as its line says."""

    def answer(self, call: Call) -> Reply:
        case = re.search(r"case-(\d+)-", json.dumps(call.body))
        answer = CASES[int(case[1])]["say"] if case else AT_START
        message = {"role": "assistant", "content": answer}
        reply: Any = {"id": "c", "object": "chat.completion", "created": 0, "model": "m"}
        reply["choices"] = [{"index": 0, "message": message, "finish_reason": "stop"}]
        return Reply(reply if isinstance(answer, str) else answer)


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with Endpoint() as service:
        yield f"{service.url}/v1"


def models(base_url: str) -> list[dict[str, Any]]:
    hosted: dict[str, Any] = {
        "kind": "remote",
        "remote": {"model": "m", "base_url": base_url, "api_key_env": None},
        "judge": {"template": "similarity", "mode": "generate", "rules_first": False},
        "resources": {"num_cpus": 0.1},
    }
    rubric = {"default": "three", "rubrics": {"three": CRITERIA}}
    rules = sorted({case["model"] for case in CASES} - {"stub", "rub"})
    return [
        {"name": "stub", **hosted},
        {"name": "rub", **hosted, "judge": {"mode": "generate"}, "rubric": rubric},
        *(rule(name, name) for name in rules),
    ]


def asked(number: int) -> dict[str, Any]:
    case = CASES[number]
    request = {"model": case["model"], **case["request"]}
    return {"response": f"case-{number}-", **request} if "say" in case else request


def test_each_reported_case_has_a_right_score(deploy_app: Deploy, url: str, endpoint: str) -> None:
    deploy_app(APP, {"models": models(endpoint)})
    with HttpRewardClient(f"{url}/{APP}", timeout_s=60, max_attempts=3) as http:
        wait_for("rules and stand-ins", http.is_ready, 120)
        results = http.score_batch([asked(number) for number in range(len(CASES))])
    wrong = [
        (CASES[number], result.status.value, result.score, result.reason)
        for number, result in enumerate(results)
        if not _is_wanted(result, CASES[number]["want"])
    ]
    assert wrong == []


def _is_wanted(result: ScoreResult, want: list[Any]) -> bool:
    return any(
        result.score is None if score == "absent" else result.score == pytest.approx(score)
        for score in want
    )
