"""Training prompts, rendered as in the service, with their targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reward_serve.engines.base import Tokenizer
from reward_serve.prompts.rendering import Renderer, shown_as
from reward_serve.templates import Template
from reward_serve_judge.training.responses import Example

_MOST = 2_048
_DIGITS = "0123456789.-/%"
_LONGEST = 16  # tokens of a reference to be learnt
STOP = -1
"""Target after an answer's last token."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt as sent to the engine, with its targets.

    Attributes:
        ids: token ids.
        label: index of the right label.
        reference: index in ``ids`` at which the reference begins.
        answer: target token ids from ``reference`` on. If the response meets the reference, and
            that is short: the reference and ``STOP``. If the response gives no answer: ``STOP``.
            Otherwise empty.
    """

    ids: list[int]
    label: int
    reference: int
    answer: list[int]


class Prompts:
    """Renders training prompts.

    Args:
        template: a template with labels and the reference at its end.
        tokenizer: the judge model's tokenizer.

    Attributes:
        static: token ids before every response.
        label_ids: the labels' token ids.
        scores: each label's score.
        digits: token ids of digits and signs, by text.
    """

    def __init__(self, template: Template, tokenizer: Tokenizer) -> None:
        assert template.label is not None
        self._template = template
        self._renderer = Renderer(tokenizer, _MOST)
        self._shown_reference = shown_as(template)
        self.label_ids = list(self._renderer.label_ids(template).values())
        self.scores = list(template.label.values.values())
        self._encode = tokenizer.encode_plain
        first, other = self._rendered("7", "3"), self._rendered("x y", "8")
        self.static = first[: common([first, other])]
        after = common([first[::-1], other[::-1]])
        ends = [ids[: -after - 1] for ids in (first, other)]  # each reference is one token, absent
        before = common([ids[::-1] for ids in ends])
        self._before = ends[0][-before:]
        self.digits = {text: tokenizer.encode_plain(text)[0][0] for text in _DIGITS}

    def of(self, example: Example) -> Prompt:
        """Render an example's prompt."""
        ids = self._rendered(example.response, example.reference)
        marker = len(self._before)
        start = next(at for at in range(len(ids), 0, -1) if ids[at - marker : at] == self._before)
        end = start + len(self._encode(self._shown_reference(example.reference))[0])
        answer = [] if example.answered else [STOP]
        if example.correct and end - start <= _LONGEST:
            answer = [*ids[start:end], STOP]
        label = self.scores.index(float(example.correct))
        return Prompt(ids, label, start, answer)

    def _rendered(self, response: str, reference: str) -> list[int]:
        fields = {"response": response, "reference": reference}
        return self._renderer.render(
            self._template,
            fields,
            "label",
            response_tokens=self._template.response_tokens,
            reserve_tokens=1,
        ).token_ids


def common(rows: Sequence[Sequence[int]]) -> int:
    """The number of leading tokens that all rows share."""
    at = 0
    while all(at < len(row) and row[at] == rows[0][at] for row in rows):
        at += 1
    return at
