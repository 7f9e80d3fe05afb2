r"""Takes off a model's thinking, in whatever markup current models write it.

read_thinking("<think>17?</think>So 18.").text        # "So 18."
read_thinking("[THINK]maybe 18, let me").ended        # False: it holds no answer
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain, islice
from typing import NamedTuple

from reward_serve_answers.values import ABSTAINED, WRONG, Grade

MAX_WORDS = 4_000

_NAMED = r"(?:seed:)?(?:think(?:ing)?|thoughts?)"  # models mix these; the others end as they begin
_PAIRS = [
    (rf"<{_NAMED}\s*>", rf"</{_NAMED}\s*>"),
    *((rf"<{name}\s*>", rf"</{name}\s*>") for name in ("reasoning", "analysis", "scratchpad")),
    ("\u25c1think\u25b7", "\u25c1/think\u25b7"),  # Kimi
    (r"\[think\]", r"\[/think\]"),  # Mistral
    (r"<\|start_thinking\|>", r"<\|end_thinking\|>"),  # Cohere
    (r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>"),
    (r"<\|inner_prefix\|>", r"<\|inner_suffix\|>"),  # Apertus
    (r"<\|channel>\s?thought", r"<channel\|>"),  # Gemma
]
_TAG = re.compile("|".join(f"({opening})|({closing})" for opening, closing in _PAIRS))
# Each tag has one of these words, at most so many characters after its first; finding them is fast.
_WORDS = ("think", "thought", "reasoning", "analysis", "scratchpad", "inner_", "channel")
_FIRST, _REACH = "<[\u25c1", 12

_AROUND_RESPONSES = ("<|START_RESPONSE|>", "<|END_RESPONSE|>")  # Cohere
# Harmony, as gpt-oss writes it, with its control tokens and where a tokenizer has removed them.
_CHANNEL, _MESSAGE = "<|channel|>", "<|message|>"
_MESSAGE_END = re.compile(r"<\|(?:end|return|call|start)\|>")
_FINAL_HEADER = re.compile(r"\s*final\b")
_ANALYSIS = re.compile(r"\s*analysis(?=[^\s:.,;)*-])")
_FINAL = "assistantfinal"


class Visible(NamedTuple):
    """A text without its thinking.

    Attributes:
        text: what stands outside thinking.
        rest: what follows the thinking with which the text begins, with any tags in it.
        ended: whether thinking has ended; if not, the text holds no answer.
        doubtful: whether a tag ends thinking that nothing began, after an answer or at the end.
    """

    text: str
    rest: str
    ended: bool = True
    doubtful: bool = False

    def settled(self, grade: Grade) -> Grade:
        """The text's grade; an abstention if thinking has not ended, or if it is wrong in doubt."""
        if self.ended and not (self.doubtful and grade.score == WRONG):
            return grade
        return Grade(ABSTAINED, "thinking_in_doubt" if self.ended else "unfinished_thinking")


@lru_cache(maxsize=2)  # a rule reads it, and then the judge's prompt
def read_thinking(text: str) -> Visible:
    """Separate what a model thinks from what it says.

    What precedes a closing tag without an opening one is thinking: chat templates may open it in
    the prompt. More than ``MAX_WORDS`` words of tags are taken for thinking that has not ended.
    """
    for token in _AROUND_RESPONSES:
        text = text.replace(token, "")
    if _CHANNEL in text:
        return _last_channel(text)
    if _ANALYSIS.match(text):
        _, final, content = text.rpartition(_FINAL)
        return Visible(content, content) if final else Visible("", "", ended=False)
    tags = _tags(text.replace("\u0130", "I").lower())  # the one letter whose lower case is longer
    if tags is None:
        return Visible("", "", ended=False)
    return _between(text, tags) if tags else Visible(text, text)


def has_tag(text: str) -> bool:
    """Whether a text contains a tag of thinking."""
    return _CHANNEL in text or _tags(text.lower()) != []


def _last_channel(text: str) -> Visible:
    """What the last final channel says; thinking has ended if it is the last of all."""
    before, *channels = text.split(_CHANNEL)
    visible = before
    ended = False
    for channel in channels:
        header, message, content = channel.partition(_MESSAGE)
        ended = bool(message and _FINAL_HEADER.match(header))
        visible = _MESSAGE_END.split(content, maxsplit=1)[0] if ended else visible
    return Visible(visible, visible, ended)


def _tags(lower: str) -> list[re.Match[str]] | None:
    """The tags of a text in lower case, in order; None if it has too many of their words."""
    starts = list(islice(chain(*(places(lower, word) for word in _WORDS)), MAX_WORDS + 1))
    tags: dict[int, re.Match[str]] = {}
    for at in starts:
        start = max(lower.rfind(first, max(0, at - _REACH), at) for first in _FIRST)
        if start >= 0 and (tag := _TAG.match(lower, start)):
            tags[start] = tag
    return None if len(starts) > MAX_WORDS else [tags[start] for start in sorted(tags)]


def places(text: str, part: str) -> Iterator[int]:
    """Where a part of a text begins, each time."""
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


def _between(text: str, tags: list[re.Match[str]]) -> Visible:
    kept: list[str] = []
    start = lead = 0
    thinking = None  # the pair that is open
    seen = doubtful = says = False
    for tag in tags:
        pair, closes = divmod((tag.lastindex or 1) - 1, 2)
        before = text[start : tag.start()]
        if thinking is None and closes:
            is_last = not text[tag.end() :].strip()
            doubtful = doubtful or seen or is_last
            if seen and is_last and before.strip():
                kept.append(before)  # a stray tag ends the text
            else:
                kept.clear()
            start = tag.end()
            lead = lead if seen else start
        elif thinking is None:
            kept.append(before)
            says = says or bool(before.strip())
            thinking = pair
        elif closes and pair == thinking:
            thinking, start = None, tag.end()
            lead = lead if says else start
        seen = True
    if thinking is None:
        kept.append(text[start:])
    unled = thinking is not None and not says
    return Visible("".join(kept), "" if unled else text[lead:], thinking is None, doubtful)
