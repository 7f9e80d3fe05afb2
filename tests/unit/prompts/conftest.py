from typing import Any

import pytest

from reward_serve.engines.vllm import ChatTokenizer
from reward_serve.prompts.rendering import Renderer
from reward_serve_judge.weights import prepare_bundled


@pytest.fixture(scope="session")
def hub_tokenizer() -> Any:
    """The bundled judge's own tokenizer, as transformers loads it."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(prepare_bundled())


@pytest.fixture(scope="session")
def tokenizer(hub_tokenizer: Any) -> ChatTokenizer:
    return ChatTokenizer(hub_tokenizer)


@pytest.fixture(scope="session")
def control_ids(hub_tokenizer: Any) -> frozenset[int]:
    return frozenset(hub_tokenizer.added_tokens_decoder)


@pytest.fixture(scope="session")
def renderer(tokenizer: ChatTokenizer) -> Renderer:
    return Renderer(tokenizer, max_prompt_tokens=2048)
