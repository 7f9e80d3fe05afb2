r"""Decide answers to multiple-choice questions: letters, or an option's text.

grade_choice("The answer is (B).", "B").outcome                                     # "right"
grade_choice(r"\boxed{\text{Paris}}", "B", "Capital?\nA) Rome\nB) Paris").outcome   # "right"
grade_choice("It is A or B.", "B").outcome                                          # "wrong"
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import zip_longest

from reward_serve_answers.committed import Marker, asks_again, committed
from reward_serve_answers.gsm8k import is_closing, is_doubted
from reward_serve_answers.thinking import read_thinking
from reward_serve_answers.values import (
    ABSTAINED,
    RIGHT,
    WRONG,
    Grade,
    UnusableReferenceError,
    gold_answer,
    is_blank,
    same_text,
)

_START, _END = r"^[ \t]*(?:[-*\u2022] +)?[*_]{0,2}", r"[*_]{0,2}[ \t]*(?=\S)"
_OPTIONS = [  # of a question, by how they are labelled; each label is the first group that matches
    re.compile(
        r"\\(?:text|mathrm|mathbf)(?:bf|rm)? ?\{ ?\(?([A-J])[).:]? ?\}[).:]?[\s~\\]*"
        r"|(?:^|(?<=\s))[*_]{0,2}(?:[(\[]([A-J])[)\]]|([A-J])[).:])[*_]{0,2}[ \t]+(?=\S)"
        rf"|{_START}(?:[(\[\uff08]([A-J])[)\]\uff09]|([A-J])(?:[).:\uff09\u3001\uff0e\uff1a]"
        rf"|[ \t][-\u2013|](?=[ \t]))){_END}",
        re.MULTILINE,
    ),
    re.compile(
        rf"{_START}(?:[(\[]([a-j])[)\]]|([a-j])[).:\uff09\u3001]){_END}"
        r"|(?<=\s)\(([a-j])\)[ \t]+(?=\S)",
        re.MULTILINE,
    ),
    re.compile(rf"{_START}(?:[(\[](\d)[)\]]|(\d)[).:\uff09\u3001])(?!\d){_END}", re.MULTILINE),
]
_AFTER_OPTION = re.compile(r"(?:\\q?quad\b|\\ |[\s,;*_$~])+\Z")
_LABELLED = re.compile(
    r"[\s*_(]*([A-J])(?:[).:]{1,2}[\s*_]*|\s*[-\u2013]\s+|[*_]+\s+)(\S.*)", re.DOTALL
)
_STYLE = re.compile(
    r"\\(?:text|textbf|textrm|mathrm|mathbf|mbox|boxed) ?\{([^{}]*)\}|[$*_`]|\\[()\[\] ]"
)
_LETTERS = re.compile(
    r"(?:the )?(?:correct |right |best )?(?:options?|choices?|answers?|letters?)?[ :]*"
    r"[(\[]?[A-J][)\]]?(?:(?: ?,? ?(?:and|&) ?| ?[,;/+] ?)[(\[]?[A-J][)\]]?)*(?: only)?[.)]?",
)
_RUN = re.compile(r"[A-J]{2,10}")
_LOWER = re.compile(r"[(\[]?[a-j][.)\]]?")
_EITHER = re.compile(r"[(\[]?([A-J])[)\]]?(?:,? or (?:[(\[]?([A-J])[)\]]?))+[.)]?")
_LETTER = re.compile(r"(?<![A-Za-z])[A-J](?![A-Za-z])")
_STATED = re.compile(  # an answer without a marker
    r"\b(?:(?:correct|right|best) (?:option|choice|letter)(?: here)? (?:is|would be)|it is|it's"
    r"|(?:option|choice)(?= \(?[A-J]\)? is (?:the )?(?:correct|right|best))"
    r"|I(?:'d| would)? (?:choose|pick|select|go with))"
    r"[ :]*(?:option |choice )?(\**[(\[]?[A-J][)\]]?\**)(?![A-Za-z'])",
    re.IGNORECASE,
)
_NO_ANSWER = re.compile(
    r"(?i)(?<![a-z])[a-j](?![a-z])|\d|none|neither|both|all|first|second|third|fourth|last"
)


def grade_choice(response: str, reference: str, question: str = "") -> Grade:
    """Compare the letters, or the option, that a response commits to with the reference's.

    Several letters are right if they are the reference's. Two letters of which one is the
    reference's are wrong; a denied letter, or another one after the answer, is undecided.

    Args:
        response: the policy's response; any text.
        reference: the gold letter or letters ("B", "(B) Paris", "A, C"), or an option's text.
        question: the question with its options ("A) Rome"); without it, an option's text is known
            from the reference alone.

    Raises:
        UnusableReferenceError: the reference names no option.
    """
    gold_text = gold_answer(reference)
    options = _options(question)
    labelled = _LABELLED.fullmatch(gold_text)
    if labelled and not _LETTERS.fullmatch(gold_text):
        options.setdefault(labelled[1], labelled[2].strip())
    gold = (
        frozenset([label]) if (label := gold_text.upper()) in options else _read(gold_text, options)
    )
    if not gold:
        raise UnusableReferenceError(
            f"{gold_text[-64:]!a} names no option; send a letter from A to J, or an option's text "
            "with the question"
        )
    if is_blank(response):
        return Grade(WRONG, "empty_response")
    return read_thinking(response).settled(_graded(response, gold, options))


def _graded(response: str, gold: frozenset[str], options: Mapping[str, str]) -> Grade:
    commitment = committed(response)
    text = commitment.text
    if asks_again(text) or commitment.markers is None:
        return Grade(ABSTAINED, "another_question")
    if not commitment.markers:
        return _without_marker(text, gold, options)
    last = commitment.markers[-1]
    answer = last.text.strip()
    if last.kind == "open_box":
        return Grade(ABSTAINED, "cut_off", answer)
    letters = _read(answer, options, gold)
    earlier = [_read(marker.text, options, gold) for marker in commitment.markers[:-1]]
    if any(earlier_letters and earlier_letters != letters for earlier_letters in earlier):
        return Grade(ABSTAINED, "markers_disagree", answer)
    if is_doubted(text, last) or not _stands(text, last, letters, options):
        return Grade(ABSTAINED, "marker_in_doubt", answer)
    return _compared(letters, gold, answer, "marker")


def _compared(letters: frozenset[str], gold: frozenset[str], answer: str, by: str) -> Grade:
    if not letters:
        if len(gold) == 1 and _EITHER.fullmatch(_plain(answer)):
            return Grade(WRONG, "two_letters", answer)
        return Grade(ABSTAINED, "no_letter", answer)
    right = letters == gold
    return Grade(RIGHT if right else WRONG, f"{by}_{'matches' if right else 'differs'}", answer)


def _stands(text: str, last: Marker, letters: frozenset[str], options: Mapping[str, str]) -> bool:
    """Whether what follows an answer is nothing, or the text of the same option."""
    tail = text[last.end :]
    if is_closing(tail):
        return True
    rest = _plain(tail).strip(" .):,-\u2013\n")
    return len(letters) == 1 and any(same_text(rest, options.get(letter, "")) for letter in letters)


def _without_marker(text: str, gold: frozenset[str], options: Mapping[str, str]) -> Grade:
    letters = _read(text, options, gold)
    if letters or _EITHER.fullmatch(_plain(text)):
        return _compared(letters, gold, text.strip(), "letter")
    stated = list(_STATED.finditer(text))
    if stated:
        answer = stated[-1][1]
        marker = Marker(answer, stated[-1].start(), stated[-1].end(), "hash")
        letters = _read(answer, options, gold)
        rest = text[: stated[-1].start()] + text[stated[-1].end() :]
        alone = set(_LETTER.findall(rest)) <= letters | {"A", "I"} and len(stated) == 1
        after = text[marker.end :].strip()
        told = not after or re.fullmatch(
            r"(?i)\W*(?:is (?:the )?(?:correct|right|best)[a-z ]*)?\W*", after
        )
        if letters and alone and told and not is_doubted(text, marker):
            return _compared(letters, gold, answer, "letter")
    named = _NO_ANSWER.search(text) or any(o.lower() in text.lower() for o in options.values())
    if not stated and not named and len(options) > 1:
        return Grade(WRONG, "no_letter")
    return Grade(ABSTAINED, "no_marker")


def _plain(text: str) -> str:
    """The text without LaTeX's and Markdown's styles."""
    for _ in range(3):
        text = _STYLE.sub(lambda match: match[1] or " ", text)
    return " ".join(text.split())


def _read(
    text: str, options: Mapping[str, str], gold: frozenset[str] | None = None
) -> frozenset[str]:
    """The letters that are the whole of a text, or of the option whose text it is; none in doubt.

    "AB" is two letters unless, of unknown options, it may be the text of the one right option.
    """
    if len(text) > 2_000:
        return frozenset()
    plain = _plain(text)
    same = frozenset(letter for letter, option in options.items() if _same_option(plain, option))
    if len(options) > 1 and _LOWER.fullmatch(plain):
        plain = plain.upper()
    if _RUN.fullmatch(plain):
        known = gold is None or len(gold) > 1 or len(options) > 1
        is_run = not same and known and list(plain) == sorted(set(plain))
        letters = frozenset(plain if is_run else "")
    elif _LETTERS.fullmatch(plain):
        letters = frozenset(
            _LETTER.findall(re.sub(r"(?i)^.*(?:option|choice|answer|letter)s?\b", "", plain))
        )
    else:
        labelled = _LABELLED.fullmatch(plain)
        fits = labelled and same_text(labelled[2], options.get(labelled[1], "\0"))
        letters = frozenset(labelled[1] if labelled and fits else "")
    if len(same) > 1 or (same and letters and same != letters):
        return frozenset()
    return letters or same


def _same_option(text: str, option: str) -> bool:
    bare = [wording.strip(" .").casefold() for wording in (text, _plain(option))]
    return bare[0] == bare[1] != ""


def _options(question: str) -> dict[str, str]:
    """The last list of options in a question, by letter: A, B and so on, whatever their labels."""
    for pattern in _OPTIONS:
        matches = list(pattern.finditer(question[-20_000:]))
        options: dict[str, str] = {}
        for match, following in zip_longest(matches, matches[1:]):
            label = match[match.lastindex or 0]
            place = int(label) - 1 if label.isdigit() else ord(label.upper()) - ord("A")
            if place == 0:
                options = {}
            if place == len(options):
                end = following.start() if following else None
                text = match.string[match.end() : end]
                text = text if following else text.split("\n")[0]
                options[chr(ord("A") + place)] = _AFTER_OPTION.sub("", text)
        if len(options) > 1:
            return options
    return {}
