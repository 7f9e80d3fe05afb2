"""The policy's prompt for a problem, as token ids."""

from __future__ import annotations

from typing import Any

ASK = "End with #### <{form}>."


def prompt_tokens(tokenizer: Any, question: str, form: str = "number") -> list[int]:
    """The conversation up to the policy's answer, a ``form``, with thinking disabled."""
    ask = ASK.format(form=form)
    conversation = [{"role": "system", "content": ask}, {"role": "user", "content": question}]
    tokens: list[int] = tokenizer.apply_chat_template(
        conversation,
        add_generation_prompt=True,
        tokenize=True,
        return_dict=False,
        enable_thinking=False,  # used by some templates, such as Qwen3's
    )
    return tokens
