r"""Whether a response ends by denying a value without replacing it.

denies("I get 18. No, that cannot be right.", Fraction(18))  # True
denies("17? No, 18.", Fraction(18))                          # False: it ends with 18
denies("It is 18. Some say 17, which is wrong.", Fraction(18))  # False: 17 is denied
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction

from reward_serve.numbers.parsing import parse_number, plain_text
from reward_serve.numbers.words import ANY_NUMBER_WORD

MAX_RESPONSE = 6_000

_SENTENCE = re.compile(r"[^\n]+?(?:[.!?]+(?=\s|$)|\.\.\.|…|\n|$)")
_NUMERAL = re.compile(
    rf"-?\d[\d,]*(?:\.\d+)?|\b{ANY_NUMBER_WORD}(?:[ -](?:and )?{ANY_NUMBER_WORD})*\b", re.IGNORECASE
)
_WRONG = r"(?:wrong|incorrect|false|untrue|mistaken|an? (?:mistake|error)|impossible|nonsense)"
_RIGHT = r"(?:right|correct|so|true|it|possible|the (?:(?:right|correct) )?(?:answer|result))"
_IS = r"(?:'s|is|was|are|must be|has to be|would be)"
_IS_NOT = r"(?:(?:is|was|are|would|will|can|could)(?:n't| not)|cannot|can't|won't)(?: be)?"
_SURELY = r"(?:(?:simply|just|clearly|plainly|surely|certainly|definitely|obviously|quite) )?"
_VERDICT = rf"(?:{_IS} {_SURELY}{_WRONG}|{_IS} {_SURELY}not {_RIGHT}|{_IS_NOT} {_SURELY}{_RIGHT})"
_LEAD = r"(?:(?:but|and|so|hmm|wait|oh|well|sorry|actually|hold on|oops|though)\W+)*"
_REJECTED = (
    r"(?:no|nope|nah|wrong|incorrect|false|not (?:quite|right|so|correct|really|true)"
    r"|(?:certainly|definitely|surely|absolutely|clearly|of course|most likely) not"
    rf"|(?:that|this|it|which|(?:the|my) (?:answer|result|value|number)) ?{_VERDICT}"
    r"|i (?:doubt it|made an? (?:mistake|error|slip)|was wrong|take (?:it|that) back)"
    r"(?: (?:here|there|somewhere))?)"
)
_REJECTION = re.compile(rf"{_LEAD}{_REJECTED}(?:\W+{_REJECTED})*\W*")
_ASKED = re.compile(r"(?:(?:is|was|could) (?:it|that) |so |the answer is )?@\W*(?:[a-z]+\W*)?\?")
_VALUE = "@"  # placeholder for the number
_DENIAL = re.compile(
    rf"{_LEAD}(?:(?:the )?(?:answer|result|total|it)(?:'s| is| was)?\W+)?{_VALUE}\W*(?:[a-z]+ )?"
    rf"{_VERDICT}\W*|{_LEAD}(?:not|never|anything but) {_VALUE}\W*"
    rf"|(?:the )?(?:answer|result|total|it) (?:isn't|is not|cannot be|can't be|wasn't) {_VALUE}\W*"
)
_BEFORE = r"(?:twice|double|triple|half of|(?:two|three|four|five|ten) times) "
_BEHIND = (
    r"(?: (?:squared|cubed|doubled|tripled|quadrupled|halved|factorial|backwards)"
    r"|\s?(?:\^|\*\*) ?\{?[2-9]\}?)"
)
_ALTERED = re.compile(rf"{_BEFORE}(?P<of>[^a-z^*/+]+)|(?P<by>[^a-z^*/+]+?){_BEHIND}[\s.]*")


def denies(response: str, value: Fraction) -> bool:
    """Whether the response names ``value`` in one sentence and ends by denying it.

    Args:
        response: The policy's response.
        value: The reference's value.
    """
    if len(response) > MAX_RESPONSE:
        return False
    found = (one[0].strip().lower() for one in _SENTENCE.finditer(plain_text(response)))
    sentences = [one for one in found if any(map(str.isalnum, one))]
    while sentences and not _NUMERAL.search(sentences[-1]) and len(sentences) > 1:
        if not _REJECTION.fullmatch(sentences[-1].rstrip(" .!…")):
            return False
        if _NUMERAL.search(sentences[-2]):
            asked = _NUMERAL.sub(_VALUE, sentences[-2])
            return _last_names(sentences[:-1], value) and (
                not asked.endswith("?") or bool(_ASKED.fullmatch(asked))
            )
        sentences.pop()
    if not sentences or not _last_names(sentences, value):
        return False
    return bool(_DENIAL.fullmatch(_NUMERAL.sub(_VALUE, sentences[-1]).rstrip(" .!…")))


def alters(answer: str, value: Fraction) -> bool:
    """Whether an answer applies an operation to ``value`` that changes it.

    Args:
        answer: The text after a marker, such as "18 squared".
        value: The reference's value.
    """
    altered = _ALTERED.fullmatch(plain_text(answer).strip().lower())
    number = parse_number(altered["of"] or altered["by"]) if altered else None
    return number is not None and number.value == value and abs(value) > 2  # 2 + 2 is 2 * 2


def _last_names(sentences: list[str], value: Fraction) -> bool:
    """Whether the last sentence ends in ``value`` and no earlier sentence contains it."""
    *earlier, last = [list(_values(one)) for one in sentences]
    return last[-1:] == [value] and all(value not in values for values in earlier)


def _values(sentence: str) -> Iterator[Fraction | None]:
    for numeral in _NUMERAL.finditer(sentence):
        number = parse_number(numeral[0].rstrip(","))
        yield number.value if number else None
