"""Renders a template and a request into a prompt whose fields cannot break out of their fences.

With a tokenizer, the chat template renders the judging template once, with a marker in place of
each field, and the text between markers is tokenised once and cached. Each field is tokenised
separately as plain text: chat-template tokens in it stay text, braces and template syntax are not
evaluated, and closing fence tags are defused. For an engine without a tokenizer, the prompt is a
list of messages and three characters count as a token.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from typing import Any, NamedTuple

from pydantic import JsonValue

from reward_serve.engines.base import Prompt, Tokenizer
from reward_serve.engines.bundled import bundled_judge
from reward_serve.schema import Mode
from reward_serve.templates import FIELD, FIELDS, INSTRUCTION, PLACEHOLDER, Template, is_judged
from reward_serve_answers.committed import MAX_RESPONSE, Committed, committed

Encode = Callable[[str], tuple[list[int], Sequence[int]]]
"""Tokenises a text: token ids, and the character offset at which each starts."""
JOINT = "\n...\n"  # replaces the text that was cut between beginning and end
CHARACTERS_A_TOKEN = 32
"""An upper bound, so that the work is bounded for any text; the average is far lower."""
END_TOKENS = 32
"""Shown of a response's end if its answer comes far before it; more text would distract."""
OFTEN_CHARACTERS = 8  # of a token; few texts exceed it
_EDGE = 8  # tokens where a part begins or ends, which may differ from the whole text's
_IN_WORD = frozenset("0123456789.,/%-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")

_FENCES = (*FIELDS, "turn", "call")
_FENCE = re.compile(r"<(?=\s*+/?\s*+(?:" + "|".join(_FENCES) + r")(?:_\d)?\b)", re.IGNORECASE)


def by_characters(text: str) -> tuple[list[int], list[int]]:
    """Replaces a tokenizer: counts three characters as a token, a cautious average."""
    starts = list(range(0, len(text), 3))
    return starts, starts


class Read(NamedTuple):
    """A text as it is shown, its tokens, and the character at which each starts."""

    text: str
    ids: list[int]
    starts: Sequence[int]


class Shortened(NamedTuple):
    """A response, cut to its budget."""

    text: str  # with JOINT if the middle was cut
    ids: list[int]
    cut_characters: int
    head: int  # characters before JOINT; 0 without it


class ShownTurns(NamedTuple):
    """A conversation as it is shown."""

    text: str
    ids: list[int]
    cut: list[tuple[int, int, int]]  # turn, start and end of each text that is not shown
    cut_turns: int  # number of turns that are left out
    images: list[dict[str, JsonValue]]  # of the turns that are shown


def shortened(
    response: str,
    budget: int,
    head: int,
    shown: Callable[[str], str],
    encode: Encode,
    answer: Callable[[], tuple[int, int] | None] = lambda: None,
) -> Shortened:
    """Cut the response to ``budget`` tokens.

    Args:
        response: any text.
        budget: maximum tokens; at least 1.
        head: maximum tokens of its beginning among them; 0 to keep only its end. Ignored if the
            budget is less than twice as large.
        shown: transforms the text before it is tokenised.
        encode: tokenises the transformed text.
        answer: finds start and end of the response's answer, which is kept in any case; of a long
            text after it only ``END_TOKENS`` tokens. Only called if the response is cut.
    """

    @cache  # the text from the answer on is needed again
    def read(text: str) -> Read:
        text = shown(text)
        return Read(text, *encode(text))

    head = head if 2 * head <= budget else 0
    skipped, end = enough(response, budget, read, at_end=True)
    fits = len(end.ids) <= budget
    if fits and not skipped:
        return Shortened(end.text, end.ids, 0, 0)
    begin = 0
    if found := answer():
        start, stop = found
        # If the end would not show the answer, show it as the beginning, with a short end.
        if start < skipped or len(read(response[start:]).ids) > budget - head:
            size = len(read(response[start:stop]).ids) + len(read(JOINT).ids) + 2
            head = max(head, min(size, budget // 2))
            budget = min(budget, head + END_TOKENS)
            begin, response = start, response[start:]
            skipped, end = enough(response, budget, read, at_end=True)
            fits = len(end.ids) <= budget
    if fits and not (skipped and (head or found)):
        return Shortened(end.text, end.ids, begin + skipped, 0)
    before: list[int] = []
    beginning, after = "", 0
    if 0 < head < budget:
        first = enough(response, head, read, at_end=False)[1] if skipped else end
        beginning, before, after = _beginning(first, head, read(JOINT).ids)
    room = budget - len(before)
    start = end.starts[-room] if len(end.ids) > room else 0
    cut = begin + max(skipped + start - after, 0)
    return Shortened(beginning + end.text[start:], before + end.ids[-room:], cut, after)


def enough(
    response: str, tokens: int, read: Callable[[str], Read], at_end: bool
) -> tuple[int, Read]:
    """The end or the beginning of a response, and the number of characters left out.

    It has at least ``tokens`` tokens, if the response does within ``CHARACTERS_A_TOKEN`` characters
    each. Few texts exceed eight characters per token; only those are read further.
    """
    for characters in (OFTEN_CHARACTERS * tokens, CHARACTERS_A_TOKEN * tokens):
        left_out = max(0, len(response) - characters)
        part = read(response[left_out:] if at_end else response[:characters])
        if not left_out or len(part.ids) > tokens + _EDGE:
            break
    return left_out, part


def cut_span(
    response: str, text: str, head: int, shown: Callable[[str], str]
) -> tuple[int, int, bool]:
    """Start and end of the text that ``shortened`` cut from the response, and whether exact.

    They are estimated from its length if ``shown`` rewrites what remains.
    """
    first, last = text[:head], text[head + len(JOINT) :] if head else text
    end = max(0, len(response) - len(last))
    start = min(head, end)
    exact = (shown(response[:start]), shown(response[end:])) == (first, last)
    return start, end, exact


def _beginning(first: Read, most: int, joint: list[int]) -> tuple[str, list[int], int]:
    """The first words with ``JOINT``, their tokens, and the words' number of characters."""
    text, ids, starts = first
    for end in range(min(most - len(joint), len(ids) - 1), 0, -1):
        at = starts[end]
        if not _IN_WORD.issuperset(text[at - 1 : at + 1]):
            return text[:at] + JOINT, ids[:end] + joint, at
    return "", [], 0


_MAX_SKELETONS = 64
_SHORT = 2**12  # characters of a text whose tokens are kept
_SHORT_TEXTS = 512
_LONG_TEXTS = 4  # such as the tools of a conversation
_CRITERION_STEP = 128  # tokens
_AFTER_ANSWER = 100  # characters

_MARKER = re.compile("\ue000(" + FIELD + ")\ue001")


class LabelError(ValueError):
    """A template's label is not a single, unique token for the judge's tokenizer."""


Parts = tuple[tuple[str, str | None], ...]
"""A text split at its fields: each part, and the name of the field after it (last: None)."""
_Turn = tuple[str, Parts]


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A rendered template, split at its fields; some are empty without a tokenizer."""

    turns: tuple[_Turn, ...]
    text: Parts  # the whole prompt, as the chat template renders it
    runs: tuple[tuple[tuple[int, ...], str | None], ...]  # the same as token ids
    label_ids: Mapping[str, int]  # each label's token after the prompt
    length: int  # tokens without the fields

    def filled(self, texts: Mapping[str, str], encoded: Mapping[str, list[int]]) -> Prompt:
        """The prompt with the fields' texts and token ids inserted."""
        messages: list[dict[str, Any]] = []
        for role, parts in self.turns:
            content = "".join(part + texts.get(name or "", "") for part, name in parts)
            messages.append({"role": role, "content": content})
        ids: list[int] = []
        for run, name in self.runs:
            ids += run
            ids += encoded[name] if name else ()
        return Prompt(messages, ids, self.label_ids, fields=texts)


class Renderer:
    """Renders prompts for one tokenizer, without one as messages only.

    ``max_prompt_tokens`` are of a prompt and its completion.
    """

    def __init__(self, tokenizer: Tokenizer | None, max_prompt_tokens: int) -> None:
        self._tokenizer = tokenizer
        self._encode = tokenizer.encode_plain if tokenizer else by_characters
        self._max_prompt_tokens = max_prompt_tokens
        self._skeletons: dict[tuple[str, str, Mode, bool], Skeleton] = {}
        self._read_short = lru_cache(_SHORT_TEXTS)(self._read_any)
        self._read_long = lru_cache(_LONG_TEXTS)(self._read_any)  # a conversation's states repeat

    def label_ids(self, template: Template) -> Mapping[str, int]:
        """Label to token id, empty without a tokenizer; or a ``LabelError``."""
        return self.skeleton(template, "label", False).label_ids

    def render(
        self,
        template: Template,
        fields: Mapping[str, str],
        mode: Mode,
        *,
        response_tokens: int,
        reserve_tokens: int,
        enable_thinking: bool = False,
        conversation: Callable[[Encode, Callable[[str], str], int], ShownTurns] | None = None,
    ) -> Prompt:
        """Render the prompt of one request.

        The response's end is kept (within its last ``32 * response_tokens`` characters), and its
        beginning too if the template sets ``head_tokens``. With a template that shows the
        reference's final answer, the judge sees only the text that the response committed to,
        always with its answer and what follows it at once.

        Args:
            template: the judging template.
            fields: the text of each field.
            mode: of the judge.
            response_tokens: maximum tokens of the response or conversation to show; fewer if there
                is less room.
            reserve_tokens: tokens of the model's context to keep for the judge's answer.
            enable_thinking: whether the chat template enables thinking.
            conversation: shows the conversation, given how texts are tokenised and shown, and the
                maximum tokens; for templates that show one.

        Raises:
            ValueError: the other fields leave no room for the response, the conversation cannot be
                cut to fit, or it has an image and the engine takes tokens.
        """
        skeleton = self.skeleton(template, mode, enable_thinking)
        shown = shown_as(template)
        responses = [name for name in template.fields if is_judged(name)]
        others = [name for name in template.fields if name not in responses]
        texts, encoded = dict[str, str](), dict[str, list[int]]()
        for name in others:
            if len(fields[name]) > CHARACTERS_A_TOKEN * self._max_prompt_tokens:
                raise ValueError(
                    f"{name}: {len(fields[name])} characters do not fit a prompt of "
                    f"{self._max_prompt_tokens} tokens; shorten it"
                )
            texts[name], encoded[name] = self._read(shown, fields[name])
        reference = texts.get("reference") if template.occurrence else None
        sizes = {name: len(ids) for name, ids in encoded.items()}
        if reference is not None:
            sizes["reference"] += self._occurrence_tokens()
        if "criterion" in sizes:  # all criteria must leave the response the same room
            sizes["criterion"] = _CRITERION_STEP * math.ceil(sizes["criterion"] / _CRITERION_STEP)
        fixed = skeleton.length + sum(sizes.values())
        room = self._max_prompt_tokens - reserve_tokens - fixed
        if room < len(responses):
            raise ValueError(
                f"question and reference: {fixed} prompt tokens leave no room for the response; "
                f"the limit is {self._max_prompt_tokens}, of which {reserve_tokens} are "
                "reserved for the judge's answer; shorten them"
            )
        budget = min(response_tokens, room // len(responses))
        if conversation is not None and responses == ["conversation"]:
            turns = conversation(self._encode, shown, budget)
            return self._with_turns(skeleton, texts, encoded, turns)
        cut = head = 0
        for name in responses:
            response = self._shown_response(template, fields[name], budget)
            texts[name], encoded[name] = response.text, response.ids
            cut, head = cut + response.cut_characters, response.head
        if reference is not None:
            clause = committed(fields["response"]).clause
            where = bundled_judge().occurrence(
                reference, texts["response"], clause and shown(clause)
            )
            texts["reference"], encoded["reference"] = self._read(str, f"{reference} ({where})")
        prompt = skeleton.filled(texts, encoded)
        return replace(prompt, cut_characters=cut, head_characters=head)

    def _with_turns(
        self,
        skeleton: Skeleton,
        texts: dict[str, str],
        encoded: dict[str, list[int]],
        shown: ShownTurns,
    ) -> Prompt:
        texts["conversation"], encoded["conversation"] = shown.text, shown.ids
        prompt = skeleton.filled(texts, encoded)
        if shown.images:
            if self._tokenizer is not None:
                raise ValueError(
                    "messages: have an image, which only the model of a remote endpoint is shown; "
                    "describe it in text"
                )
            *before, user = prompt.messages
            content = [{"type": "text", "text": user["content"]}, *shown.images]
            prompt = replace(prompt, messages=[*before, {**user, "content": content}])
        cut = sum(end - start for _, start, end in shown.cut)
        return replace(prompt, cut_characters=cut, cut=shown.cut, cut_turns=shown.cut_turns)

    @cache  # noqa: B019 a renderer lives as long as its engine
    def _occurrence_tokens(self) -> int:
        return max(len(self._encode(f" ({where})")[0]) for where in bundled_judge().OCCURRENCES)

    def _read(self, shown: Callable[[str], str], text: str) -> tuple[str, list[int]]:
        """A field's text as shown, and its tokens; a group's samples have theirs in common."""
        return (self._read_short if len(text) <= _SHORT else self._read_long)(shown, text)

    def _read_any(self, shown: Callable[[str], str], text: str) -> tuple[str, list[int]]:
        text = shown(text)
        return text, self._encode(text)[0]

    def _shown_response(self, template: Template, text: str, budget: int) -> Shortened:
        how = budget, template.head_tokens, shown_as(template), self._encode
        if template.reference != "final_answer":
            return shortened(text, *how)
        found = committed(text)
        response = shortened(found.text, *how, partial(_answer_of, found, template))
        unread = max(0, len(text) - MAX_RESPONSE)
        return response._replace(cut_characters=response.cut_characters + unread)

    def skeleton(self, template: Template, mode: Mode, enable_thinking: bool) -> Skeleton:
        """The rendered template, cached."""
        key = (template.name, template.digest, mode, enable_thinking)
        skeleton = self._skeletons.get(key)  # which another thread may clear
        if skeleton is None:
            skeleton = self._build(template, mode, enable_thinking)
            if len(self._skeletons) >= _MAX_SKELETONS:  # requests may send inline templates
                self._skeletons.clear()
            self._skeletons[key] = skeleton
        return skeleton

    def _build(self, template: Template, mode: Mode, enable_thinking: bool) -> Skeleton:
        if template.numerals == "canonical" or template.occurrence:
            bundled_judge()  # whether it is installed shows at the start
        form = getattr(template, mode)
        user = PLACEHOLDER.sub(lambda found: f"\ue000{found[1]}\ue001", template.user)
        system = template.system.replace(INSTRUCTION, form.instruction)
        if system == template.system and form.instruction:
            user += f"\n{form.instruction}"
        messages = [{"role": "system", "content": system}] if system else []
        messages.append({"role": "user", "content": user})
        turns = tuple((turn["role"], _parts(turn["content"])) for turn in messages)
        if self._tokenizer is None:
            length = sum(len(text) for _, parts in turns for text, _ in parts)
            return Skeleton(turns, (), (), {}, length)
        encode = self._tokenizer.encode_control
        chat = template.chat_template
        parts = _parts(self._tokenizer.chat(messages, enable_thinking) if chat else user)
        runs = tuple((tuple(encode(text)), name) for text, name in parts)
        labels = template.label.values if mode == "label" and template.label else ()
        label_ids = {label: _label_id(encode, parts[-1][0], label) for label in labels}
        if len(set(label_ids.values())) < len(label_ids):
            raise LabelError(f"labels {list(labels)} share a token under this tokenizer")
        return Skeleton(turns, parts, runs, label_ids, sum(len(ids) for ids, _ in runs))


def _answer_of(found: Committed, template: Template) -> tuple[int, int] | None:
    """Start and end of the answer, with the text after it that may take it back."""
    span = found.span
    if span is None and template.numerals == "canonical":
        span = bundled_judge().stated(found.text)
    return span and (span[0], span[1] + _AFTER_ANSWER)


def _parts(text: str) -> Parts:
    """The text between markers, each part with the name of the field that follows it."""
    parts = _MARKER.split(text)
    return tuple(zip(parts[::2], [*parts[1::2], None], strict=True))


def _label_id(encode: Callable[[str], list[int]], prefix: str, label: str) -> int:
    before, after = encode(prefix), encode(prefix + label)
    if after[: len(before)] != before or len(after) != len(before) + 1:
        raise LabelError(
            f"label {label!r} is not a single token after the prompt under this tokenizer; "
            "choose labels such as 0 and 1"
        )
    return after[-1]


def shown_as(template: Template) -> Callable[[str], str]:
    """The transformation of a field's text before it is inserted into the prompt."""
    return _plain_numerals if template.numerals == "canonical" else defuse


def _plain_numerals(text: str) -> str:
    return defuse(bundled_judge().canonical(text))


def defuse(text: str) -> str:
    """The text with the "<" of every fence tag replaced, so that no field can close its fence."""
    return _FENCE.sub("‹", text)
