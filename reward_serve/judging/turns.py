"""Shows a conversation in a judge's prompt, each turn in a fence that no text in it can close.

Turns are tokenised one by one, so that the prompt of each state of a conversation extends that of
the state before. A conversation that is too long is cut in steps, of which the first that fits is
taken: first the middle of old tool output, then that of other old turns, then the oldest turns
with what their tools answered, then the middle of the last ones. The task and calls stay whole.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from hashlib import blake2b
from operator import attrgetter
from threading import Lock
from typing import Literal, NamedTuple

from cachetools import LRUCache, cachedmethod
from cachetools.keys import hashkey
from pydantic import JsonValue

from reward_serve.judging.texts import (
    CHARACTERS_A_TOKEN,
    JOINT,
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
        self, turns: Sequence[Message], view: View, budget: int, shown: Callable[[str], str]
    ) -> ShownTurns:
        """Show the turns, cut to ``budget`` tokens.

        Args:
            turns: a conversation.
            view: the turns to show.
            budget: maximum tokens.
            shown: as for ``shortened``.

        Raises:
            ValueError: the task and the calls do not fit.
        """
        seen = [i for i, turn in enumerate(turns) if view == "full" or turn.role == "assistant"]
        seen = seen[-1:] if view == "last" else seen
        begins = [i for i in seen if turns[i].role == "assistant"]
        steps = [_Step(self, turns, seen, begins, shown, how) for how in _cuttings(len(begins))]
        at = bisect_left(steps, True, key=lambda step: step.length(budget) <= budget)
        if at == len(steps):
            least = steps[-1].length(budget)
            raise ValueError(
                f"messages: the task and the last turns' calls take {least} tokens, and {budget} "
                "are left for the conversation; shorten them, or raise engine.max_model_len or "
                "judge.response_tokens"
            )
        return steps[at].rendered()

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


class _Step:
    """A conversation, cut in one way; pieces are read when they are needed."""

    def __init__(
        self,
        renderer: TurnRenderer,
        turns: Sequence[Message],
        seen: Sequence[int],
        begins: Sequence[int],
        shown: Callable[[str], str],
        how: Cutting,
    ) -> None:
        self._renderer, self._turns, self._shown, self._how = renderer, turns, shown, how
        self._first = begins[0] if begins else len(turns)
        self._recent = begins[-2] if len(begins) > 1 else self._first
        self._until = begins[how.turns] if how.turns else self._first
        self._left_out = [i for i in seen if self._first <= i < self._until]
        self._seen = [i for i in seen if not self._first <= i < self._until]

    def length(self, budget: int) -> int:
        """Its number of tokens; an estimate if it is far above the budget."""
        whole = [_text_of(self._turns[i]) for i in self._seen if self._limit(i) is None]
        if (least := sum(map(len, whole)) // CHARACTERS_A_TOKEN) > budget:
            return least
        return sum(len(piece.ids) for _, piece in self._pieces())

    def rendered(self) -> ShownTurns:
        """The conversation with the texts that are not shown."""
        text, ids = "", list[int]()
        cut = [CutText(i, 0, len(_text_of(self._turns[i]))) for i in self._left_out]
        for turn, piece in self._pieces():
            text += piece.text
            ids += piece.ids
            if piece.cut_characters:
                size, start = len(_text_of(self._turns[turn])), piece.head
                after = len(piece.text) - (start + len(JOINT) if start else 0)
                cut.append(CutText(turn, start, size - after))
        images = [image for i in self._seen for image in self._turns[i].images]
        return ShownTurns(text, ids, cut, len(self._left_out), images)

    def _pieces(self) -> list[tuple[int, Shortened]]:
        pieces: list[tuple[int, Shortened]] = []
        for i in self._seen:
            if self._left_out and i == self._until:
                pieces.append((i, self._fixed(f"\n({len(self._left_out)} turns left out)")))
            turn = self._turns[i]
            name = f' name="{_name_of(self._turns, i)}"' if turn.role == "tool" else ""
            line = "\n" if pieces else ""
            pieces.append((i, self._fixed(f'{line}<turn role="{turn.role}"{name}>\n')))
            pieces.append((i, self._renderer.piece(self._shown, _text_of(turn), self._limit(i))))
            for call in turn.tool_calls or ():
                pieces.append((i, self._fixed("\n<call>\n")))
                pieces.append((i, self._renderer.piece(defuse, call.shown, None)))
                pieces.append((i, self._fixed("\n</call>")))
            pieces.append((i, self._fixed("\n</turn>")))
        return pieces

    def _limit(self, turn: int) -> int | None:
        if turn < self._first:
            return None
        if turn >= self._recent:
            return self._how.last
        return self._how.tools if self._turns[turn].role == "tool" else self._how.texts

    def _fixed(self, text: str) -> Shortened:
        return self._renderer.piece(str, text, None)


def _cuttings(assistant_turns: int) -> list[Cutting]:
    """The ways to cut, from the whole to the least; each shows less than the one before."""
    old = max(0, assistant_turns - 2)
    counts = [*(2**n for n in range(old.bit_length()) if 2**n < old), *([old] if old else [])]
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


def _name_of(turns: Sequence[Message], tool: int) -> str:
    """The tool that answers in a turn, in characters that end no tag."""
    answer = turns[tool]
    called = (call for turn in turns[:tool] for call in turn.tool_calls or ())
    names = [call.function.name for call in called if call.id and call.id == answer.tool_call_id]
    return _NO_NAME.sub("_", answer.name or (names or ["unknown"])[-1])[:64]


def _short(text: str) -> str | bytes:
    """A key for a text, which does not keep a long one."""
    return text if len(text) < 2**12 else blake2b(text.encode()).digest()


def _size(piece: Shortened) -> int:
    return 16 + len(piece.ids)
