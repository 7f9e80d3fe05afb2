r"""Where a response has the reference, and where it states its answer if no marker does.

    occurrence("18", "So 18 eggs. #### 18", "18")                # "marked"
    stated("**Result:** 18 eggs.\nLet me verify this.")          # (2, 19)

Both are hints for a small judge, and prove nothing: the reference may occur without being the
answer, or the answer be written differently. What is `stated` decides only what a long response is
cut to.
"""

from __future__ import annotations

import re
from collections import deque
from typing import Literal, get_args

Occurrence = Literal["marked", "present", "absent"]
OCCURRENCES: tuple[Occurrence, ...] = get_args(Occurrence)

_SPACES = re.compile(r"\s*([+*/^=<>,|-])\s*|(?<=[(\[{])\s+|\s+(?=[)\]}])")
_MAX_REFERENCE = 200  # characters
_LIST = re.compile(r"([(\[{])(.+,.+)([)\]}])")
_LETTER = re.compile(r"[^\W\d_]")
_CASELESS = re.compile(r"[^\W\d_]{3}|^(?:no|ja|si)$")


def occurrence(reference: str, response: str, clause: str | None) -> Occurrence:
    """Whether the reference occurs in the marked answer, elsewhere in the response, or nowhere.

    Args:
        reference: the reference as shown to the judge.
        response: the response as shown to the judge.
        clause: the text after the response's last marker, as it would be shown; None without one.
    """
    wanted = _compact(reference)
    if not wanted or len(wanted) > _MAX_REFERENCE:
        return "absent"
    marked, compacted = _compact(clause or ""), _compact(response)
    listed = _LIST.fullmatch(wanted)
    least = (listed[2] if listed else wanted).casefold()
    if not any(least in text.casefold() for text in (marked, compacted)):
        return "absent"  # the usual case; spares compiling a pattern
    pattern = _pattern(wanted, listed)
    if pattern.search(marked):
        return "marked"
    return "present" if pattern.search(compacted) else "absent"


def _compact(text: str) -> str:
    return _SPACES.sub(lambda match: match[1] or "", " ".join(text.split()))


def _pattern(wanted: str, listed: re.Match[str] | None) -> re.Pattern[str]:
    """The reference as a whole: not a part of a word, a number, a formula or a list."""
    texts = [_whole(wanted)]
    if listed and not listed[2].startswith(("(", "[", "{")):  # a list without its brackets
        another = r",-?\d" if listed[2][-1].isdigit() else r",\w"
        texts.append(rf"(?<![\w.,(\[{{-]){re.escape(listed[2])}(?![\w)\]}}]|\.\d|{another})")
    flags = re.IGNORECASE if _CASELESS.search(wanted) else re.NOFLAG
    if wanted.isascii():
        flags |= re.ASCII  # a letter of Chinese may stand beside a number
    return re.compile("|".join(texts), flags)


def _whole(wanted: str) -> str:
    before = after = ""
    if wanted[0].isalnum():
        before = r"(?<![\w^])(?<!\w[*/])(?<!\d\.)(?<![a-z]\()(?<!-inf,)"
        before += r"(?<![\w)][+-])" if _LETTER.search(wanted) else r"(?<![^\w)]-)(?<!^-)"
    if wanted[-1].isalnum() or wanted[-1] == ")":
        after = r"(?![\w^(%]|[*/]\w|\.\d|:\d|,inf\b|[+-](?:[\d(]|[a-zA-Z]\b))"
    return f"{before}{re.escape(wanted)}{after}"


_LABEL = re.compile(
    r"""(?=[acijorstđоउ正答답정])(?:  # most places are passed over at once
    \banswer[*_]{2,3}[ ]*\n[^\n]{1,60}
    | (?:\bans\b[*_]{0,3}[ ]?[.:=]
    | (?:\b(?:answer|result|solution|total|output|conclusion|in[ ]all|altogether)\b
        |\b(?:ответ|réponse|antwort|respuesta|resposta|risposta|odpowiedź|cevap|jawaban|đáp[ ]án)\b
        |答案|正解|答え?|정답|답|उत्तर)
      [*_]{0,3}(?:[ ]?\([^()\n]{1,20}\))?[ ]?(?:[:：=→|]|-[ ]|是|は)
      (?:[ ]*\n(?:[ |:-]*-[ |:-]*\n)?)?)  # on the next line, or in the next row of a table
    [|*_ ]{0,9}\S[^\n|]{0,79}?(?=[.!?;](?:\s|$)|[ ]*[|\n]|\s*$))""",
    re.IGNORECASE | re.VERBOSE,
)
_LINE = re.compile(
    r"^[ >#•-]{0,9}(?:👉|➡|✅|=)?[ ]?\*\*\*?[^*\n]{1,80}?[^*\n:]\*\*\*?[.!]?[ ]*$"
    r"|^[ ]?(?:[>👉➡✅=]|\#{1,6})[ ]?(?:[^\n]{0,40}\d[^\n]{0,40}|\W{0,3}\w\W{0,3})$",
    re.MULTILINE,
)
_BOLD = re.compile(r"\*\*[^*\n]{1,80}?[^*\n:]\*\*(?!:)")
_CONCLUSION = re.compile(
    r"(?:^|(?<=[.!?\n][ ]))[*_ ]{0,4}(?:so|thus|hence|therefore|finally)\b[^\n.!?]{0,120}?"
    r"\d[^\n!?]{0,60}?(?=[.!?](?:\s|\*|$)|\n|\Z)",
    re.IGNORECASE | re.MULTILINE,
)


def stated(text: str) -> tuple[int, int] | None:
    """Start and end of what is most likely the answer; None if nothing looks like one.

    Args:
        text: what the response committed to, without a marker.
    """
    for pattern in (_LABEL, _LINE, _BOLD, _CONCLUSION):  # the surest first
        if last := deque(pattern.finditer(text), maxlen=1):
            return last[0].span()
    return None
