"""A model's tokenizer for trusted and untrusted text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, overload

from reward_serve.engines.checkpoint import CheckpointError

_LONG = 2**12
_STAND_INS = "\ufffd?_ "


class ChatTokenizer:
    """The model's tokenizer, and a copy of it without special tokens.

    Raises:
        CheckpointError: the model has no chat template, or no ``tokenizers`` backend.
    """

    def __init__(self, tokenizer: Any) -> None:
        from tokenizers import Tokenizer as Backend

        if not getattr(tokenizer, "chat_template", None):
            raise CheckpointError(
                "engine.model: the tokenizer has no chat template; serve an instruct model"
            )
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise CheckpointError(
                "engine.model: the tokenizer has no tokenizer.json; convert it to a fast tokenizer"
            )
        definition = json.loads(backend.to_str())
        definition["truncation"] = definition["padding"] = None
        self._tokenizer = tokenizer
        self._control = Backend.from_str(json.dumps(definition))
        self._special = {t["id"] for t in definition["added_tokens"] if t["special"]}
        definition["added_tokens"] = []
        self._plain = Backend.from_str(json.dumps(definition))
        self._stand_in = next(filter(self._is_known, _STAND_INS), None)

    def chat(self, messages: Sequence[Mapping[str, str]], enable_thinking: bool) -> str:
        """The conversation as text, up to the beginning of the assistant's turn."""
        text: str = self._tokenizer.apply_chat_template(
            list(messages),
            tokenize=False,
            add_generation_prompt=True,
            enable_thinking=enable_thinking,
        )
        return text

    def conversation(self, messages: Sequence[Mapping[str, str]]) -> str:
        """The complete conversation as text, including the end of its last turn."""
        text: str = self._tokenizer.apply_chat_template(list(messages), tokenize=False)
        return text

    def encode_control(self, text: str) -> list[int]:
        """Tokenise trusted text; special tokens in it become control tokens."""
        ids: list[int] = self._control.encode(text, add_special_tokens=False).ids
        return ids

    def encode_plain(self, text: str) -> tuple[list[int], Sequence[int]]:
        """Tokenise untrusted text; special tokens in it stay text.

        A character that the vocabulary can only encode as a special token (such as ``<unk>``) is
        replaced by a known one. Leaving it out would join the text on both sides of it.

        Returns:
            Token ids, and the character offset at which each token starts.
        """
        ids, starts, unknown = self._plain_ids(text)
        if unknown and self._stand_in:
            shown = (self._stand_in if at in unknown else c for at, c in enumerate(text))
            ids, starts, _ = self._plain_ids("".join(shown))
        return ids, starts

    def _plain_ids(self, text: str) -> tuple[list[int], Sequence[int], set[int]]:
        """Token ids, their offsets, and the characters that only a special token could encode."""
        if len(text) > _LONG:  # only a batch is encoded without the GIL
            (encoding,) = self._plain.encode_batch([text], add_special_tokens=False)
        else:
            encoding = self._plain.encode(text, add_special_tokens=False)
        ids = encoding.ids
        if self._special.isdisjoint(ids):
            return ids, _Starts(encoding), set()
        tokens = list(zip(ids, encoding.offsets, strict=True))
        kept = [(i, start) for i, (start, _) in tokens if i not in self._special]
        unknown = {at for i, span in tokens if i in self._special for at in range(*span)}
        return [i for i, _ in kept], [start for _, start in kept], unknown

    def _is_known(self, character: str) -> bool:
        ids, _, unknown = self._plain_ids(character)
        return bool(ids) and not unknown


class _Starts(Sequence[int]):
    """The offset at which each token starts; few are needed, and a list of all takes long."""

    def __init__(self, encoding: Any) -> None:
        self._encoding = encoding

    def __len__(self) -> int:
        return len(self._encoding)

    @overload
    def __getitem__(self, token: int) -> int: ...
    @overload
    def __getitem__(self, token: slice) -> list[int]: ...
    def __getitem__(self, token: int | slice) -> int | list[int]:
        if isinstance(token, slice):
            return [start for start, _ in self._encoding.offsets[token]]
        start, _ = self._encoding.token_to_chars(range(len(self))[token])
        return int(start)
