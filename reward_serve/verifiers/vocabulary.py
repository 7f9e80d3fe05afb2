"""The words the rules know: numbers, what changes a number, what takes an answer back."""

from __future__ import annotations


def _words(text: str) -> list[str]:
    return text.split()


SMALL_WORDS = {
    word: value
    for value, word in enumerate(
        _words(
            """zero one two three four five six seven eight nine ten eleven twelve thirteen
            fourteen fifteen sixteen seventeen eighteen nineteen"""
        )
    )
}
TENS_WORDS = {
    word: 10 * value
    for value, word in enumerate(
        _words("twenty thirty forty fifty sixty seventy eighty ninety"), start=2
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

# Amounts that are no plain number, and words that make one number another.
_AMOUNTS = _words(
    """half halves third thirds quarter quarters fourth fourths fifth fifths sixth sixths eighth
    eighths tens tenth tenths hundredth hundredths thousandth thousandths hundreds thousands
    millions billions trillions k mil mln bn dozen dozens pair pairs couple couples score
    scores gross grand none nothing nil both either neither nor once twice thrice double
    doubled triple tripled quadruple halved squared cubed factorial power exponent root plus
    minus times add added adding subtract subtracted multiply multiplied divide divided
    remainder mod modulo percent percentage percentages pct bps lakh lakhs crore crores
    negative inverse reciprocal opposite ish"""
)
# Ranges, lists, estimates and comparisons.
_RELATIONS = _words(
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
        *_words(
            """or than fewer less short bigger smaller larger trio duo decade decades century
            centuries fortnight infinite infinity hex binary octal more another extra
            sum product difference sqrt log"""
        ),
    ]
)

# Negation, supposition, hearsay, retraction: near these a number is no answer.
DOUBTS = frozenset(
    _words(
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
    _words(
        """should would may different other another increase decrease change changed replace
        replaced further corrected mistakes errors undo redo recheck recalculate true
        real"""
    )
)
UNIT_DOUBTS = DOUBTS | frozenset(
    _words("is was are were be been being has have had do does did should would may")
)
# Units of which one amount may be another's, in another number: 2 hours are 120 minutes.
MEASURES = frozenset(
    _words(
        """second seconds sec secs minute minutes min mins hour hours hr hrs day days week weeks
        month months year years cent cents penny pennies nickel nickels dime dimes inch
        inches foot feet ft yard yards mile miles mm cm km meter meters
        kilometer kilometers gram grams g kg kgs kilogram kilograms mg ounce ounces oz
        pound pounds lb lbs ton tons ml liter liters cup cups pint pints quart quarts
        gallon gallons"""
    )
)
CENTS = frozenset(_words("cent cents penny pennies nickel nickels dime dimes"))

# "Master key" responses (Zhao et al. 2025, "One Token to Fool LLM-as-a-Judge") are made of these.
OPENER_WORDS = frozenset(
    _words(
        """a about alright analysis analyze answer answering approach assistant begin break by
        calculate calculation calculations carefully certainly course determine down
        explain explanation figure final find first following follows for go help here i
        in is it let lets ll math me my need of ok okay our out problem process question
        reasoning response s solution solve solving start step steps sure the these think
        thinking this thought through to understand us we will with work respuesta
        solucion soluci\u00f3n l\u00f6sung \u89e3 \u89e3\u7b54 \u304b\u3044\u305b\u3064"""
    )
)
