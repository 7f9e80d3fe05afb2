"""Renders a template and a request into prompt tokens that no field can break out of.

The chat template renders the judging template once, with a marker where each field goes; the text
between markers is tokenised once and kept. A field is tokenised on its own, as plain text:
chat-template tokens written inside it stay text, braces and template syntax are never evaluated,
and what would close its fence is defused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from reward_serve.judging.cutting import shortened
from reward_serve.numbers.canonical import canonical
from reward_serve.templates import FIELDS, INSTRUCTION, PLACEHOLDER, Template

Mode = Literal["label", "generate"]

_MAX_SKELETONS = 64

_FENCE = re.compile(r"<(?=\s*/?\s*(?:" + "|".join(FIELDS) + r")\b)", re.IGNORECASE)
_MARKER = re.compile("\ue000(" + "|".join(FIELDS) + ")\ue001")


class Tokenizer(Protocol):
    """What rendering needs of a tokenizer; ``engines.tokenizer.ChatTokenizer`` is one."""

    def chat(self, messages: Sequence[Mapping[str, str]], enable_thinking: bool) -> str:
        """The conversation as text, up to where the assistant's turn begins."""

    def encode_control(self, text: str) -> list[int]:
        """Token ids of trusted text: special tokens in it are control tokens."""

    def encode_plain(self, text: str) -> tuple[list[int], list[int]]:
        """Token ids of untrusted text, and where each starts; special tokens in it stay text."""


class LabelError(ValueError):
    """A template's label is not one token of its own under the judge's tokenizer."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A rendered prompt.

    Attributes:
        token_ids: the whole prompt.
        cut_characters: how many characters were cut from the response, as it was shown.
    """

    token_ids: list[int]
    cut_characters: int


@dataclass(frozen=True, slots=True)
class _Skeleton:
    """A template's fixed token runs with the field that follows each; the last has none."""

    runs: tuple[tuple[tuple[int, ...], str | None], ...]
    label_ids: tuple[tuple[str, int], ...]

    @property
    def length(self) -> int:
        return sum(len(ids) for ids, _ in self.runs)


class Renderer:
    """Renders for one tokenizer.

    Args:
        tokenizer: the judge model's.
        max_prompt_tokens: most tokens a label-mode prompt may have.
    """

    def __init__(self, tokenizer: Tokenizer, max_prompt_tokens: int) -> None:
        self._tokenizer = tokenizer
        self._max_prompt_tokens = max_prompt_tokens
        self._skeletons: dict[tuple[str, str, Mode, bool], _Skeleton] = {}

    def label_ids(self, template: Template) -> dict[str, int]:
        """Label to token id.

        Raises:
            LabelError: a label is several tokens here, or two labels share one.
        """
        return dict(self._skeleton(template, "label", False).label_ids)

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
        shown = canonical if template.numerals == "canonical" else str
        encoded = {
            name: self._tokenizer.encode_plain(defuse(shown(fields[name])))[0]
            for name in template.fields
            if name != "response"
        }
        fixed = skeleton.length + sum(map(len, encoded.values()))
        room = self._max_prompt_tokens - reserve_tokens - fixed
        if room < 1:
            raise ValueError(
                f"question and reference: {fixed} prompt tokens leave no room for the response; "
                f"the limit is {self._max_prompt_tokens}, with {reserve_tokens} to be written"
            )
        encoded["response"], cut_characters = shortened(
            fields["response"],
            min(response_tokens, room),
            template.head_tokens,
            lambda text: defuse(shown(text)),
            self._tokenizer.encode_plain,
        )
        ids: list[int] = []
        for run, name in skeleton.runs:
            ids.extend(run)
            if name is not None:
                ids.extend(encoded[name])
        return Prompt(ids, cut_characters)

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
        parts = _MARKER.split(self._tokenizer.chat(messages, enable_thinking))
        texts, names = parts[::2], [*parts[1::2], None]
        encode = self._tokenizer.encode_control
        runs = tuple((tuple(encode(t)), name) for t, name in zip(texts, names, strict=True))
        labels = template.label.values if mode == "label" and template.label else ()
        label_ids = tuple((label, self._label_id(texts[-1], label)) for label in labels)
        if len({i for _, i in label_ids}) < len(label_ids):
            raise LabelError(f"labels {list(labels)} share a token under this tokenizer")
        return _Skeleton(runs, label_ids)

    def _label_id(self, prefix: str, label: str) -> int:
        before = self._tokenizer.encode_control(prefix)
        after = self._tokenizer.encode_control(prefix + label)
        if after[: len(before)] != before or len(after) != len(before) + 1:
            raise LabelError(
                f"label {label!r} is not a single token after the prompt under this tokenizer; "
                "choose labels that are, such as 0 and 1"
            )
        return after[-1]


def defuse(text: str) -> str:
    """The text with every fence tag in it broken, so that no field can close its fence."""
    return _FENCE.sub("‹", text)
