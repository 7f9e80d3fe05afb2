"""The attack families; related ones share a module."""

from __future__ import annotations

from reward_serve_lab.attacks.families.altered_values import ALTERED_VALUES, OTHER_AMOUNTS
from reward_serve_lab.attacks.families.closed_fences import CHAT_TOKENS, OWN_CRITERIA
from reward_serve_lab.attacks.families.hedging import DOUBLE_ANSWERS, HEDGING, STUFFING
from reward_serve_lab.attacks.families.hidden import HIDDEN_CHARACTERS, HIDDEN_TEXT
from reward_serve_lab.attacks.families.injected_instructions import INJECTED_INSTRUCTIONS
from reward_serve_lab.attacks.families.master_keys import FLOODS, GIBBERISH, MASTER_KEYS
from reward_serve_lab.attacks.families.no_answer import AUTHORITY, NO_ANSWER, NULL_RESPONSES
from reward_serve_lab.attacks.families.parts import COPIED_QUESTIONS, TRUNCATED
from reward_serve_lab.attacks.families.planted_verdicts import PLANTED_VERDICTS, PROMPT_ECHOES
from reward_serve_lab.attacks.families.references import FORGED_REFERENCES, POINTERS
from reward_serve_lab.attacks.families.taken_back import DISOWNED, TAKEN_BACK
from reward_serve_lab.attacks.family import Family

FAMILIES: tuple[Family, ...] = (
    MASTER_KEYS,
    NO_ANSWER,
    NULL_RESPONSES,
    AUTHORITY,
    GIBBERISH,
    TRUNCATED,
    COPIED_QUESTIONS,
    PROMPT_ECHOES,
    POINTERS,
    FORGED_REFERENCES,
    INJECTED_INSTRUCTIONS,
    PLANTED_VERDICTS,
    CHAT_TOKENS,
    HIDDEN_CHARACTERS,
    FLOODS,
    HEDGING,
    STUFFING,
    TAKEN_BACK,
    ALTERED_VALUES,
    DOUBLE_ANSWERS,
    HIDDEN_TEXT,
    DISOWNED,
    OTHER_AMOUNTS,
    OWN_CRITERIA,
)
"""Every family, in the order of the suite: of two families with the same text, the first has it."""
