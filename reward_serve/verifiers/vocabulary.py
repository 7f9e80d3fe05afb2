"""The words the rules know: numbers, what changes a number, what takes an answer back."""

from __future__ import annotations


def word_list(text: str) -> list[str]:
    """Split a list of words that is written as a text."""
    return text.split()


SMALL_WORDS = {
    word: value
    for value, word in enumerate(
        word_list(
            """zero one two three four five six seven eight nine ten eleven twelve thirteen
            fourteen fifteen sixteen seventeen eighteen nineteen"""
        )
    )
}
TENS_WORDS = {
    word: 10 * value
    for value, word in enumerate(
        word_list("twenty thirty forty fifty sixty seventy eighty ninety"), start=2
    )
} | {"fourty": 40}
SCALE_WORDS = {
    "hundred": 100,
    "thousand": 10**3,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
}
NUMBER_WORDS = SMALL_WORDS.keys() | TENS_WORDS.keys() | SCALE_WORDS.keys()
ANY_NUMBER_WORD = f"(?:{'|'.join(sorted(NUMBER_WORDS, key=len, reverse=True))})"  # a pattern

# Amounts that are no plain number, and words that make one number another.
_AMOUNTS = word_list(
    """half halves third thirds quarter quarters fourth fourths fifth fifths sixth sixths seventh
    sevenths eighth eighths ninth ninths tenth tenths eleventh elevenths twelfth twelfths
    twentieth twentieths hundredth hundredths thousandth thousandths teenth teenths
    zeros zeroes ones twos threes fours fives sixes sevens eights nines tens elevens twelves
    teens twenties thirties forties fifties sixties seventies eighties nineties hundreds
    thousands millions billions trillions k mil mln bn mio tsd tys mrd mille permille permil
    dozen dozens pair pairs couple couples twin twins duo duos trio trios score scores gross
    grand none nothing nil nought naught oh both either neither nor once twice thrice double
    doubles doubled triple triples tripled quadruple quadrupled halved fold tuple tuples
    squared cubed factorial power exponent root sqrt log ln sin cos tan exp pi tau phi plus
    minus times add added adding subtract subtracted multiply multiplied divide divided
    remainder mod modulo percent percentage percentages percentile percentiles pct bps basis
    point dot comma lakh lakhs lac crore crores negative inverse reciprocal opposite
    ish hex binary octal base kilo mega giga centi milli alpha beta gamma theta"""
)
# Ranges, lists, estimates and comparisons.
_RELATIONS = word_list(
    """or and to through versus vs between among about around approximately approx roughly nearly
    almost circa close estimated estimate than least most under over above below beyond
    beneath exceeding except excluding minimum maximum max min upto until fewer less greater
    higher lower bigger smaller larger short off debt loss deficit owed owes overdrawn"""
)
MODIFIER_WORDS = frozenset([*_AMOUNTS, *_RELATIONS])

# Words in which a number may hide that is not spelled out.
HIDING_WORDS = frozenset(
    [
        *_AMOUNTS,
        *word_list(
            """or than fewer less short shy bigger smaller larger decade decades century centuries
            fortnight infinite infinity more another extra sum product difference digit digits
            tally tallies backwards reversed swapped inverted round rounds rounded rounding ceil
            ceiling floor nearest based"""
        ),
    ]
)

# Negation, supposition, hearsay, retraction: near these a number is no answer.
DOUBTS = frozenset(
    word_list(
        """no not never non without cannot none wait actually but however although though yet
        instead correction mistake mistaken error wrong incorrect incorrectly false untrue
        fake invalid void oops whoops sorry apologies hmm nope nah scratch strike ignore
        disregard forget retract revise revised reconsider rather alternatively otherwise
        else maybe perhaps possibly probably unlikely might could if unless suppose assume
        assuming whether guess doubt unsure uncertain unknown unclear depends kidding joke
        joking jk lie lying psych sike bogus nonsense trick cancel sout phantom rejected
        except says said claims claimed thinks believes contrary isnt wasnt dont doesnt
        didnt cant arent aint wont"""
    )
)
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
UNIT_DOUBTS = DOUBTS | frozenset(
    word_list(
        """doz thou mill quadrillion quintillion zillion bajillion billionths millionths best tops
        bound etc ballpark crossed ruled excluded incremented negated flipped halve tempting
        supposed is was are were be been being has have had do does did should would may seems seem
        looks look fails fail appears appear becomes become before after when while during
        once until till since because as like unlike that this which who what where why how
        in too very so now then first next other another average case problem question part
        example draft placeholder dummy sample odd something somewhere backwards reversed inverted
        swapped upside digit digits round rounds rounded rounding nearest going limit"""
    )
)
# What makes the line before a marker, or the clause around it, quote or suppose what follows.
LEAD_DOUBTS = DOUBTS | frozenset(
    word_list(
        """example instance format template sample placeholder dummy hypothetical told wants
        instructed naive attempt judge grader evaluator system user human reference hint
        verdict key gold truth other another previous earlier part student claim"""
    )
)
# Units of which one amount may be another's, in another number: 2 hours are 120 minutes.
MEASURES = frozenset(
    word_list(
        """second seconds sec secs minute minutes min mins hour hours hr hrs day days week weeks
        month months year years cent cents penny pennies nickel nickels dime dimes inch
        inches foot feet ft yard yards mile miles mm cm km meter meters
        kilometer kilometers gram grams g kg kgs kilogram kilograms mg ounce ounces oz
        pound pounds lb lbs ton tons ml liter liters cup cups pint pints quart quarts
        gallon gallons"""
    )
)
# Adverbs that belong to a unit; any other ("18 supposedly") puts the number in doubt.
RATES = frozenset(word_list("daily weekly monthly yearly hourly nightly"))
CENTS = frozenset(word_list("cent cents pence penny pennies nickel nickels dime dimes"))

# "Master key" responses (Zhao et al. 2025, "One Token to Fool LLM-as-a-Judge") are made of these.
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

# What follows "the answer is" in a remark about it. Any other word there may be the answer.
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

# What a plain statement's number follows: "she makes $18", "that leaves 9 eggs".
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
# What its last number follows where others stand before it: "24 shared by 4 is 6 each".
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
# What a statement may begin with, beside a name; and what no name is.
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
# Near these a stated number may be somebody else's, somewhere else's or one of several.
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
