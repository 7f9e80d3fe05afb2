"""The policy's prompt for a problem, as token ids."""

from __future__ import annotations

from typing import Any

ASK = "End with #### <number>."


def prompt_tokens(tokenizer: Any, question: str) -> list[int]:
    """The conversation up to the policy's answer, with thinking disabled."""
    conversation = [{"role": "system", "content": ASK}, {"role": "user", "content": question}]
    tokens: list[int] = tokenizer.apply_chat_template(
        conversation,
        add_generation_prompt=True,
        tokenize=True,
        return_dict=False,
        enable_thinking=False,  # used by some templates, such as Qwen3's
    )
    return tokens
