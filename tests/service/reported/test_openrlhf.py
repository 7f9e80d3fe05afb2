"""OpenRLHF cuts prompts from the left, and sends the whole prompt beside the query."""

from typing import Any

import pytest
from fastapi import HTTPException

from reward_serve.http.compat import openrlhf_items
from tests.fake_ingress import served

PROMPT = "".join(f"[{n}] What is {n} + {n}? " for n in range(200)) + "[INST] Go on. [/INST]\n"


def asked(query: str, label: str = "18") -> dict[str, Any]:
    return {"query": [query], "prompts": [PROMPT], "labels": [label]}


@pytest.mark.parametrize("kept", [60, 300, 3_000])
@pytest.mark.parametrize("response", ["#### 18", "\n\n#### 18", "[199] What is 199 + 199?", ""])
def test_a_prompt_that_was_cut_from_the_left_is_found(kept: int, response: str) -> None:
    cut = PROMPT[-kept:]
    for decoded in (cut, " ".join(cut.split())):
        (item,) = openrlhf_items(asked(f"<|pad|>{decoded}{response}</s>"))
        assert (item["response"].strip(), item["question"]) == (response.strip(), PROMPT)


@pytest.mark.parametrize("query", [f"{PROMPT[-20:]}18", f"a{PROMPT[-300:]}18", "18"])
def test_a_query_with_too_little_of_its_prompt_is_refused(query: str) -> None:
    with pytest.raises(HTTPException, match="begins neither with it nor with its end"):
        openrlhf_items(asked(query))


def test_a_cut_prompt_is_scored_over_http() -> None:
    with served(compatible_with=["openrlhf"]) as client:
        reply = client.post("/get_reward", json=asked(PROMPT[-300:] + "#### 18"))
    assert (reply.status_code, reply.json()["rewards"]) == (200, [1.0])
