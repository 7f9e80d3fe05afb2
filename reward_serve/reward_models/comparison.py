"""One response against one reference by one template: what either mode of a judge is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from reward_serve.engines.base import Prompt
from reward_serve.judging.rendering import LabelError, Mode
from reward_serve.reward_models.base import InvalidRequestError
from reward_serve.schema import ScoreRequest
from reward_serve.templates import Template
from reward_serve.verifiers import final_answer


class PromptRenderer(Protocol):
    """A ``Renderer``, or what notes its prompts."""

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
        """The prompt for one candidate; see ``Renderer.render``."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is judged.

    Attributes:
        request: of which one reference is compared.
        template: by which.
        reference: that one; empty where the template shows none.
        response_tokens: most tokens of the response that are shown.
        fingerprint: of the verdict.
    """

    request: ScoreRequest
    template: Template
    reference: str
    response_tokens: int
    fingerprint: str

    def render(
        self,
        renderer: PromptRenderer,
        mode: Mode,
        reserve_tokens: int,
        enable_thinking: bool = False,
    ) -> Prompt:
        """The prompt, with room for ``reserve_tokens`` to be written.

        Raises:
            InvalidRequestError: the question and the reference leave no room, or a label is no
                token of its own for this model.
        """
        shown = self.template.reference == "final_answer"
        fields = {
            "question": self.request.question or "",
            "reference": final_answer(self.reference) if shown else self.reference,
            "response": self.request.response,
        }
        try:
            return renderer.render(
                self.template,
                fields,
                mode=mode,
                response_tokens=self.response_tokens,
                reserve_tokens=reserve_tokens,
                enable_thinking=enable_thinking,
            )
        except LabelError as error:
            name = self.template.name
            raise InvalidRequestError(f"template: {name!r} in label mode: {error}") from None
        except ValueError as error:
            raise InvalidRequestError(str(error)) from None


def cut_details(prompt: Prompt) -> dict[str, Any]:
    """What of ``details`` says that the response was cut."""
    return {"cut_response_characters": prompt.cut_characters} if prompt.cut_characters else {}
