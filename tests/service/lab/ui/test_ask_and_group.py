import json
import os
import subprocess
from typing import Any

import pytest

from examples.grpo.samples import group_advantages
from reward_serve_lab.evaluation.json_lines import LinesError
from reward_serve_lab.ui.ask import as_curl, as_python, requests_of
from reward_serve_lab.ui.samples import (
    EXAMPLE,
    MAX_SAMPLES,
    TRAINERS,
    advantages,
    groups_of,
    read_samples,
)
from reward_serve_lab.ui.session import Draft
from tests.fake_service import FakeService

REWARDS = [1.0, 0.0, None, 1.0, 0.5]
HOSTILE = "it's $(id) `id` \"x\" \\ \n\u202e\ud83d\ude00 {} ${HOME} '''"


@pytest.mark.parametrize("trainer", TRAINERS)
def test_undecided_samples_have_no_advantage_and_others_add_up_to_zero(trainer: str) -> None:
    actual = advantages(REWARDS, trainer)
    assert actual[2] is None
    assert sum(a for a in actual if a is not None) == pytest.approx(0)
    assert advantages([1.0, 1.0], trainer) == [0.0, 0.0]
    assert advantages([1.0, None], trainer) == [0.0, None]


def test_advantages_are_those_of_examples_grpo() -> None:
    actual = advantages(REWARDS, "GRPO, SkyRL and verl")
    assert actual == pytest.approx(group_advantages(REWARDS), nan_ok=True)


@pytest.mark.parametrize(
    "text",
    [
        EXAMPLE.replace('"reference"', '"correct": true, "reference"') + "\n\n",
        EXAMPLE.replace("\n", "\r\n"),
        EXAMPLE.replace("120", "120\u2028\u0085"),
    ],
)
def test_samples_are_read_from_lines(text: str) -> None:
    requests = read_samples(text)
    assert [set(request) for request in requests] == [{"reference", "response"}] * 4
    other = {"response": "x", "reference": "1"}
    keyed = {**requests[0], "group": "g"}  # of a group by its key, not by its problem
    assert [*groups_of([*requests, other, keyed]).values()] == [[0, 1, 2, 3], [4], [5]]


def test_conversations_with_one_prompt_are_a_group() -> None:
    task = {"role": "user", "content": "9 + 9?"}
    replies = [{"role": "assistant", "content": text} for text in ("18", "So 18.", "17")]
    rows: list[dict[str, Any]] = [{"messages": [task, reply]} for reply in replies]
    rows += [{"messages": [task, replies[0], task], "response": "18"}]
    requests = read_samples("\n".join(map(json.dumps, rows)))
    assert [*groups_of(requests).values()] == [[0, 1, 2], [3]]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "there are no samples"),
        ('{"response": "18"}\n{"reference": "18"}', "line 2: response: is missing; send it"),
        ("18\n\n{", "line 1: must be an object|line 3: is not JSON"),
        ('{"response": "18"}\n' * (MAX_SAMPLES + 1), f"the page accepts {MAX_SAMPLES:,}"),
    ],
)
def test_what_is_no_sample_is_named(text: str, fault: str) -> None:
    with pytest.raises(LinesError, match=fault):
        read_samples(text)


def test_models_templates_and_modes_are_asked_side_by_side() -> None:
    two: dict[str, Any] = {
        "models": ["a", "b"],
        "templates": ["c", "d"],
        "modes": ["label", "generate"],
    }
    asked = requests_of(Draft(reference="18", response="18", **two))
    assert len(asked) == 8
    last = asked["b · d · generate"]
    assert (last["model"], last["template"], last["options"]) == ("b", "d", {"mode": "generate"})
    talk = {"messages": [{"role": "assistant", "content": "18"}]}
    for text, turns in ((talk, True), (talk["messages"], True), ({**talk, "turns": False}, False)):
        draft = Draft("9 + 9?", "18", "17", json.dumps(text))
        assert [*requests_of(draft).values()] == [
            {**talk, "reference": "18", "turns": turns, "timeout_s": 60.0}
        ]
    with pytest.raises(ValueError, match="not JSON"):
        requests_of(Draft(conversation="["))
    with pytest.raises(ValueError, match=r"9 combinations .* at most 8"):
        requests_of(Draft(models=["a", "b", "c"], templates=["d", "e", "f"]))


def test_the_curl_command_carries_the_request_to_the_character() -> None:
    request = {"response": HOSTILE * 10_000 + "\nEOF\n", "reference": "18"}
    command = as_curl("http://127.0.0.1:8000", request, True)
    assert command.isascii()
    stand_in = "curl() { printf '%s\\0' \"$@\"; cat; }\n"
    ran = subprocess.run(
        ["bash"],
        input=stand_in + command,
        env={"REWARD_SERVE_API_KEY": "key", "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    *words, body = ran.stdout.split("\0")
    assert json.loads(body) == json.loads(json.dumps(request))
    assert words[1] == "http://127.0.0.1:8000/v1/score"
    assert "authorization: Bearer key" in words


def test_the_python_snippet_runs(
    service: FakeService, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REWARD_SERVE_API_KEY", "from-the-environment")
    request = {"question": HOSTILE, "response": "#### 18", "reference": "18"}
    exec(as_python(service.url, request, True), {})
    assert "score=1.0" in capsys.readouterr().out
    call = service.calls[-1]
    assert call.headers["authorization"] == "Bearer from-the-environment"
    (body,) = call.body["requests"]
    assert {name: body[name] for name in request} == json.loads(json.dumps(request))
