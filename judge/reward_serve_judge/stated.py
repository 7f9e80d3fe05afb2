r"""Find where a response without a final-answer marker states its answer.

    stated("**Result:** 18 eggs.\nLet me verify this.")  # (2, 19)

It decides only what a long response is cut to: a label, bold text or the last conclusion with a
number proves nothing, but the judge should see it, whatever follows.
"""

from __future__ import annotations

import re
from collections import deque

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
