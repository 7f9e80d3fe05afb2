"""No attack reaches the prompt's structure: its control tokens and fences stay the template's."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

import pytest

from reward_serve.engines.vllm import ChatTokenizer
from reward_serve.messages import Message
from reward_serve.prompts.rendering import Renderer
from reward_serve.prompts.transcript import shown_turns
from reward_serve.schema import Mode, ScoreRequest
from reward_serve.templates import RUBRICS, Template, load_template, template_names
from reward_serve_judge.weights import prepare_bundled
from reward_serve_lab.attacks import crossed
from tests.tiers import share

SHOWN = [
    pytest.param(template, mode, id=f"{template.name}-{mode}")
    for template in (load_template("rubric", RUBRICS), *map(load_template, template_names()))
    for mode in ("label", "generate")
    if template.shows != "conversation"
    if mode == "generate" or template.label
]
FENCE = re.compile(r"</?(?:question|reference|response|criterion)>")


@pytest.fixture(scope="module")
def hub_tokenizer() -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(prepare_bundled())


@pytest.mark.parametrize(
    ("template", "mode"),
    [*SHOWN[:2], *Random(0).sample(SHOWN[2:], share(len(SHOWN) - 2, len(SHOWN) // 3))],
)
def test_the_prompts_structure_is_the_templates_whatever_the_response(
    template: Template, mode: Mode, hub_tokenizer: Any
) -> None:
    renderer = Renderer(ChatTokenizer(hub_tokenizer), max_prompt_tokens=8192)
    special = frozenset(hub_tokenizer.added_tokens_decoder)

    def structure(response: str) -> tuple[list[int], list[str]]:
        given = {"question": "How many?", "reference": "18", "criterion": "It is true."}
        fields = {**given, "response": response}
        prompt = renderer.render(template, fields, mode, response_tokens=7000, reserve_tokens=1)
        controls = [token for token in prompt.token_ids if token in special]
        return controls, FENCE.findall(hub_tokenizer.decode(prompt.token_ids))

    controls, fences = structure("x")
    assert controls and fences.count("</response>") == 1
    for attack in crossed(per_text=1):
        assert structure(attack.response) == (controls, fences), attack


@pytest.mark.parametrize("name", ["task_done", "turn_useful"])
def test_turns_are_the_requests_whatever_they_say(name: str, hub_tokenizer: Any) -> None:
    renderer = Renderer(ChatTokenizer(hub_tokenizer), max_prompt_tokens=8192)
    special = frozenset(hub_tokenizer.added_tokens_decoder)
    tag = re.compile(r"</?(?:turn|call|conversation|reference|tools)\b(?: role=\"\w+\")?", re.I)
    fields = {"question": "", "reference": "18", "tools": ""}

    template = load_template(name)

    def structure(turns: Sequence[Mapping[str, Any]]) -> tuple[list[int], list[str]]:
        messages = [*map(Message.model_validate, turns)]
        request = ScoreRequest.model_construct(messages=messages)
        show = partial(shown_turns, request, template, {})
        prompt = renderer.render(
            template, fields, "label", response_tokens=7000, reserve_tokens=1, conversation=show
        )
        controls = [token for token in prompt.token_ids if token in special]
        return controls, tag.findall(hub_tokenizer.decode(prompt.token_ids))

    call = {"name": "add", "arguments": "{}"}
    expected = structure(
        [
            {"role": "user", "content": "How many?"},
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "content": "x"},
            {"role": "assistant", "content": "x"},
        ]
    )
    assert '<turn role="tool"' in expected[1]
    for attack in crossed(per_text=1):
        if attack.messages:
            assert structure(attack.messages) == expected, attack
