"""TRL's turns of a vision model have parts, which reached the judge as Python writes a list."""

from typing import Any

import pytest

from reward_serve_trl import judge_reward
from tests.fake_service import FakeService


def parts(*texts: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text} for text in texts]


SAID = [{"role": "assistant", "content": parts("So it is ", "#### 18")}]
PROMPT = [{"role": "user", "content": parts("9 + ", "9?")}]
IMAGE = {"type": "image", "image": object()}


async def test_the_parts_of_a_completion_are_its_text(service: FakeService) -> None:
    reward = judge_reward(url=service.url)
    assert await reward([PROMPT] * 2, [SAID, "#### 17"], answer=["18"] * 2) == [1.0, 0.0]
    assert service.calls[0].body["requests"][0]["response"] == "So it is #### 18"


async def test_with_tools_prompts_and_tools_parts_are_their_texts(service: FakeService) -> None:
    tool = {"role": "tool", "name": "add", "content": parts("1", "8")}
    reward = judge_reward(url=service.url, tools=[{"name": "add", "parameters": {}}])
    await reward([PROMPT], [[{"role": "assistant", "content": None}, tool, *SAID]], answer=["18"])
    contents = [turn["content"] for turn in service.calls[0].body["requests"][0]["messages"]]
    assert contents == ["9 + 9?", None, "18", "So it is #### 18"]


async def test_in_a_group_the_parts_of_the_prompt_are_its_text(service: FakeService) -> None:
    reward = judge_reward(url=service.url, reference=None, group_size=2)
    assert await reward([PROMPT] * 2, [SAID, "aa"]) == [1.0, 0.125]
    (call,) = service.calls
    assert call.body["responses"] == ["So it is #### 18", "aa"]
    assert call.body["messages"] == [{"role": "user", "content": "9 + 9?"}]


@pytest.mark.parametrize(
    ("settings", "prompt", "completion"),
    [
        ({}, PROMPT, [{"role": "assistant", "content": [IMAGE, *parts("#### 18")]}]),
        ({"turns": True}, [{"role": "user", "content": [IMAGE]}], SAID),
        ({"turns": True}, PROMPT, [{"role": "tool", "content": [IMAGE]}, *SAID]),
        ({"group_size": 1}, [{"role": "user", "content": [IMAGE]}], SAID),
    ],
    ids=["completion", "prompt", "tool", "group"],
)
async def test_an_image_is_refused_by_name(
    service: FakeService, settings: dict[str, Any], prompt: Any, completion: Any
) -> None:
    reward = judge_reward(url=service.url, **settings)
    with pytest.raises(ValueError, match=r"turn has a part of type 'image', .* in a text part"):
        await reward([prompt], [completion], answer=["18"])
    assert not service.calls


async def test_an_image_of_the_prompt_that_is_not_sent_is_no_fault(service: FakeService) -> None:
    reward = judge_reward(url=service.url)
    image = [{"role": "user", "content": [IMAGE, *parts("9 + 9?")]}]
    assert await reward([image], [SAID], answer=["18"]) == [1.0]
