"""Shows a conversation in a judge's prompt, each turn in a fence that no text in it can close.

Turns are tokenised one by one, so that the prompt of each state of a conversation extends that of
the state before. A conversation that is too long is cut in steps, of which the first that fits is
taken: first the middle of old tool output, then that of other old turns, then the oldest turns
with what their tools answered, then the middle of the last ones. The task and calls stay whole.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from operator import attrgetter
from threading import Lock
from typing import Literal, NamedTuple

from cachetools import LRUCache, cachedmethod
from cachetools.keys import hashkey
from pydantic import JsonValue

from reward_serve.judging.rendering import (
    JOINT,
    OFTEN_CHARACTERS,
    Encode,
    Shortened,
    defuse,
    shortened,
)
from reward_serve.messages import Message
from reward_serve_answers.committed import without_thinking

View = Literal["last", "assistant", "full"]
_KEPT_TOKENS = 2**19
_LIMITS = (2048, 1024, 512, 256, 128, 64, 32)  # tokens of a turn's text
_LEAST = _LIMITS[-1]
_TOGETHER = 4  # turns left out at once, so that few states differ in where they begin
_NO_NAME = re.compile(r"[^\w.:/-]")


class Cutting(NamedTuple):
    """How much of a conversation is shown.

    Attributes:
        tools: maximum tokens of an old tool output; None for all.
        texts: maximum tokens of another old turn's text, except the task.
        turns: number of the oldest assistant turns, with what follows them, to leave out.
        last: maximum tokens of a text in the last two assistant turns and what follows them.
    """

    tools: int | None = None
    texts: int | None = None
    turns: int = 0
    last: int | None = None


class CutText(NamedTuple):
    """The characters from ``start`` to ``end`` of a turn's text, which are not shown."""

    turn: int
    start: int
    end: int


class ShownTurns(NamedTuple):
    """A conversation as it is shown.

    Attributes:
        text: the text.
        ids: its tokens.
        cut: what is not shown.
        cut_turns: number of turns that are left out.
        images: those of the turns that are shown.
    """

    text: str
    ids: list[int]
    cut: list[CutText]
    cut_turns: int
    images: list[dict[str, JsonValue]]


class TurnRenderer:
    """Shows conversations for one tokenizer; may be used by several threads.

    Args:
        encode: tokenises a text.
    """

    def __init__(self, encode: Encode) -> None:
        self._encode = encode
        self._kept: LRUCache[object, Shortened] = LRUCache(_KEPT_TOKENS, _size)
        self._lock = Lock()

    def render(
        self, turns: Sequence[Message], view: View, shown: Callable[[str], str], budget: int
    ) -> ShownTurns:
        """Show the turns, cut to ``budget`` tokens.

        Args:
            turns: a conversation.
            view: the turns to show.
            shown: as for ``shortened``.
            budget: maximum tokens.

        Raises:
            ValueError: the task and the calls do not fit.
        """
        prepared = _Turns(self.piece, turns, view, shown)
        cuttings = _cuttings(len(prepared.begins))
        at = bisect_left(cuttings, True, key=lambda how: prepared.length(how, budget) <= budget)
        if at == len(cuttings):
            least = prepared.length(cuttings[-1], budget)
            raise ValueError(
                f"messages: the task and the last turns' calls take {least} tokens, and {budget} "
                "are left for the conversation; shorten them, or raise engine.max_model_len or "
                "judge.response_tokens"
            )
        return prepared.rendered(cuttings[at])

    @cachedmethod(
        attrgetter("_kept"),
        key=lambda self, shown, text, most: hashkey(shown, _short(text), most),
        lock=attrgetter("_lock"),
    )
    def piece(self, shown: Callable[[str], str], text: str, most: int | None) -> Shortened:
        """A text, cut in its middle to at most that many tokens."""
        if most is not None:
            return shortened(text, most, most // 2, shown, self._encode)
        text = shown(text)
        return Shortened(text, self._encode(text)[0], 0, 0)


class _Turns:
    """The turns of a view, to be shown in several ways; pieces are read when they are needed."""

    def __init__(
        self,
        piece: Callable[[Callable[[str], str], str, int | None], Shortened],
        turns: Sequence[Message],
        view: View,
        shown: Callable[[str], str],
    ) -> None:
        self._piece, self._turns, self._shown = piece, turns, shown
        seen = [i for i, turn in enumerate(turns) if view == "full" or turn.role == "assistant"]
        self._seen = seen[-1:] if view == "last" else seen
        self.begins = [i for i in self._seen if turns[i].role == "assistant"]
        """The assistant turns."""
        self._first = self.begins[0] if self.begins else len(turns)
        self._recent = self.begins[-2] if len(self.begins) > 1 else self._first
        self._texts = {i: _text_of(turns[i]) for i in self._seen}
        self._tags = list(_tags(turns))
        self._calls = {i: [call.shown for call in turns[i].tool_calls or ()] for i in self.begins}

    def length(self, how: Cutting, budget: int) -> int:
        """The number of tokens; an estimate if it is far above the budget."""
        whole = (self._texts[i] for i in self._kept(how) if self._limit(i, how) is None)
        if (least := sum(map(len, whole)) // OFTEN_CHARACTERS) > budget:
            return least
        return sum(len(piece.ids) for _, piece in self._pieces(how))

    def rendered(self, how: Cutting) -> ShownTurns:
        """The conversation, with what is not shown."""
        text, ids, kept = "", list[int](), self._kept(how)
        left_out = [i for i in self._seen if i not in kept]
        cut = [CutText(i, 0, len(self._texts[i])) for i in left_out]
        for turn, piece in self._pieces(how):
            text += piece.text
            ids += piece.ids
            if piece.cut_characters:
                start = piece.head
                after = len(piece.text) - (start + len(JOINT) if start else 0)
                cut.append(CutText(turn, start, len(self._texts[turn]) - after))
        images = [image for i in kept for image in self._turns[i].images]
        return ShownTurns(text, ids, cut, len(left_out), images)

    def _pieces(self, how: Cutting) -> list[tuple[int, Shortened]]:
        pieces: list[tuple[int, Shortened]] = []
        kept = self._kept(how)
        for i in kept:
            if how.turns and i == self.begins[how.turns]:
                left_out = len(self._seen) - len(kept)
                pieces.append((i, self._fixed(f"\n({left_out} turns left out)")))
            pieces.append((i, self._fixed(("\n" if pieces else "") + self._tags[i])))
            pieces.append((i, self._piece(self._shown, self._texts[i], self._limit(i, how))))
            for call in self._calls.get(i, ()):
                pieces.append((i, self._fixed("\n<call>\n")))
                pieces.append((i, self._piece(defuse, call, None)))
                pieces.append((i, self._fixed("\n</call>")))
            pieces.append((i, self._fixed("\n</turn>")))
        return pieces

    def _kept(self, how: Cutting) -> list[int]:
        until = self.begins[how.turns] if how.turns else self._first
        return [i for i in self._seen if not self._first <= i < until]

    def _limit(self, turn: int, how: Cutting) -> int | None:
        if turn < self._first:
            return None
        if turn >= self._recent:
            return how.last
        return how.tools if self._turns[turn].role == "tool" else how.texts

    def _fixed(self, text: str) -> Shortened:
        return self._piece(str, text, None)


def _cuttings(assistant_turns: int) -> list[Cutting]:
    """The ways to cut, from the whole to the least; each shows less than the one before."""
    old = max(0, assistant_turns - 2)
    counts = [*range(_TOGETHER, old, _TOGETHER), *([old] if old else [])]
    return [
        Cutting(),
        *(Cutting(tools=most) for most in _LIMITS),
        *(Cutting(_LEAST, most) for most in _LIMITS),
        *(Cutting(_LEAST, _LEAST, count) for count in counts),
        *(Cutting(_LEAST, _LEAST, old, most) for most in _LIMITS),
    ]


def _text_of(turn: Message) -> str:
    """A turn's text without thinking, with a number in place of each image."""
    if turn.role == "assistant":
        return without_thinking(turn.text)
    if isinstance(turn.content, str):
        return turn.content
    return "".join(str(part.get("text", "[image]")) for part in turn.content)


def _tags(turns: Sequence[Message]) -> Iterator[str]:
    """The tag that begins each turn, a tool's with its name in characters that end no tag."""
    called: dict[str | None, str] = {}
    for turn in turns:
        name = ""
        if turn.role == "tool":
            name = turn.name or called.get(turn.tool_call_id, "unknown")
            name = f' name="{_NO_NAME.sub("_", name)[:64]}"'
        called |= {call.id: call.function.name for call in turn.tool_calls or () if call.id}
        yield f'<turn role="{turn.role}"{name}>\n'


def _short(text: str) -> str | bytes:
    """A key for a text, which does not keep a long one."""
    return text if len(text) < 2**12 else blake2b(text.encode()).digest()


def _size(piece: Shortened) -> int:
    return 16 + len(piece.ids)
