"""The comparison of a response with one reference, for both modes of a judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from reward_serve.engines.base import Prompt
from reward_serve.judging.cutting import CHARACTERS_A_TOKEN
from reward_serve.judging.rendering import LabelError, Layout, Mode
from reward_serve.off_loop import off_loop
from reward_serve.reward_models.base import InvalidRequestError
from reward_serve.rules import final_answer
from reward_serve.rules.base import takes_long
from reward_serve.schema import ScoreRequest
from reward_serve.templates import Template

LONG_PROMPT = 2**12
"""Characters of a prompt that take some 30 ms to render at worst."""


class PromptRenderer(Protocol):
    """A ``Renderer``, or a ``Recorder`` around one."""

    def render(self, template: Template, fields: Mapping[str, str], layout: Layout) -> Prompt:
        """The prompt for one candidate; see ``Renderer.render``."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A response to compare with one reference.

    Attributes:
        request: the request, which may have several references.
        template: the judging template.
        reference: the reference to compare with; empty if the template shows none.
        response_tokens: maximum tokens of the response to show.
        fingerprint: the verdict's fingerprint.
    """

    request: ScoreRequest
    template: Template
    reference: str
    response_tokens: int
    fingerprint: str

    async def render(
        self,
        renderer: PromptRenderer,
        mode: Mode,
        reserve_tokens: int,
        enable_thinking: bool = False,
    ) -> Prompt:
        """Render the prompt, with room for ``reserve_tokens`` of the judge's answer.

        Raises:
            InvalidRequestError: the question and the reference leave no room, or a label is not a
                single token for this model.
        """
        shown = self.template.reference == "final_answer"
        fields = {
            "question": self.request.question or "",
            "reference": final_answer(self.reference) if shown else self.reference,
            "response": self.request.response,
        }
        layout = Layout(mode, self.response_tokens, reserve_tokens, enable_thinking)
        try:
            return await off_loop(self._is_long(), renderer.render, self.template, fields, layout)
        except LabelError as error:
            name = self.template.name
            raise InvalidRequestError(f"template: {name!r} in label mode: {error}") from None
        except ValueError as error:
            raise InvalidRequestError(str(error)) from None

    def _is_long(self) -> bool:
        """Whether the prompts of all references have more than ``LONG_PROMPT`` characters.

        Items whose rules ran in the thread return to the event loop several at once, so their
        prompts are rendered there too.
        """
        request = self.request
        if takes_long(request):
            return True
        response = min(len(request.response), CHARACTERS_A_TOKEN * self.response_tokens)
        shared = response + len(request.question or "") + len(self.template.user)
        references = request.references
        return shared * max(1, len(references)) + sum(map(len, references)) > LONG_PROMPT


def cut_details(prompt: Prompt) -> dict[str, Any]:
    """The entry of ``details`` that says how much of the response was cut."""
    return {"cut_response_characters": prompt.cut_characters} if prompt.cut_characters else {}
