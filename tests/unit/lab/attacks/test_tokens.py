"""No attack reaches the prompt's structure: its control tokens and fences stay the template's."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import pytest

from reward_serve.engines.vllm import ChatTokenizer
from reward_serve.judging.rendering import Renderer
from reward_serve.schema import Mode
from reward_serve.templates import Template, load_template, template_names
from reward_serve_judge.weights import prepare_bundled
from reward_serve_lab.attacks import FAMILIES, Attack, crossed
from tests.tiers import share

TEMPLATES = [load_template(name) for name in template_names()]
MODES: list[Mode] = ["label", "generate"]
SHOWN = [
    pytest.param(template, mode, id=f"{template.name}-{mode}")
    for template in TEMPLATES
    for mode in MODES
    if mode == "generate" or template.label
]
FENCE = re.compile(r"</?(?:question|reference|response)>")
CONTEXT = 8192
TOKENS_IN_VIEW = 7000


@pytest.fixture(scope="module")
def attacks() -> list[Attack]:
    return crossed(per_text=1)


@pytest.fixture(scope="module")
def hub_tokenizer() -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(prepare_bundled())


@pytest.fixture(scope="module")
def renderer(hub_tokenizer: Any) -> Renderer:
    return Renderer(ChatTokenizer(hub_tokenizer), max_prompt_tokens=CONTEXT)


def rendered(renderer: Renderer, template: Template, mode: Mode, response: str) -> list[int]:
    fields = {"question": "How many?", "reference": "18", "response": response}
    return renderer.render(
        template, fields, mode, response_tokens=TOKENS_IN_VIEW, reserve_tokens=1
    ).token_ids


@pytest.mark.parametrize(
    ("template", "mode"), Random(0).sample(SHOWN, share(len(SHOWN), len(SHOWN) // 3))
)
@pytest.mark.parametrize("family", [family.name for family in FAMILIES])
def test_the_prompts_structure_is_the_templates_whatever_the_response(
    family: str,
    template: Template,
    mode: Mode,
    attacks: list[Attack],
    renderer: Renderer,
    hub_tokenizer: Any,
) -> None:
    special = frozenset(hub_tokenizer.added_tokens_decoder)
    harmless = rendered(renderer, template, mode, "x")
    controls = [token for token in harmless if token in special]
    fences = FENCE.findall(hub_tokenizer.decode(harmless))
    assert controls and fences.count("</response>") == 1
    for attack in attacks:
        if attack.family != family:
            continue
        ids = rendered(renderer, template, mode, attack.response)
        assert [token for token in ids if token in special] == controls, attack
        assert FENCE.findall(hub_tokenizer.decode(ids)) == fences, attack
