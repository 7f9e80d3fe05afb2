"""Shows a conversation in a judge's prompt, each turn in a fence that no text in it can close.

Turns are tokenised one by one, so that the prompt of each state of a conversation extends that of
the state before. A conversation that is too long is cut in steps, of which the first that fits is
taken: first the middle of old tool output, then that of other old turns, then that of the last
ones in part, then the oldest turns with what their tools answered, then the rest of the last ones.
The task and calls stay whole.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from reward_serve.explanation import Cut
from reward_serve.messages import Message
from reward_serve.prompts.rendering import (
    OFTEN_CHARACTERS,
    Encode,
    Shortened,
    ShownTurns,
    defuse,
    shortened,
)
from reward_serve.schema import ScoreRequest
from reward_serve.templates import Template
from reward_serve_answers.thinking import read_thinking

_LIMITS = (8192, 4096, 2048, 1024, 512, 256, 128, 64, 32)  # tokens of a turn's text
_LEAST = _LIMITS[-1]
_TOGETHER = 4  # turns left out at once, so that few states differ in where they begin
Pieces = dict[tuple[Callable[[str], str], str, int | None], Shortened]
"""Texts as they are shown, by how they are rewritten, and to how many tokens they are cut."""
_NO_NAME = re.compile(r"[^\w.:/-]")


class Cutting(NamedTuple):
    """How much of a conversation is shown: maximum tokens of a turn's text, None for all."""

    tools: int | None = None  # of an old tool output
    texts: int | None = None  # of other old turns, except the task
    turns: int = 0  # the oldest assistant turns, with what follows them, to leave out
    last: int | None = None  # in the last two assistant turns and what follows them


def shown_turns(
    request: ScoreRequest,
    template: Template,
    pieces: Pieces,
    encode: Encode,
    rewrite: Callable[[str], str],
    budget: int,
) -> ShownTurns:
    """Show a request's conversation as a template does, cut to ``budget`` tokens.

    ``pieces`` keeps what was read, for the other states of the same conversation.

    Raises:
        ValueError: the task and the calls do not fit.
    """
    turns = _Turns(request, template, pieces, encode, rewrite)
    cuttings = _cuttings(len(turns.begins), budget)
    at = bisect_left(cuttings, True, key=lambda cutting: turns.length(cutting, budget) <= budget)
    if at == len(cuttings):
        least = turns.length(cuttings[-1], budget)
        raise ValueError(
            f"messages: the task and the last turns' calls take {least} tokens, and {budget} are "
            "left for the conversation; shorten them, or raise engine.max_model_len or "
            "judge.response_tokens"
        )
    return turns.rendered(cuttings[at])


class _Turns:
    """The turns of a view, to be shown in several ways; pieces are read when they are needed."""

    def __init__(
        self,
        request: ScoreRequest,
        template: Template,
        pieces: Pieces,
        encode: Encode,
        rewrite: Callable[[str], str],
    ) -> None:
        turns, view = request.conversation, template.view
        self._turns, self._rewrite, self._encode, self._read = turns, rewrite, encode, pieces
        seen = [i for i, turn in enumerate(turns) if view == "full" or turn.role == "assistant"]
        self._seen = seen[-1:] if view == "last" else seen
        self.begins = [i for i in self._seen if turns[i].role == "assistant"]
        self._first = self.begins[0] if self.begins else len(turns)
        self._recent = self.begins[-2] if len(self.begins) > 1 else self._first
        self._texts = {i: _text_of(turns[i]) for i in self._seen}
        self._tags = list(_tags(turns))
        self._ends = {i: _end(turns[i]) for i in self._seen}

    def length(self, cutting: Cutting, budget: int) -> int:
        """The number of tokens; an estimate if its characters suggest that it does not fit."""
        kept = self._kept(cutting)
        whole = (self._texts[i] for i in kept if self._limit(i, cutting) is None)
        if (least := sum(map(len, whole)) // OFTEN_CHARACTERS) > budget:
            return least
        return sum(len(piece.ids) for _, piece in self._pieces(cutting))

    def rendered(self, cutting: Cutting) -> ShownTurns:
        """The conversation, with what is not shown."""
        text, ids, kept = "", list[int](), self._kept(cutting)
        left_out = [i for i in self._seen if i not in kept]
        gaps = [(i, 0, len(self._texts[i])) for i in left_out]
        for turn, piece in self._pieces(cutting):
            text += piece.text
            ids += piece.ids
            gaps += [(turn, *gap) for gap in piece.gaps]
        cut = [Cut(field="messages", turn=i, start=a, end=b, exact=False) for i, a, b in gaps]
        images = [image for i in kept for image in self._turns[i].images]
        return ShownTurns(text, ids, cut, len(left_out), images)

    def _pieces(self, cutting: Cutting) -> list[tuple[int, Shortened]]:
        pieces: list[tuple[int, Shortened]] = []
        kept = self._kept(cutting)
        for i in kept:
            if cutting.turns and i == self.begins[cutting.turns]:
                left_out = len(self._seen) - len(kept)
                pieces.append((i, self._piece(str, f"\n({left_out} turns left out)")))
            tag = self._piece(str, ("\n" if pieces else "") + self._tags[i])
            text = self._piece(self._rewrite, self._texts[i], self._limit(i, cutting))
            pieces += [(i, tag), (i, text), (i, self._piece(str, self._ends[i]))]
        return pieces

    def _kept(self, cutting: Cutting) -> list[int]:
        until = self.begins[cutting.turns] if cutting.turns else self._first
        return [i for i in self._seen if not self._first <= i < until]

    def _limit(self, turn: int, cutting: Cutting) -> int | None:
        if turn < self._first:
            return None
        if turn >= self._recent:
            return cutting.last
        return cutting.tools if self._turns[turn].role == "tool" else cutting.texts

    def _piece(
        self, rewrite: Callable[[str], str], text: str, most: int | None = None
    ) -> Shortened:
        """A text, cut in its middle to at most that many tokens."""
        key = rewrite, text, most
        if key not in self._read and most is not None:
            self._read[key] = shortened(text, most, most // 2, rewrite, self._encode)
        elif key not in self._read:
            text = rewrite(text)
            self._read[key] = Shortened(text, self._encode(text)[0])
        return self._read[key]


def _cuttings(assistant_turns: int, budget: int) -> list[Cutting]:
    """The ways to cut, from the whole to the least; each shows less than the one before.

    Of a text in the last turns, an eighth of the budget is kept before any turn is left out: else
    one long output would hide all that came before it.
    """
    most_of_last = [most for most in _LIMITS if most >= budget / 8] or [_LIMITS[0]]
    old = max(0, assistant_turns - 2)
    counts = [*range(_TOGETHER, old, _TOGETHER), *([old] if old else [])]
    return [
        Cutting(),
        *(Cutting(tools=most) for most in _LIMITS),
        *(Cutting(_LEAST, most) for most in _LIMITS),
        *(Cutting(_LEAST, _LEAST, 0, most) for most in most_of_last),
        *(Cutting(_LEAST, _LEAST, count, most_of_last[-1]) for count in counts),
        *(Cutting(_LEAST, _LEAST, old, most) for most in _LIMITS if most < most_of_last[-1]),
    ]


def _text_of(turn: Message) -> str:
    """A turn's text without thinking, with "[image]" in place of each image."""
    if turn.role == "assistant":
        return read_thinking(turn.text).text
    if isinstance(turn.content, str):
        return turn.content
    return "".join(str(part.get("text", "[image]")) for part in turn.content)


def _end(turn: Message) -> str:
    calls = (f"\n<call>\n{defuse(call.shown)}\n</call>" for call in turn.tool_calls or ())
    return "".join(calls) + "\n</turn>"


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
