r"""Whether the text after a final answer leaves it standing.

    leaves_standing(" Check: 9 * 2 = 18, which matches.", Fraction(18), "")  # True
    leaves_standing(" April fools.", Fraction(18), "")                       # False

A retraction can use any words in any language, so a tail must consist of words that are known to
retract nothing, or that stand before the answer. One with numbers must also be a verification of
the answer: announced as one, containing it, and concluding nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

from reward_serve.rules.numbers.foreign import may_be_numbers
from reward_serve.rules.numbers.parsing import MAX_DIGITS
from reward_serve.rules.numbers.words import MODIFIER_WORDS, NUMBER_WORDS, SMALL_WORDS, TENS_WORDS
from reward_serve.rules.vocabulary import (
    ARITHMETIC_WORDS,
    CHANGING_WORDS,
    HARMLESS_WORDS,
    TAIL_DOUBTS,
)

MAX_VERIFIED = 40_000  # characters; their numbers are parsed

_CLOSING = re.compile(
    r"<\|[a-z_]{1,20}\|>|</(?:s|answer|response|output|solution)>|\\(?:text|mathrm)\s?\{|\\[)\]]"
    r"|\\end\{(?!comment)[a-z*]{1,20}\}",
    re.IGNORECASE,
)
# "18!", "18..5", "18k", "18%" and "18/2" are other numbers.
_CONTINUES = re.compile(
    r"\W*[!:?]|\.\.|[a-zA-Z\d%^_/+=<>'-]|[\"\u201d][\s.$]*\Z"
    r"|(?:[ \t]|\\[,;: ])*(?:(?:[%^/+=<>]|\*(?!\*))(?![ \t]*[A-Z][a-z])|-(?![ \t]*[A-Za-z][a-z]))"
    r"|(?:[ \t$]|\\[,;: ])*(?:[b-hj-zB-HJ-Z]\b(?!')|[\u2026\u2030\u2031\u2032\u2033]"  # 18 n
    r"|i\b(?!\.)|a\b(?! ?[a-z]{2})|\([a-z] ?[-+*)])"
    r"|[ \t$]*\\(?!Box\b|q?quad\b)[a-zA-Z]"
)
_COURTESY = re.compile(
    r"\b(?:please )?(?:let me know|feel free to (?:ask|reach out)|ask(?: me)?)"
    r"(?: if (?:you have|you need|there are|anything is|something is)"
    r"(?: any| more| other| further)*(?: questions?| help| unclear)?)?[.!\s*]*$"
)
_ANSWER = re.compile(r"\banswers?\s*(?::|is\b)")
_UNKNOWN_LETTER = re.compile(r"[^\W\d_a-zA-Z]")
_SIGNS = re.compile(
    r"[~?<>|\u274c\u274e\u26d4\u2717\u2718\U0001f44e\U0001f6ab]|[-+*/%!]=|[\u2260\u2248]"
    r"|\\end\{comment"
)
_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")
_ROMAN = re.compile(r"[ivxlcdm]{2,}")
_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")
_DOUBLE_CHECK = re.compile(r"\bdouble[- ]?check(?:s|ed|ing)?\b")
_TOO_LONG = re.compile(rf"\d{{{MAX_DIGITS + 1}}}")
_SENTENCE_END = re.compile(r"[.!;](?=\s|$)|\n")
_VERIFICATION = re.compile(
    r"\b(?:check(?:ing)?|verif(?:y|ying|ied|ication)|confirm(?:s|ed|ing|ation)?|explanation|recap"
    r"|summary|summari[sz]e|because|since|makes sense|details?|reasoning|recall)\b"
)
_CONFIRMS = re.compile(
    r"\b(?:match(?:es|ing)?|correct|consistent|holds?|confirm(?:s|ed)?|check(?:s|ed)|verified"
    r"|agrees?|given|expected|original|required)\b|[\u2713\u2714\u2705]"
)
_CONCLUDES = re.compile(
    r"\b(?:so|thus|therefore|hence|answers?|results?|final|finally|total|altogether|solution)\b"
)
# The answer is computed with, or the solution resumes.
_RESUMES = re.compile(
    r"[+=]|[a-z]\(|\\f?box|\bagain\b|\bhold on\b"
    r"|\b(?:let(?:'s| me| us)|(?:i|we)(?:'ll| will)) (?:now )?"
    r"(?:find|solve|work|start|read|do|get|see|take|add|begin|use|try|compute|calculate|determine)\b"
    r"|\b(?:finally|then|now),? we (?:can )?(?:find|calculate|compute|determine|solve)\b"
    r"|\b(?:is|are|was|the|an?|of|for|to|in|makes?|gets?|earns?|so|thus|then|we|she|he)[\s:*$]*\Z"
)
_TYPOGRAPHY = str.maketrans(
    {"\u2019": "'", "\u00d7": "*", "\u2212": "-", "\u00a0": " "}
    | dict.fromkeys("\u00b7\u22c5\u2219\u2217", "*")
    | {"\u00f7": "/"}
)


def is_bare(tail: str) -> bool:
    """Whether a tail has only punctuation, closing delimiters and end-of-text tokens."""
    return not any(map(str.isalnum, _CLOSING.sub("", tail)))


def leaves_standing(tail: str, value: Fraction | None, before: str) -> bool:
    """Whether the text after an answer leaves it standing, as far as can be proven.

    Args:
        tail: all text after the answer.
        value: the answer, if it is a number.
        before: the text before the answer, whose words may be repeated.
    """
    text = _CLOSING.sub("", tail).translate(_TYPOGRAPHY)
    if _CONTINUES.match(text) or "~~" in text:
        return False
    text = text.lower()
    if is_bare(text):
        return "%" not in text and not _SIGNS.search(text)
    text = _COURTESY.sub("", text)
    if _UNKNOWN_LETTER.search(text) or _SIGNS.search(text) or _ANSWER.search(text):
        return False
    words = set(_WORD.findall(text))
    strange = words - HARMLESS_WORDS - ARITHMETIC_WORDS
    if not strange <= _words_of(before) or strange & TAIL_DOUBTS or may_be_numbers(strange):
        return False
    counted = bool(words & (MODIFIER_WORDS | NUMBER_WORDS)) or any(map(_ROMAN.fullmatch, words))
    if not counted and not any(map(str.isnumeric, text)):
        if _RESUMES.search(text):
            return False
        return words.isdisjoint(TAIL_DOUBTS) or _is_verification(text)
    return value is not None and not words & NUMBER_WORDS and _verifies(text, value, before)


@lru_cache(maxsize=2)
def _words_of(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.translate(_TYPOGRAPHY).lower()))


def _verifies(text: str, value: Fraction, before: str) -> bool:
    """Whether a text with numbers is a separate verification of the value.

    It concludes nothing but the value and what the text before it has already.
    """
    if max(len(text), len(before)) > MAX_VERIFIED or not _is_verification(text):
        return False
    if _TOO_LONG.search(before) or _TOO_LONG.search(text):
        return False
    sentences = _SENTENCE_END.split(text)
    numbers = [list(_numbers(each)) for each in sentences]
    known = frozenset(_numbers(before)) | _in_words(before)
    for sentence, found in zip(sentences, numbers, strict=True):
        if value not in found and not known.issuperset(found) and _CONCLUDES.search(sentence):
            return False
    last = next((place for place in range(len(numbers) - 1, -1, -1) if numbers[place]), None)
    if last is None or not any(value in found for found in numbers):
        return False
    end, sentence = numbers[last][-1], sentences[last]
    known_end = end in known and _CONFIRMS.search(sentence) and not _CONCLUDES.search(sentence)
    after = _DOUBLE_CHECK.sub("", " ".join(sentences[last + 1 :]))
    return (end == value or bool(known_end)) and CHANGING_WORDS.isdisjoint(_WORD.findall(after))


def _in_words(text: str) -> frozenset[Fraction]:
    numbers = SMALL_WORDS | TENS_WORDS
    return frozenset(Fraction(numbers[word]) for word in _words_of(text) & numbers.keys())


def _is_verification(text: str) -> bool:
    """Whether a new sentence announces one before the first number."""
    sentences = _SENTENCE_END.split(text)
    for position, sentence in enumerate(sentences):
        if position and _VERIFICATION.search(sentence):
            return True
        if any(map(str.isnumeric, sentence)) or MODIFIER_WORDS & set(_WORD.findall(sentence)):
            return False
    return False


def _numbers(text: str) -> Iterator[Fraction]:
    for found in _NUMBER.finditer(text):
        yield Fraction(found[0].replace(",", ""))
