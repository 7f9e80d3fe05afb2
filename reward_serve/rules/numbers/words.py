"""Word lists: number words, modifiers, units and words that put a number in doubt."""

from __future__ import annotations

from itertools import groupby


def word_list(text: str) -> list[str]:
    """Split a word list that is written as text."""
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
_LONGEST_FIRST = sorted(NUMBER_WORDS, key=lambda word: (word[0], -len(word)))
_BY_LETTER = groupby(_LONGEST_FIRST, key=lambda word: word[0])  # other words are left at once
ANY_NUMBER_WORD = "|".join(
    f"{letter}(?:{'|'.join(word[1:] for word in words)})" for letter, words in _BY_LETTER
)
ANY_NUMBER_WORD = f"(?:{ANY_NUMBER_WORD})"
"""A pattern."""

# Amounts that are not plain numbers, and words that change a number's value.
_AMOUNTS = word_list(
    """half halves third thirds quarter quarters fourth fourths fifth fifths sixth sixths seventh
    sevenths eighth eighths ninth ninths tenth tenths eleventh elevenths twelfth twelfths
    twentieth twentieths hundredth hundredths thousandth thousandths teenth teenths
    zeros zeroes ones twos threes fours fives sixes sevens eights nines tens elevens twelves
    teens twenties thirties forties fifties sixties seventies eighties nineties hundreds
    thousands millions billions trillions k mil mln bn mio tsd tys mrd mille permille permil
    mn tn thd thds kk cr lacs zillions
    dozen dozens pair pairs couple couples twin twins duo duos trio trios score scores gross
    grosses hexadecimal ternary
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

# Words that may imply a number without spelling it out.
HIDING_WORDS = frozenset(
    [
        *(word for word in _AMOUNTS if word not in {"none", "nothing", "neither", "nor"}),
        *word_list(
            """fewer less short shy bigger smaller larger decade decades century centuries
            fortnight infinite infinity product difference digit digits
            tally tallies backwards reversed swapped inverted round rounds rounded rounding ceil
            ceiling floor nearest based celsius fahrenheit kelvin noon midday midnight"""
        ),
    ]
)

# Negation, supposition, hearsay, retraction: a number near these is not an answer.
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
UNIT_DOUBTS = DOUBTS | frozenset(
    word_list(
        """doz thou mill quadrillion quintillion zillion bajillion billionths millionths best tops
        myriad myriads ppm ppb
        bound etc ballpark crossed ruled excluded incremented negated flipped halve tempting
        supposed is was are were be been being has have had do does did should would may seems seem
        looks look fails fail appears appear becomes become before after when while during
        once until till since because as like unlike that this which who what where why how
        repeating repeated recurring periodic bar
        let in too very so now then first next other another average case problem question part
        example draft placeholder dummy sample odd something somewhere backwards reversed inverted
        swapped upside digit digits round rounds rounded rounding nearest going limit upward upwards
        onward onwards"""
    )
)
# Units that convert into each other: 2 hours are 120 minutes.
MEASURES = frozenset(
    word_list(
        """second seconds sec secs minute minutes min mins hour hours hr hrs day days week weeks
        month months year years decade decades cent cents pence penny pennies nickel nickels
        dime dimes inch inches foot feet ft yard yards mile miles mm cm km meter meters metre
        metres millimeter millimeters centimeter centimeters
        kilometer kilometers gram grams g kg kgs kilogram kilograms mg ounce ounces oz
        pound pounds lb lbs ton tons ml liter liters litre litres milliliter milliliters
        cup cups pint pints quart quarts gallon gallons tablespoon tablespoons
        tbsp tsp teaspoon teaspoons fortnight fortnights tonne tonnes acre acres hectare hectares
        mph kph yd yds mi wk wks yr yrs mo mos pt pts qt qts gal gals cl dl bit bits byte bytes
        kb mb gb kilobytes megabytes gigabytes kilometres centimetre centimetres millimetre
        millimetres kilos kms cms fathoms furlongs carats rotations revolutions
        turns radians stone bushels pecks barrels knots nautical leagues reams shillings fivers
        tenners"""
    )
)
# 3 pm may be 15, and 20 degrees 68.
SCALES = frozenset(word_list("am pm celsius fahrenheit kelvin"))
# Units and other words of one or two letters after a number; others, as in 6 ab, are variables.
SHORT_UNITS = frozenset(
    word_list(
        """a g of in at to on by an up us he we my kg km cm mm ml cl dl mg lb oz ft yd mi hr kw hz
        yr wk mo ea ct tv pe pb vr ac gb mb kb am pm pc pt qt ha sq cu mw"""
    )
)
# Adverbs that are part of a unit; any other ("18 supposedly") puts the number in doubt.
RATES = frozenset(word_list("daily weekly monthly yearly hourly nightly"))
CENTS = frozenset(word_list("cent cents pence penny pennies nickel nickels dime dimes"))
