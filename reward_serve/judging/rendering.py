"""Renders a template and a request into a prompt that no field can break out of.

For a model's tokenizer, the chat template renders the judging template once, with a marker where
each field goes; the text between markers is tokenised once and kept. A field is tokenised on its
own, as plain text: chat-template tokens written inside it stay text, braces and template syntax are
never evaluated, and what would close its fence is defused. An engine without a tokenizer gets the
same as messages, with three characters counted as a token.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from reward_serve.engines.base import Prompt, Tokenizer
from reward_serve.judging.cutting import Shortened, by_characters, shortened
from reward_serve.numbers.canonical import canonical
from reward_serve.templates import FIELDS, INSTRUCTION, PLACEHOLDER, Template

Mode = Literal["label", "generate"]

_MAX_SKELETONS = 64

_FENCE = re.compile(r"<(?=\s*/?\s*(?:" + "|".join(FIELDS) + r")\b)", re.IGNORECASE)
_MARKER = re.compile("\ue000(" + "|".join(FIELDS) + ")\ue001")


class LabelError(ValueError):
    """A template's label is not one token of its own under the judge's tokenizer."""


Parts = tuple[tuple[str, str | None], ...]
"""A text without its fields: what comes before each, and the field's name; the last None."""
_Turn = tuple[str, Parts]


@dataclass(frozen=True, slots=True)
class _Skeleton:
    """A template without its fields: what comes before each, and the field's name; the last None.

    Attributes:
        turns: as text, each message's role and parts.
        text: the whole prompt, as the chat template writes it; empty where there is no tokenizer.
        runs: the same as token ids; likewise.
        label_ids: each label's token after the prompt; likewise.
        length: tokens of all but the fields.
    """

    turns: tuple[_Turn, ...]
    text: Parts
    runs: tuple[tuple[tuple[int, ...], str | None], ...]
    label_ids: Mapping[str, int]
    length: int

    def filled(
        self, texts: Mapping[str, str], encoded: Mapping[str, list[int]], response: Shortened
    ) -> Prompt:
        """The prompt, with each field's text in its turn and its token ids in their run."""
        messages = [
            {
                "role": role,
                "content": "".join(part + texts.get(name or "", "") for part, name in parts),
            }
            for role, parts in self.turns
        ]
        ids: list[int] = []
        for run, name in self.runs:
            ids += run
            ids += encoded[name] if name else ()
        cut, head = response.cut_characters, response.head
        return Prompt(messages, ids, self.label_ids, cut, head, texts)


class Renderer:
    """Renders for one tokenizer.

    Args:
        tokenizer: the judge model's; None for messages alone.
        max_prompt_tokens: most tokens a label-mode prompt may have.
    """

    def __init__(self, tokenizer: Tokenizer | None, max_prompt_tokens: int) -> None:
        self._tokenizer = tokenizer
        self._encode = tokenizer.encode_plain if tokenizer else by_characters
        self._max_prompt_tokens = max_prompt_tokens
        self._skeletons: dict[tuple[str, str, Mode, bool], _Skeleton] = {}

    def label_ids(self, template: Template) -> Mapping[str, int]:
        """Label to token id; empty where there is no tokenizer.

        Raises:
            LabelError: a label is several tokens here, or two labels share one.
        """
        return self._skeleton(template, "label", False).label_ids

    def render(
        self,
        template: Template,
        fields: Mapping[str, str],
        *,
        mode: Mode,
        response_tokens: int,
        reserve_tokens: int,
        enable_thinking: bool = False,
    ) -> Prompt:
        """The prompt for one candidate.

        The response is cut to ``response_tokens`` tokens, or fewer where the context, which is
        ``max_prompt_tokens`` less ``reserve_tokens`` to be written, holds fewer: to its last ones
        (of at most its last ``32 * response_tokens`` characters), and in a template with
        ``head_tokens`` to its first so many words and its last ones.

        Raises:
            ValueError: the other fields alone are longer than the context.
        """
        skeleton = self._skeleton(template, mode, enable_thinking)
        for field in template.fields:
            if field != "response" and len(fields[field]) > 32 * self._max_prompt_tokens:
                raise ValueError(
                    f"{field}: {len(fields[field])} characters do not fit a prompt of "
                    f"{self._max_prompt_tokens} tokens; shorten it"
                )
        shown = shown_as(template)
        texts = {name: shown(fields[name]) for name in template.fields if name != "response"}
        encoded = {name: self._encode(text)[0] for name, text in texts.items()}
        fixed = skeleton.length + sum(map(len, encoded.values()))
        room = self._max_prompt_tokens - reserve_tokens - fixed
        if room < 1:
            raise ValueError(
                f"question and reference: {fixed} prompt tokens leave no room for the response; "
                f"the limit is {self._max_prompt_tokens}, with {reserve_tokens} to be written"
            )
        response = shortened(
            fields["response"],
            min(response_tokens, room),
            template.head_tokens,
            shown,
            self._encode,
        )
        texts["response"], encoded["response"] = response.text, response.ids
        return skeleton.filled(texts, encoded, response)

    def text(self, template: Template, mode: Mode, enable_thinking: bool) -> Parts:
        """The whole prompt's text around its fields; empty where there is no tokenizer."""
        return self._skeleton(template, mode, enable_thinking).text

    def turns(self, template: Template, mode: Mode, enable_thinking: bool) -> tuple[_Turn, ...]:
        """Each message's role, and its text around the fields in it."""
        return self._skeleton(template, mode, enable_thinking).turns

    def _skeleton(self, template: Template, mode: Mode, enable_thinking: bool) -> _Skeleton:
        key = (template.name, template.digest, mode, enable_thinking)
        if key not in self._skeletons:
            if len(self._skeletons) >= _MAX_SKELETONS:  # requests may bring their own templates
                self._skeletons.pop(next(iter(self._skeletons)))
            self._skeletons[key] = self._build(template, mode, enable_thinking)
        return self._skeletons[key]

    def _build(self, template: Template, mode: Mode, enable_thinking: bool) -> _Skeleton:
        form: Any = template.label if mode == "label" else template.generate
        user = PLACEHOLDER.sub(lambda found: f"\ue000{found[1]}\ue001", template.user)
        system = template.system.replace(INSTRUCTION, form.instruction)
        if system == template.system and form.instruction:
            user += f"\n{form.instruction}"
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        turns = tuple((turn["role"], _parts(turn["content"])) for turn in messages)
        if self._tokenizer is None:
            length = sum(len(text) for _, parts in turns for text, _ in parts)
            return _Skeleton(turns, (), (), {}, length)
        encode = self._tokenizer.encode_control
        parts = _parts(self._tokenizer.chat(messages, enable_thinking))
        runs = tuple((tuple(encode(text)), name) for text, name in parts)
        labels = template.label.values if mode == "label" and template.label else ()
        label_ids = {label: _label_id(encode, parts[-1][0], label) for label in labels}
        if len(set(label_ids.values())) < len(label_ids):
            raise LabelError(f"labels {list(labels)} share a token under this tokenizer")
        return _Skeleton(turns, parts, runs, label_ids, sum(len(ids) for ids, _ in runs))


def _parts(text: str) -> Parts:
    """The text between markers, each with the field that follows it."""
    parts = _MARKER.split(text)
    return tuple(zip(parts[::2], [*parts[1::2], None], strict=True))


def _label_id(encode: Callable[[str], list[int]], prefix: str, label: str) -> int:
    before, after = encode(prefix), encode(prefix + label)
    if after[: len(before)] != before or len(after) != len(before) + 1:
        raise LabelError(
            f"label {label!r} is not a single token after the prompt under this tokenizer; "
            "choose labels that are, such as 0 and 1"
        )
    return after[-1]


def shown_as(template: Template) -> Callable[[str], str]:
    """What becomes of a field's text before it stands in the prompt."""
    if template.numerals == "canonical":
        return lambda text: defuse(canonical(text))
    return defuse


def defuse(text: str) -> str:
    """The text with every fence tag in it broken, so that no field can close its fence."""
    return _FENCE.sub("‹", text)
