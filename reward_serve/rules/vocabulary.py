"""Word lists for the text around an answer: words that state, doubt or retract it."""

from __future__ import annotations

from reward_serve.rules.numbers.words import DOUBTS, word_list

TAIL_DOUBTS = DOUBTS | frozenset(
    word_list(
        """should would may different other another increase decrease change changed replace
        replaced further corrected mistakes errors undo redo recheck recalculate true
        real was were question asks asked wants now next follows then back first later
        subtotal intermediate step steps still must need needs also too part take remains
        decoy draft placeholder cannot nein falsch faux falso errore sbagliato perdon pardon
        backwards reversed swapped inverted round rounds rounded rounding ceiling nearest
        fail fails failed checking deny withdraw scrap erase delete disagree inaccurate absurd
        fabrication random halve deduct apply discount far hardly making limit limits upper lower
        void withdrawn retracted deleted discarded"""
    )
)
# Before a marker, these words make what follows a quotation or a supposition.
LEAD_DOUBTS = DOUBTS | frozenset(
    word_list(
        """example instance format template sample placeholder dummy hypothetical told wants
        instructed naive attempt judge grader evaluator system user human reference hint
        verdict key gold truth other another previous earlier part student claim"""
    )
)
# "Master key" responses (Zhao et al. 2025, "One Token to Fool LLM-as-a-Judge") use these words.
OPENER_WORDS = frozenset(
    word_list(
        """a about alright analysis analyze answer answering approach assistant begin break by
        calculate calculation calculations carefully certainly course determine down
        explain explanation figure final find first following follows for go help here i
        in is it let lets ll math me my need of ok okay our out problem process question
        reasoning response s solution solve solving start step steps sure the these think
        thinking this thought through to understand us we will with work respuesta
        solucion soluci\u00f3n l\u00f6sung \u89e3 \u89e3\u7b54 \u304b\u3044\u305b\u3064"""
    )
)

# After "the answer is", these words form a remark; any other word may be the answer.
REMARK_WORDS = (
    OPENER_WORDS
    | DOUBTS
    | frozenset(
        word_list(
            """correct right true given above below here matches match same as equal equals response
            reference student and very simple clear obvious easy hard known shown found stated"""
        )
    )
)
