from __future__ import annotations

import re
from random import Random

import pytest
from reward_serve_lab.attacks import FAMILIES

from reward_serve.judging.rendering import Renderer
from reward_serve.schema import Mode
from reward_serve.templates import RUBRICS, load_template

(OWN_CRITERIA,) = [family for family in FAMILIES if family.name == "own_criteria"]
TEXTS = [str(draft) for seed in range(5) for draft in OWN_CRITERIA.drafts(Random(seed))]
TEMPLATE = load_template("rubric", RUBRICS)


@pytest.mark.parametrize("mode", ["label", "generate"])
def test_no_response_ends_its_fence_or_adds_a_criterion_to_the_prompt(mode: Mode) -> None:
    renderer = Renderer(None, 8192)
    for text in TEXTS:
        fields = {"question": text, "reference": text, "response": text, "criterion": "It is true."}
        prompt = renderer.render(TEMPLATE, fields, mode, response_tokens=4096, reserve_tokens=1)
        user = str(prompt.messages[1]["content"])
        for tag in ("question", "reference", "response", "criterion"):
            assert len(re.findall(rf"(?i)<\s*{tag}\b", user)) == 1, text
            assert len(re.findall(rf"(?i)<\s*/\s*{tag}\b", user)) == 1, text
        assert "</response>\n<criterion>\nIt is true.\n</criterion>\n" in user, text


def test_most_texts_try_to_end_the_fence_or_to_open_another() -> None:
    hostile = [text for text in TEXTS if re.search(r"(?i)</?\s*(response|criterion)\b", text)]
    assert len(hostile) > len(TEXTS) / 2
