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
        void withdrawn retracted deleted discarded before more"""
    )
)
# After an answer, these words retract nothing, in any order.
HARMLESS_WORDS = frozenset(
    word_list(
        """a about above accordingly after again all also altogether always an and any answer
        answers apart are as at be because been before being below both box boxed bring
        brings bought buy buys by calculation calculations can cents check checked
        checking checks clear clearly combined computation computed conclude concluding
        conclusion condition conditions confirm confirmation confirmed confirming
        confirms consistent constraint constraints correct cost costs cover covers day
        days dear detail details distance dollar dollars done double-check each earn
        earned earns easily end ends entire equal equals equation equations every
        everything exact exactly expected explain explained explanation feet final
        finally find first follow follows for found from full further gave get gets give
        given gives go goes good great had has have having he help helpful helps hence
        her here herself him himself his hold holds hope hour hours how i in indeed
        initial into is it it's item items its itself know leads leave leaves left let
        let's long lot made make makes match matches matching matter many me much mean means
        method mile miles minute minutes money month months more my need needed needs
        notice number numbers of on original our out over overall paid part parts pay
        pays people per plug plugging point precisely price problem proceed quantity
        question read reader reads reason reasoning recall recap receive received
        receives remain remaining remains required requires rest result results right
        satisfied satisfies satisfy see sell sells sense she show showing shown shows
        simply since so solution solve solved spend spends spent start starts started
        state stated statement step steps straightforward substitute substituting sum
        summarise summarize summary sure take taken takes task thank thanks that the
        their them themselves then there therefore these they thing things this those
        through thus time to together total totals unit units us use used uses using
        value values verification verified verify verifying was way we week weeks well
        went were what where which while who whole why will with within work worked
        working works write written year years yes you your yourself"""
    )
) - frozenset(["or"])
# These may turn an answer into another number: "Double this."
CHANGING_WORDS = frozenset(
    word_list(
        """add added adding adds divide divided divides dividing double half minus multiplied
        multiplies multiply multiplying plus subtract subtracted subtracting times twice"""
    )
)
# Words that change an adjacent number, allowed in a verification.
ARITHMETIC_WORDS = CHANGING_WORDS | frozenset(["and", "both", "over", "through", "to"])
# Before a marker, these words make what follows a quotation or a supposition.
LEAD_DOUBTS = DOUBTS | frozenset(
    word_list(
        """example instance format template sample placeholder dummy hypothetical told wants
        instructed naive attempt judge grader evaluator system user human reference hint
        verdict key gold truth other another previous earlier part student claim
        tempting tempted trap distractor ruled wrongly mistakenly falsely erroneous erroneously
        nicht kein keine niet pas ikke inte nie falsch falsche falsa falso fausse faux incorrecta
        incorrecto incorrecte errada errado sbagliata sbagliato
        niemals nunca jamais angenommen wenn falls supongamos suponiendo supposons si"""
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
