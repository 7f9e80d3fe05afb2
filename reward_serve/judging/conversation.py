"""A conversation as token ids, within a model's context.

Each turn's text is tokenised on its own, so that special tokens inside it stay text; the rest is
the chat template's. What is too long is cut by one rule: the oldest exchanges go first, a system
turn and the last two turns excepted; then the last two share what room there is, each keeping its
end, and the response no less than half.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from reward_serve.engines.base import ConversationTokenizer, Prompt, Tokenizer
from reward_serve.judging.cutting import by_characters

_MARKER = re.compile("\ue000([0-9]+)\ue001")
_PROBE = "\ue000probe\ue001"
CHARACTERS_A_TOKEN = 32
"""A bound: text has far fewer."""

Turn = Mapping[str, str]
_Run = tuple[list[int], int | None]


@dataclass(frozen=True)
class Conversation:
    """Token ids, and what was left out for want of room.

    Attributes:
        cut_turns: turns left out.
        cut_characters: of the last two turns, from their beginnings.
        shown: of each turn that is not left out, its place, and the characters cut from its text.
    """

    token_ids: list[int]
    cut_turns: int
    cut_characters: int
    shown: Mapping[int, int]


class ConversationRenderer:
    """Renders conversations for one model.

    Args:
        tokenizer: the model's.
        max_tokens: of a conversation.
    """

    def __init__(self, tokenizer: ConversationTokenizer, max_tokens: int) -> None:
        self._tokenizer = tokenizer
        self._max_tokens = max_tokens
        probe = tokenizer.conversation([{"role": "user", "content": f" {_PROBE} "}])
        self._trims = f" {_PROBE} " not in probe  # many a chat template trims its turns

    def render(self, turns: Sequence[Turn]) -> Conversation:
        """The conversation, cut where it must be.

        Raises:
            ValueError: the template alone is too long, or refuses such turns.
        """
        texts = [turn["content"].strip() if self._trims else turn["content"] for turn in turns]
        first = 1 if turns[0]["role"] == "system" else 0
        kept = list(range(len(turns)))
        while True:
            runs, around = self._around([turns[i] for i in kept])
            room = self._max_tokens - around
            tokens = {i: self._tokens(texts[i], self._max_tokens) for i in kept}
            over = sum(len(ids) for ids, _ in tokens.values()) > room
            if not over or len(kept) - first <= 2:
                break
            del kept[first]
            while len(kept) - first > 2 and turns[kept[first]]["role"] != "user":
                del kept[first]  # many a template has a user begin
        if room < 2:
            raise ValueError(
                f"messages: the chat template and a system turn leave no room in "
                f"{self._max_tokens} tokens; shorten them, or raise engine.max_model_len"
            )
        cut = sum(start for _, start in tokens.values())
        if over:
            tokens, cut = self._shared(kept, texts, tokens, room)
        ids: list[int] = []
        for run, place in runs:
            ids += run
            if place is not None:
                ids += tokens[kept[place]][0]
        shown = {i: tokens[i][1] for i in kept}
        return Conversation(ids, len(turns) - len(kept), cut, shown)

    def texts(self, turns: Sequence[Turn], shown: Mapping[int, int]) -> list[tuple[str, int, int]]:
        """The text of a rendered conversation, in parts.

        Args:
            turns: as they were rendered.
            shown: what was shown of them.

        Returns:
            Each part with the turn whose text it is, -1 for the template's own, and where in that
            turn's content it begins.
        """
        places = list(shown)
        parts = []
        for text, place in _parts([turns[i] for i in places], self._tokenizer.conversation):
            parts.append((text, -1, 0))
            if place is not None:
                turn = places[place]
                content = turns[turn]["content"]
                start = shown[turn]
                if self._trims:
                    start += len(content) - len(content.lstrip())
                    content = content.rstrip()
                parts.append((content[start:], turn, start))
        return parts

    def _shared(
        self,
        kept: Sequence[int],
        texts: Sequence[str],
        tokens: dict[int, tuple[list[int], int]],
        room: int,
    ) -> tuple[dict[int, tuple[list[int], int]], int]:
        """The last two turns within the room, and the characters cut from them."""
        *before, last = kept
        room -= sum(len(tokens[i][0]) for i in before[:-1])
        if room < 2:
            raise ValueError(
                f"messages: the system turn leaves no room in {self._max_tokens} tokens; "
                "shorten it, or raise engine.max_model_len"
            )
        asked = len(tokens[before[-1]][0]) if before else 0
        answered = min(len(tokens[last][0]), max(room - asked, (room + 1) // 2))
        shared = {**tokens, last: self._tokens(texts[last], answered)}
        if before:
            shared[before[-1]] = self._tokens(texts[before[-1]], room - answered)
        return shared, sum(start for _, start in shared.values())

    def _tokens(self, text: str, budget: int) -> tuple[list[int], int]:
        """The text's last tokens, and the characters before them; bounded work for any length."""
        if budget <= 0:
            return [], len(text)
        cut = max(0, len(text) - CHARACTERS_A_TOKEN * budget)
        ids, starts = self._tokenizer.encode_plain(text[cut:])
        if len(ids) <= budget:
            return ids, cut
        return ids[-budget:], cut + starts[-budget]

    def _around(self, turns: Sequence[Turn]) -> tuple[list[_Run], int]:
        """The template's own tokens before each turn's text and after the last, and how many."""
        tokenizer = self._tokenizer
        runs = _runs(turns, tokenizer.conversation, tokenizer.encode_control)
        return runs, sum(len(ids) for ids, _ in runs)


def render_chat(
    tokenizer: Tokenizer | None, turns: Sequence[Turn], enable_thinking: bool
) -> tuple[Prompt, int]:
    """A conversation up to where the assistant's next turn begins, and its tokens; nothing is cut.

    Raises:
        ValueError: the template refuses such turns.
    """
    if tokenizer is None:
        return Prompt(turns), sum(len(by_characters(turn["content"])[0]) for turn in turns)
    known = tokenizer

    def show(marked: Sequence[Turn]) -> str:
        return known.chat(marked, enable_thinking)

    ids: list[int] = []
    for run, place in _runs(turns, show, tokenizer.encode_control):
        ids += run
        if place is not None:
            ids += tokenizer.encode_plain(turns[place]["content"])[0]
    return Prompt(turns, ids), len(ids)


def _runs(
    turns: Sequence[Turn],
    show: Callable[[Sequence[Turn]], str],
    encode_control: Callable[[str], list[int]],
) -> list[_Run]:
    """The chat template's own tokens before each turn's text, with its place, and after the last.

    Raises:
        ValueError: the template refuses such turns.
    """
    return [(encode_control(text), place) for text, place in _parts(turns, show)]


def _parts(
    turns: Sequence[Turn], show: Callable[[Sequence[Turn]], str]
) -> list[tuple[str, int | None]]:
    """The same as text; raises likewise."""
    marked = [{**turn, "content": f"\ue000{i}\ue001"} for i, turn in enumerate(turns)]
    try:
        parts = _MARKER.split(show(marked))
    except Exception as error:  # a template says so in its own way
        raise ValueError(f"messages: the chat template refuses them: {error}") from None
    places = [int(place) for place in parts[1::2]]
    if places != list(range(len(turns))):
        raise ValueError("messages: the chat template does not show every turn once, in order")
    return list(zip(parts[::2], [*places, None], strict=True))
