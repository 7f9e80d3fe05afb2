"""Word lists for the text around an answer: words that state, doubt or retract it."""

from __future__ import annotations

from reward_serve.numbers.words import DOUBTS, word_list

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

# Words before the number of a plain statement: "she makes $18", "that leaves 9 eggs".
STATING_WORDS = frozenset(
    word_list(
        """is are was were be has have had gets get got makes make made earns earn earned pays pay
        paid costs cost spends spend spent needs need needed sells sell sold eats eat ate leaves
        leave leaving equals equal uses use used takes take took buys buy bought receives receive
        received saves save saved walks walk walked runs run ran reads read gives give gave fills
        fill filled holds hold held contains contain weighs weigh weighed travels travel traveled
        travelled drives drive drove works work worked collects collect collected bakes bake baked
        plants plant planted picks pick picked drinks drink drank scores scored writes wrote
        charges charged owns own of totals totaling reaches reached becomes became brings
        brought keeps kept lasts lasted measures carries carried catches caught produces
        produced"""
    )
)
# Words before its last number if there are several: "24 shared by 4 is 6 each".
RESULT_WORDS = frozenset(
    word_list("is are makes make leaves leave leaving gives give equals equal totals")
)
CONCLUSIONS = frozenset(
    [
        *word_list("so therefore thus hence consequently altogether overall finally"),
        *("in total", "in all", "this means", "that means", "which means", "this leaves"),
        *("that leaves", "which leaves", "this gives", "that gives", "which gives", "the total"),
        *("this makes", "that makes", "which makes"),
    ]
)
# Words that may begin a statement, besides a name; and capitalised words that are not names.
SUBJECTS = frozenset(
    word_list(
        """she he they it we there this that the her his their our each everyone total profit
        cost answer x y"""
    )
)
NO_NAMES = frozenset(
    word_list(
        """in at by on with from to for of as if is are was were do does did has have can could how
        what why who which when where imagine pretend let suppose assume consider given show
        explain solve compute calculate find say write reply output give take guess pick choose
        accept mark grade note see use add subtract multiply divide not no or and but maybe"""
    )
)
# Near these, a stated number may be quoted, refer to something else, or be one of several.
STATEMENT_DOUBTS = frozenset(
    word_list(
        """other others first second should would may option options choice choices candidate
        candidates possible possibility possibilities reading readings view interpretation
        interpretations nobody noone few hardly barely seldom rarely refuse refuses deny denies
        disagree disagrees reject rejects absurd ridiculous far out reference expected score
        output reward grade label gold truth token page chapter exercise problem question line
        room number version attempt method seed id code confidence rating mark marks
        point points index section figure table note ignore verdict someone somebody some
        any anything everything everyone everybody all many several what random unless except
        let imagine pretend given show explain solve accept looking hope hopes goal ought can
        fail fails failed impossible decline declines used textbook book manual chatgpt model
        verifier solution hunch trap distractor limit multiple excess upwards fraction square
        ballpark begin begins start starts started initially originally rumor wish wishes tries
        try tried aims aim target plans plan planned claim find compute calculate subtracting
        tax discount deny disagree withdraw believe believes correct incorrect
        ago since until before after because when while where who whose"""
    )
)
