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
from reward_serve.explanation import Cut
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
    """A text, cut to its budget."""

    text: str  # with JOINT if the middle was cut
    ids: list[int]
    cut_characters: int = 0
    gaps: Sequence[tuple[int, int]] = ()  # start and end of each part that is not shown
    is_exact: bool = True  # whether the gaps are; not if numerals in what is shown were rewritten


class ShownTurns(NamedTuple):
    """A conversation as it is shown."""

    text: str
    ids: list[int]
    cut: list[Cut]
    cut_turns: int  # number of turns that are left out
    images: list[dict[str, JsonValue]]  # of the turns that are shown


def shortened(
    response: str,
    budget: int,
    head: int,
    rewrite: Callable[[str], str],
    encode: Encode,
    answer: Callable[[], tuple[int, int] | None] = lambda: None,
) -> Shortened:
    """Cut the response to ``budget`` tokens.

    Args:
        response: any text.
        budget: maximum tokens; at least 1.
        head: maximum tokens of its beginning among them; 0 to keep only its end. Ignored if the
            budget is less than twice as large.
        rewrite: transforms the text before it is tokenised.
        encode: tokenises the transformed text.
        answer: finds start and end of the response's answer, which is kept in any case; of a long
            text after it only ``END_TOKENS`` tokens. Only called if the response is cut.
    """

    @cache  # the text from the answer on is needed again
    def read(text: str) -> Read:
        text = rewrite(text)
        return Read(text, *encode(text))

    head = head if 2 * head <= budget else 0
    skipped, end = enough(response, budget, read, at_end=True)
    fits = len(end.ids) <= budget
    if fits and not skipped:
        return Shortened(end.text, end.ids)
    begin = 0
    if span := answer():
        start, stop = span
        # If the end would not show the answer, show it as the beginning, with a short end.
        if start < skipped or len(read(response[start:]).ids) > budget - head:
            size = len(read(response[start:stop]).ids) + len(read(JOINT).ids) + 2
            head = max(head, min(size, budget // 2))
            budget = min(budget, head + END_TOKENS)
            begin, response = start, response[start:]
            skipped, end = enough(response, budget, read, at_end=True)
            fits = len(end.ids) <= budget
    before: list[int] = []
    beginning, after = "", 0
    if 0 < head < budget and (skipped or not fits):
        first = enough(response, head, read, at_end=False)[1] if skipped else end
        beginning, before, after = _beginning(first, head, read(JOINT).ids)
    room = budget - len(before)
    start = end.starts[-room] if len(end.ids) > room else 0
    ending, rest = end.text[start:], max(after, len(response) - len(end.text) + start)
    gaps = [(0, begin), (begin + after, begin + rest)] if after else [(0, begin + rest)]
    return Shortened(
        beginning + ending,
        before + end.ids[-room:],
        begin + max(skipped + start - after, 0),
        [(start, end) for start, end in gaps if start < end],
        (defuse(response[:after]), defuse(response[rest:])) == (beginning[:after], ending),
    )


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
_Part = tuple[str, list[int]]  # a field's text as shown, and its tokens


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A rendered template, split at its fields; some are empty without a tokenizer."""

    turns: tuple[_Turn, ...]
    text: Parts  # the whole prompt, as the chat template renders it
    runs: tuple[tuple[tuple[int, ...], str | None], ...]  # the same as token ids
    label_ids: Mapping[str, int]  # each label's token after the prompt
    length: int  # tokens without the fields

    def filled(self, parts: Mapping[str, _Part]) -> Prompt:
        """The prompt with the fields' texts and token ids inserted."""
        texts = {name: text for name, (text, _) in parts.items()}
        messages: list[dict[str, Any]] = []
        for role, pieces in self.turns:
            content = "".join(piece + texts.get(name or "", "") for piece, name in pieces)
            messages.append({"role": role, "content": content})
        ids: list[int] = []
        for run, name in self.runs:
            ids += run
            ids += parts[name][1] if name else ()
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
            conversation: shows the conversation, given how texts are tokenised and rewritten, and
                the maximum tokens; for templates that show one.

        Raises:
            ValueError: the other fields leave no room for the response, the conversation cannot be
                cut to fit, or it has an image and the engine takes tokens.
        """
        skeleton, rewrite = self.skeleton(template, mode, enable_thinking), shown_as(template)
        judged = list(filter(is_judged, template.fields))
        parts = dict[str, _Part]()
        for name in template.fields:
            if name in judged:
                continue
            if len(fields[name]) > CHARACTERS_A_TOKEN * self._max_prompt_tokens:
                raise ValueError(
                    f"{name}: {len(fields[name])} characters do not fit a prompt of "
                    f"{self._max_prompt_tokens} tokens; shorten it"
                )
            parts[name] = self._read(rewrite, fields[name])
        fixed = skeleton.length + self._length(template, parts)
        room = self._max_prompt_tokens - reserve_tokens - fixed
        if room < len(judged):
            raise ValueError(
                f"question and reference: {fixed} prompt tokens leave no room for the response; "
                f"the limit is {self._max_prompt_tokens}, of which {reserve_tokens} are "
                "reserved for the judge's answer; shorten them"
            )
        budget = min(response_tokens, room // len(judged))
        if conversation is not None and judged == ["conversation"]:
            return self._with_turns(skeleton, parts, conversation(self._encode, rewrite, budget))
        return self._with_responses(skeleton, parts, template, fields, budget)

    def _length(self, template: Template, parts: Mapping[str, _Part]) -> int:
        """The number of tokens of the fields that are not cut."""
        lengths = {name: len(ids) for name, (_, ids) in parts.items()}
        if template.occurrence and "reference" in parts:
            lengths["reference"] += self._occurrence_tokens()
        if "criterion" in parts:  # all criteria must leave the response the same room
            steps = math.ceil(lengths["criterion"] / _CRITERION_STEP)
            lengths["criterion"] = _CRITERION_STEP * steps
        return sum(lengths.values())

    def _with_responses(
        self,
        skeleton: Skeleton,
        parts: dict[str, _Part],
        template: Template,
        fields: Mapping[str, str],
        budget: int,
    ) -> Prompt:
        cut_characters, cut = 0, list[Cut]()
        for name in filter(is_judged, template.fields):
            response = self._shown_response(template, fields[name], budget)
            parts[name] = response.text, response.ids
            cut_characters += response.cut_characters
            for start, end in response.gaps:
                cut.append(Cut(field="response", start=start, end=end, exact=response.is_exact))
        if template.occurrence and "reference" in parts:
            reference, response_text = parts["reference"][0], parts["response"][0]
            clause = committed(fields["response"]).clause
            clause = clause and shown_as(template)(clause)
            where = bundled_judge().occurrence(reference, response_text, clause)
            parts["reference"] = self._read(str, f"{reference} ({where})")
        details = {"cut_response_characters": cut_characters} if cut_characters else {}
        return replace(skeleton.filled(parts), cut=cut, cut_details=details)

    def _with_turns(self, skeleton: Skeleton, parts: dict[str, _Part], turns: ShownTurns) -> Prompt:
        parts["conversation"] = turns.text, turns.ids
        prompt = skeleton.filled(parts)
        if turns.images:
            if self._tokenizer is not None:
                raise ValueError(
                    "messages: have an image, which only the model of a remote endpoint is shown; "
                    "describe it in text"
                )
            *before, user = prompt.messages
            content = [{"type": "text", "text": user["content"]}, *turns.images]
            prompt = replace(prompt, messages=[*before, {**user, "content": content}])
        if not turns.cut:
            return prompt
        characters = sum(cut.end - cut.start for cut in turns.cut)
        details = {"cut_characters": characters, "cut_turns": turns.cut_turns}
        return replace(prompt, cut=turns.cut, cut_details=details)

    @cache  # noqa: B019 a renderer lives as long as its engine
    def _occurrence_tokens(self) -> int:
        return max(len(self._encode(f" ({where})")[0]) for where in bundled_judge().OCCURRENCES)

    def _read(self, rewrite: Callable[[str], str], text: str) -> _Part:
        """A field's text as shown, and its tokens; a group's samples have theirs in common."""
        return (self._read_short if len(text) <= _SHORT else self._read_long)(rewrite, text)

    def _read_any(self, rewrite: Callable[[str], str], text: str) -> _Part:
        text = rewrite(text)
        return text, self._encode(text)[0]

    def _shown_response(self, template: Template, text: str, budget: int) -> Shortened:
        settings = budget, template.head_tokens, shown_as(template), self._encode
        if template.reference != "final_answer":
            return shortened(text, *settings)
        commitment = committed(text)
        answer = partial(_answer_of, commitment, template)
        response = shortened(commitment.text, *settings, answer)
        unread = max(0, len(text) - MAX_RESPONSE)
        if not response.gaps and not unread:
            return response
        at = text.rfind(commitment.text)
        is_exact, at = response.is_exact and at >= 0, max(at, 0)
        gaps = [(start and at + start, at + end) for start, end in response.gaps] or [(0, at)]
        cut_characters = response.cut_characters + unread
        return Shortened(response.text, response.ids, cut_characters, gaps, is_exact)

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
        user = PLACEHOLDER.sub(lambda match: f"\ue000{match[1]}\ue001", template.user)
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


def _answer_of(commitment: Committed, template: Template) -> tuple[int, int] | None:
    """Start and end of the answer, with the text after it that may take it back."""
    span = commitment.span
    if span is None and template.numerals == "canonical":
        span = bundled_judge().stated(commitment.text)
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
