"""The attack families, one module each."""

from __future__ import annotations

from reward_serve_lab.attacks.families import (
    altered_values,
    authority,
    chat_tokens,
    copied_questions,
    disowned,
    double_answers,
    floods,
    forged_references,
    gibberish,
    hedging,
    hidden_characters,
    hidden_text,
    injected_instructions,
    master_keys,
    no_answer,
    null_responses,
    other_amounts,
    own_criteria,
    planted_verdicts,
    pointers,
    prompt_echoes,
    stuffing,
    taken_back,
    truncated,
)
from reward_serve_lab.attacks.family import Family

FAMILIES: tuple[Family, ...] = (
    master_keys.FAMILY,
    no_answer.FAMILY,
    null_responses.FAMILY,
    authority.FAMILY,
    gibberish.FAMILY,
    truncated.FAMILY,
    copied_questions.FAMILY,
    prompt_echoes.FAMILY,
    pointers.FAMILY,
    forged_references.FAMILY,
    injected_instructions.FAMILY,
    planted_verdicts.FAMILY,
    chat_tokens.FAMILY,
    hidden_characters.FAMILY,
    floods.FAMILY,
    hedging.FAMILY,
    stuffing.FAMILY,
    taken_back.FAMILY,
    altered_values.FAMILY,
    double_answers.FAMILY,
    hidden_text.FAMILY,
    disowned.FAMILY,
    other_amounts.FAMILY,
    own_criteria.FAMILY,
)
"""Every family; those whose texts state no answer come first."""
