"""Renders conversations as token ids that fit a model's context.

Each turn's text is tokenised separately, so that special tokens in it stay text. Calls and tools
are part of the chat template's text, and special tokens in them are defused.

A conversation that is too long is cut: first the oldest exchanges are dropped, except system turns
and the last two turns. Within an exchange the user's turn is kept, and a call goes with what the
tools answered. Then the remaining turns share the tokens, each keeping its end, and each gets at
least half of what the turns after it leave.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from itertools import takewhile
from typing import Any

from reward_serve.engines.base import Tokenizer
from reward_serve.messages import with_texts
from reward_serve.prompts.rendering import Read, enough

_MARKER = re.compile("\ue000([0-9]+)\ue001")
_NAMED = re.compile("\ue000(n[0-9]+\ue001)")
_PROBE = ' \ue000"\ue001 '
_CALL = {"id": "callprobe", "type": "function", "function": {"name": "f", "arguments": {}}}
_RUNS = 256  # texts of the chat template whose tokens are kept; a conversation's states share them

Turn = Mapping[str, Any]
"""With a text as ``content``, and a call's arguments an object, or a text if they are none."""
Tools = Sequence[Mapping[str, Any]] | None
_STEP = ["tool", "assistant"]
_Run = tuple[list[int], int | None]


@dataclass(frozen=True)
class Conversation:
    """A rendered conversation."""

    token_ids: list[int]
    shown: Mapping[int, int]  # each turn that was kept, to the characters cut from its beginning


class ConversationRenderer:
    """Renders conversations of at most ``max_tokens`` for one model."""

    def __init__(self, tokenizer: Tokenizer, max_tokens: int) -> None:
        self._tokenizer = tokenizer
        self._max_tokens = max_tokens
        self._encode = lru_cache(_RUNS)(tokenizer.encode_control)
        asked: Turn = {"role": "user", "content": _PROBE}
        called: Turn = {"role": "assistant", "content": "", "tool_calls": [_CALL]}
        self._rewrites = [_rewrites(tokenizer.conversation([asked], None))] * 2
        with suppress(Exception):  # the chat template may reject calls
            turns = [{**asked, "content": "?"}, called, {**asked, "role": "tool"}]
            self._rewrites[1] = _rewrites(tokenizer.conversation(turns, None))

    def render(self, turns: Sequence[Turn], tools: Tools = None) -> Conversation:
        """Render the conversation, cut to fit.

        Raises:
            ValueError: the chat template rejects these turns or tools, drops some of them, or is
                too long without the turns' texts.
        """
        turns, tools = self._safe(turns, tools)
        show = partial(self._tokenizer.conversation, tools=tools)
        texts = self.contents(turns)
        first = len(list(takewhile(lambda turn: turn["role"] == "system", turns)))

        @cache
        def end(i: int) -> tuple[int, Read]:
            return enough(texts[i], self._max_tokens, self._read, at_end=True)

        @cache
        def tokens(i: int) -> tuple[list[int], int]:
            return _last(self._max_tokens, *end(i))

        @cache
        def cut_to(start: int) -> tuple[list[int], list[_Run], int, bool]:
            kept = _kept(turns, first, start)
            parts = _parts([turns[i] for i in kept], show, tools)
            runs = [(self._encode(text), place) for text, place in parts]
            left = room = self._max_tokens - sum(len(ids) for ids, _ in runs)
            # From the end, so that no turn is tokenised that cannot fit.
            over = any((left := left - len(tokens(i)[0])) < 0 for i in reversed(kept))
            return kept, runs, room, over

        starts = _starts(turns, first)
        if len(starts) > 1 and cut_to(starts[0])[3]:  # rendering is slow, so not one by one
            starts = starts[bisect_left(starts[:-1], True, lo=1, key=lambda i: not cut_to(i)[3]) :]
        kept, runs, room, over = cut_to(starts[0])
        ends = {i: tokens(i) for i in kept}
        if over or room < 2:
            room -= sum(len(ends[i][0]) for i in kept[:first])
            if room < 2:
                raise ValueError(
                    "messages: the chat template, system turns, tools and calls leave no room in "
                    f"{self._max_tokens} tokens; shorten them, or raise engine.max_model_len"
                )
            before = sum(len(ends[i][0]) for i in kept[first:])
            for i in reversed(kept[first:]):
                before -= len(ends[i][0])
                budget = max(room - before, (room + 1) // 2)
                ends[i] = _last(min(len(ends[i][0]), budget), *end(i))
                room -= len(ends[i][0])
        ids: list[int] = []
        for run, place in runs:
            ids += run
            if place is not None:
                ids += ends[kept[place]][0]
        return Conversation(ids, {i: ends[i][1] for i in kept})

    def render_steps(self, turns: Sequence[Turn], steps: Sequence[str], tag: int) -> Conversation:
        """Render the conversation uncut, its last turn as steps with the token ``tag`` after each.

        Raises:
            ValueError: as for ``render``, or it is too long.
        """
        turns, _ = self._safe(turns, None)
        texts, ids = self.contents(turns), list[int]()
        for text, place in _parts(turns, partial(self._tokenizer.conversation, tools=None)):
            ids += self._encode(text)
            if place == len(turns) - 1:
                for step in steps:
                    ids += [*self._tokenizer.encode_plain(step)[0], tag]
            elif place is not None:
                ids += self._tokenizer.encode_plain(texts[place])[0]
        if len(ids) > self._max_tokens:
            raise ValueError(
                f"response: with its conversation it has {len(ids)} tokens, and steps are scored "
                f"uncut; shorten it to {self._max_tokens}, or raise engine.max_model_len"
            )
        return Conversation(ids, dict.fromkeys(range(len(turns)), 0))

    def texts(
        self, turns: Sequence[Turn], shown: Mapping[int, int], tools: Tools = None
    ) -> list[tuple[str, int | None]]:
        """The text of the conversation that ``render`` has ``shown``, in parts.

        Each has the index of its turn, or None if it is the chat template's.
        """
        turns, tools = self._safe(turns, tools)
        show = partial(self._tokenizer.conversation, tools=tools)
        texts, kept = self.contents(turns), list(shown)
        parts: list[tuple[str, int | None]] = []
        for text, place in _parts([turns[i] for i in kept], show, tools):
            parts.append((text, None))
            if place is not None:
                parts.append((texts[kept[place]][shown[kept[place]] :], kept[place]))
        return parts

    def contents(self, turns: Sequence[Turn]) -> list[str]:
        """Each turn's text as the chat template shows it."""
        texts = []
        for turn in turns:
            trims, as_json = self._rewrites[turn["role"] == "tool"]
            text = turn["content"].strip() if trims else turn["content"]
            texts.append(json.dumps(text, ensure_ascii=False)[1:-1] if as_json else text)
        return texts

    def _safe(self, turns: Sequence[Turn], tools: Tools) -> tuple[list[Turn], Tools]:
        """A copy in which only contents may have control tokens, with a mark after each name."""
        turns = [{**self._defused({**t, "content": ""}), "content": t["content"]} for t in turns]
        tools = self._defused(tools or None)
        for number, named in enumerate([*(tools or ()), *_calls(turns)]):
            named["function"]["name"] += f"\ue000n{number}\ue001"
        return turns, tools

    def _defused(self, value: Any) -> Any:
        defused = self._tokenizer.defused
        return with_texts(value, lambda text: defused(text).replace("\ue000", "\ufffd"))

    def _read(self, text: str) -> Read:
        return Read(text, *self._tokenizer.encode_plain(text))


def _rewrites(text: str) -> tuple[bool, bool]:
    """Whether a chat template strips texts, as in Llama's, and writes them as JSON."""
    return not (" \ue000" in text and "\ue001 " in text), '\ue000\\"' in text


def _last(budget: int, skipped: int, end: Read) -> tuple[list[int], int]:
    """The last ``budget`` tokens of a text, and the number of characters before them."""
    if budget <= 0:
        return [], skipped + len(end.text)
    if len(end.ids) <= budget:
        return end.ids, skipped
    return end.ids[-budget:], skipped + end.starts[-budget]


def _starts(turns: Sequence[Turn], first: int) -> list[int]:
    """The turns, after system turns, with which a conversation that is cut may start."""
    roles = [turn["role"] for turn in turns]
    last = max(first, len(turns) - 2)
    while last > first and roles[last] == "tool":
        last -= 1
    steps = (
        i for i in range(first + 1, last) if roles[i] == "user" or roles[i - 1 : i + 1] == _STEP
    )
    return [first, *steps, *([last] if last > first else [])]


def _kept(turns: Sequence[Turn], first: int, start: int) -> list[int]:
    """System turns and those from ``start``, with a user's, which many chat templates need."""
    users = [i for i in range(first, start) if turns[i]["role"] == "user"]
    asked = users[-1:] if turns[start]["role"] != "user" else []
    return [*range(first), *asked, *range(start, len(turns))]


def _parts(
    turns: Sequence[Turn], show: Callable[[Sequence[Turn]], str], tools: Tools = None
) -> list[tuple[str, int | None]]:
    """The chat template's text before each turn's text, with the turn's index, and after the last.

    Raises:
        ValueError: the chat template rejects or drops some of these turns or tools.
    """
    # No marker where calls stand alone, since templates test for a text beside them.
    alone = ["tool_calls" in turn and not turn["content"] for turn in turns]
    places = [i for i in range(len(turns)) if not alone[i]]
    marks = ["" if is_alone else f"\ue000{i}\ue001" for i, is_alone in enumerate(alone)]
    try:
        marked = [{**t, "content": mark} for t, mark in zip(turns, marks, strict=True)]
        text = show(marked)
    except Exception as error:  # templates may raise anything
        raise ValueError(f"messages: the chat template rejects them: {error}") from None
    names, parts = set(_NAMED.findall(text)), _MARKER.split(_NAMED.sub("", text))
    rendered = [int(place) for place in parts[1::2]]
    lost = [turns[i] for i in places if i not in rendered]

    def drops(named: Sequence[Any]) -> bool:
        marks = (tool["function"]["name"].partition("\ue000")[2] for tool in named)
        return not names.issuperset(marks)

    for field, what, is_hidden in (
        ("tools", "tools", drops(tools or ())),
        ("messages", "tool calls", drops(_calls(turns))),
        ("messages", "tool turns", any(turn["role"] == "tool" for turn in lost)),
        ("messages", "text beside tool calls", any("tool_calls" in turn for turn in lost)),
    ):
        if is_hidden:
            raise ValueError(
                f"{field}: this model's chat template shows no {what}; remove them, or ask a judge"
            )
    if rendered != places:
        raise ValueError(
            "messages: the chat template does not render every turn exactly once and in order"
        )
    return list(zip(parts[::2], [*places, None], strict=True))


def _calls(turns: Sequence[Turn]) -> list[Any]:
    return [call for turn in turns for call in turn.get("tool_calls", ())]
