"""Renders conversations as token ids that fit a model's context.

Each turn's text is tokenised separately, so that special tokens in it stay text. A conversation
that is too long is cut: first the oldest exchanges are dropped, except the system turn and the last
two turns. Then the last two turns share the remaining tokens, each keeping its end, and the
response gets at least half.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

from reward_serve.engines.base import Prompt, Tokenizer
from reward_serve.judging.rendering import Read, by_characters, enough

_MARKER = re.compile("\ue000([0-9]+)\ue001")
_PROBE = "\ue000probe\ue001"

Turn = Mapping[str, str]
_Run = tuple[list[int], int | None]


@dataclass(frozen=True)
class Conversation:
    """A rendered conversation.

    Attributes:
        token_ids: the prompt.
        shown: index of each turn that was kept, to the number of characters cut from its
            beginning.
    """

    token_ids: list[int]
    shown: Mapping[int, int]


class ConversationRenderer:
    """Renders conversations for one model.

    Args:
        tokenizer: the model's tokenizer.
        max_tokens: maximum tokens of a conversation.
    """

    def __init__(self, tokenizer: Tokenizer, max_tokens: int) -> None:
        self._tokenizer = tokenizer
        self._max_tokens = max_tokens
        probe = tokenizer.conversation([{"role": "user", "content": f" {_PROBE} "}])
        self._trims = f" {_PROBE} " not in probe  # whether the chat template strips whitespace

    def render(self, turns: Sequence[Turn]) -> Conversation:
        """Render the conversation, cut to fit.

        Raises:
            ValueError: the chat template alone is too long, or rejects these turns.
        """
        texts = self._contents(turns)
        first = 1 if turns[0]["role"] == "system" else 0
        ends = [enough(text, self._max_tokens, self._read, at_end=True) for text in texts]
        tokens = {i: _last(self._max_tokens, *end) for i, end in enumerate(ends)}

        @cache
        def cut_to(start: int) -> tuple[list[int], list[_Run], int, bool]:
            kept = [*range(first), *range(start, len(turns))]
            parts = _parts([turns[i] for i in kept], self._tokenizer.conversation)
            runs = [(self._tokenizer.encode_control(text), place) for text, place in parts]
            room = self._max_tokens - sum(len(ids) for ids, _ in runs)
            return kept, runs, room, sum(len(tokens[i][0]) for i in kept) > room

        starts = _starts(turns, first)
        if len(starts) > 1 and cut_to(starts[0])[3]:  # rendering is slow, so not one by one
            starts = starts[bisect_left(starts[:-1], True, lo=1, key=lambda i: not cut_to(i)[3]) :]
        kept, runs, room, over = cut_to(starts[0])
        tokens = {i: tokens[i] for i in kept}
        if over or room < 2:
            tokens = self._shared(kept, ends, tokens, room)
        ids: list[int] = []
        for run, place in runs:
            ids += run
            if place is not None:
                ids += tokens[kept[place]][0]
        return Conversation(ids, {i: tokens[i][1] for i in kept})

    def texts(
        self, turns: Sequence[Turn], shown: Mapping[int, int]
    ) -> list[tuple[str, int | None]]:
        """The text of a rendered conversation, in parts.

        Args:
            turns: the turns that were rendered.
            shown: ``Conversation.shown``.

        Returns:
            Each part with the index of its turn; None for the chat template's text.
        """
        texts, places = self._contents(turns), list(shown)
        parts: list[tuple[str, int | None]] = []
        for text, place in _parts([turns[i] for i in places], self._tokenizer.conversation):
            parts.append((text, None))
            if place is not None:
                parts.append((texts[places[place]][shown[places[place]] :], places[place]))
        return parts

    def _contents(self, turns: Sequence[Turn]) -> list[str]:
        return [turn["content"].strip() if self._trims else turn["content"] for turn in turns]

    def _shared(
        self,
        kept: Sequence[int],
        ends: Sequence[tuple[int, Read]],
        tokens: dict[int, tuple[list[int], int]],
        room: int,
    ) -> dict[int, tuple[list[int], int]]:
        """The turns' tokens, those of the last two cut to what remains of ``room``."""
        *before, question, response = kept
        room -= sum(len(tokens[i][0]) for i in before)
        if room < 2:
            raise ValueError(
                "messages: the chat template and a system turn leave no room in "
                f"{self._max_tokens} tokens; shorten them, or raise engine.max_model_len"
            )
        asked, answered = (len(tokens[i][0]) for i in (question, response))
        answered = min(answered, max(room - asked, (room + 1) // 2))
        return {
            **tokens,
            question: _last(room - answered, *ends[question]),
            response: _last(answered, *ends[response]),
        }

    def _read(self, text: str) -> Read:
        return Read(text, *self._tokenizer.encode_plain(text))


def _last(budget: int, skipped: int, end: Read) -> tuple[list[int], int]:
    """The last ``budget`` tokens of a text, and the number of characters before them."""
    if budget <= 0:
        return [], skipped + len(end.text)
    if len(end.ids) <= budget:
        return end.ids, skipped
    return end.ids[-budget:], skipped + end.starts[-budget]


def _starts(turns: Sequence[Turn], first: int) -> list[int]:
    """The turns, after the system turn, with which a conversation that is cut may start."""
    last = max(first, len(turns) - 2)
    users = [i for i in range(first + 1, last) if turns[i]["role"] == "user"]
    return [first, *users, *([last] if last > first else [])]  # many templates need a user turn


def render_chat(
    tokenizer: Tokenizer | None, turns: Sequence[Turn], enable_thinking: bool
) -> tuple[Prompt, int]:
    """Render a conversation up to the assistant's next turn, uncut; returns its token count too.

    Raises:
        ValueError: the chat template rejects these turns.
    """
    if tokenizer is None:
        return Prompt(turns), sum(len(by_characters(turn["content"])[0]) for turn in turns)
    ids: list[int] = []
    for text, place in _parts(turns, partial(tokenizer.chat, enable_thinking=enable_thinking)):
        ids += tokenizer.encode_control(text)
        if place is not None:
            ids += tokenizer.encode_plain(turns[place]["content"])[0]
    return Prompt(turns, ids), len(ids)


def _parts(
    turns: Sequence[Turn], show: Callable[[Sequence[Turn]], str]
) -> list[tuple[str, int | None]]:
    """The chat template's text before each turn, with the turn's index, and after the last.

    Raises:
        ValueError: the chat template rejects these turns.
    """
    marked = [{**turn, "content": f"\ue000{i}\ue001"} for i, turn in enumerate(turns)]
    try:
        parts = _MARKER.split(show(marked))
    except Exception as error:  # templates may raise anything
        raise ValueError(f"messages: the chat template rejects them: {error}") from None
    places = [int(place) for place in parts[1::2]]
    if places != list(range(len(turns))):
        raise ValueError(
            "messages: the chat template does not render every turn exactly once and in order"
        )
    return list(zip(parts[::2], [*places, None], strict=True))
