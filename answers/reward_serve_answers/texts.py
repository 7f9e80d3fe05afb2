"""Gold answers, blank texts, and the equality of texts."""

from __future__ import annotations

import re
import unicodedata
from collections import deque

from reward_serve_answers.grade import UnusableReferenceError
from reward_serve_answers.markers import braced

_BOX = re.compile(r"\\(?:boxed|fbox|framebox)(?![a-z])")
_NO_ANSWER = re.compile(r"(?:####|answer is:?)[\s$*]*\Z")
_FORMULA_SIGNS = re.compile(r"[\\^_{}=<>+*/|'\u2032]")
WRAPPINGS = (("**", "**"), ("`", "`"), ("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"))
_IN_TEXT = re.compile(r"^\\(?:text|textbf|textit|textrm|mathrm|mathbf|mbox) ?\{([^{}\\]*)\}$")
_CHOICE = re.compile(r"\(?([A-J])[).]")  # of several: "(B)", "B)"
TAIL_CHARACTERS = 5_000
"""Of a response, in which math-verify looks for the answer."""
_FIRST_LOOK = 100  # characters to check before the whole text
_BLANK_LETTERS = frozenset("$+<=>^`|~\u115f\u1160\u2800\u3164\uffa0")
_BLANK_CATEGORIES = frozenset(["Cc", "Cf", "Cs", "Mn", "Me"])
_CASELESS = frozenset(["yes", "no", "true", "false"])


def final_answer(reference: str) -> str:
    r"""Return the gold answer of a solution.

    Args:
        reference: A solution ending in "#### 18", or with a last "\boxed{18}", or the bare answer.

    Returns:
        The text after the last "####"; the content of the last box in that or, without a "####",
        in the whole reference. Stripped.
    """
    _, marker, end = reference.rpartition("####")
    text = end.strip()
    bare = text.strip("$ ").removeprefix("\\[").removesuffix("\\]").strip()
    last = deque(_BOX.finditer(bare), maxlen=1)
    if not last or (marker and last[0].start()):
        return text
    box = last[0]
    inner = braced(bare, box.end())
    if inner is None or (marker and inner[1] != len(bare)):
        return text
    return inner[0].strip()


def ends_without_answer(response: str) -> bool:
    r"""Whether the last marker has no answer: an open or empty ``\boxed{``, a bare ``####``."""
    if _NO_ANSWER.search(response[-100:]):
        return True
    last = deque(_BOX.finditer(response), maxlen=1)
    if not last:
        return False
    rest = response[last[0].end() :].lstrip()
    if rest.startswith("{"):
        inner = braced(response, last[0].end())
        return inner is None or not inner[0].strip()
    return not rest or (rest.startswith(("[", "\\")) and rest.count("{") > rest.count("}"))


def gold_answer(reference: str) -> str:
    """The answer in a reference: the text after its last ``####``, or else all of it.

    Raises:
        UnusableReferenceError: it contains no answer.
    """
    answer = final_answer(reference)
    if not answer:
        raise UnusableReferenceError(
            f"{reference[-64:]!a} contains no answer; send the gold answer"
        )
    return answer


def not_latex(reference: str) -> str:
    """What is wrong with a reference that math-verify cannot parse."""
    return (
        f"{reference[-64:]!a} is not a formula that math-verify can parse; send LaTeX, or set "
        "rule.verifier: exact"
    )


def normalised(text: str) -> str:
    """The text in Unicode NFC, with runs of whitespace replaced by a space and stripped.

    Case, punctuation and compatibility characters (², full-width letters) are kept.
    """
    return " ".join(unicodedata.normalize("NFC", text).split())


def is_blank(text: str) -> bool:
    """Whether a text shows no letter, digit or symbol that could be an answer."""
    first = set(text[:_FIRST_LOOK])
    return all(map(is_blank_character, first)) and all(map(is_blank_character, set(text)))


def is_blank_character(character: str) -> bool:
    """Whether a character is a space, punctuation or invisible."""
    category = unicodedata.category(character)
    return category[0] in "ZP" or category in _BLANK_CATEGORIES or character in _BLANK_LETTERS


def same_text(text: str, other: str) -> bool:
    """Whether two answers are the same text, but for markup around it and capitals in "yes".

    A point at the beginning, a prime, and case (Co and CO, n and N) tell answers apart.
    """
    text, other = _bare(text), _bare(other)
    if text == other or _FORMULA_SIGNS.search(text + other):
        return text == other
    words, others = text.split(), other.split()
    return len(words) == len(others) and all(map(_same_word, words, others))


def _bare(text: str) -> str:
    """The text without markup around the whole of it, and without its full stop."""
    text = normalised(text)
    if text.count("**") % 2:
        text = text.removesuffix("**")  # a marker within the bold text has the other two
    for opening, closing in WRAPPINGS:
        inner = text.removeprefix(opening).removesuffix(closing)
        if len(text) - len(inner) == len(opening + closing) and opening not in inner:
            text = inner.strip()
    text = _IN_TEXT.sub(r"\1", text).strip()
    text = text if text.endswith("..") else text.removesuffix(".").rstrip()
    letter = _CHOICE.fullmatch(text)
    return letter[1] if letter else text


def _same_word(word: str, other: str) -> bool:
    return word == other or (word.casefold() == other.casefold() in _CASELESS)
