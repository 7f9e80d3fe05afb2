"""The comparison of a response with its references, for both modes of a judge."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from reward_serve.engines.base import LabelOutput, LanguageModel, Prompt, TextOutput
from reward_serve.explanation import Cut, ShownPrompt, Turn
from reward_serve.judging.cutting import CHARACTERS_A_TOKEN, cut_span
from reward_serve.judging.rendering import LabelError, Layout, Renderer, shown_as
from reward_serve.off_loop import off_loop
from reward_serve.reward_models.base import InvalidRequestError
from reward_serve.reward_models.trace import Trace, filled, timed
from reward_serve.reward_models.writing import Writing
from reward_serve.rules import final_answer
from reward_serve.rules.base import takes_long
from reward_serve.schema import Mode, ScoreRequest, ScoreResult, Source, Status
from reward_serve.templates import Template

Answer = TypeVar("Answer", LabelOutput, TextOutput)

LONG_PROMPT = 2**12
"""Characters of a prompt that take some 30 ms to render at worst."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """How a judge compares a request's response with each reference.

    Attributes:
        request: the request.
        template: the judging template.
        mode: label or generate.
        writing: how the judge generates its answer.
        response_tokens: maximum tokens of the response to show.
        fingerprint: the result's fingerprint.
        source: the result's source, unless it is cached.
        engine: the judge's engine, with its cache unless the request bypasses it.
        renderer: the engine's renderer.
        trace: records prompts and answers, if the result is explained.
        criterion: the text of the criterion, for templates that show one.
        responses: for a template that compares responses, those to show.
    """

    request: ScoreRequest
    template: Template
    mode: Mode
    writing: Writing
    response_tokens: int
    fingerprint: str
    source: Source
    engine: LanguageModel
    renderer: Renderer
    trace: Trace | None
    criterion: str = ""
    responses: Sequence[str] = ()

    async def render(self, reference: str) -> Prompt:
        """Render the prompt, with room for the judge's answer.

        Raises:
            InvalidRequestError: the question and the reference leave no room, or a label is not a
                single token for this model.
        """
        template, response = self.template, self.request.response
        if template.reference == "final_answer":
            reference = final_answer(reference)
        question = self.request.question or ""
        fields = {"question": question, "reference": reference, "response": response}
        fields["criterion"] = self.criterion
        fields |= {f"response_{n}": text for n, text in enumerate(self.responses, 1)}
        reserved, thinking = self.writing.sampling.max_tokens, self.writing.enable_thinking
        layout = Layout(self.mode, self.response_tokens, reserved, thinking)
        try:
            with timed(self.trace, "rendering"):
                prompt = await off_loop(
                    self._is_long(), self.renderer.render, template, fields, layout
                )
        except LabelError as error:
            raise InvalidRequestError(
                f"template: {template.name!r} in label mode: {error}"
            ) from None
        except ValueError as error:
            raise InvalidRequestError(str(error)) from None
        if self.trace is not None:
            number = len(self.trace.prompts) if "reference" in template.fields else None
            self.trace.prompts.append(partial(self._shown, prompt, number))
        return prompt

    async def answer(self, ask: Callable[..., Awaitable[Answer]], *args: Any) -> Answer:
        """An answer of the engine, by one of its methods."""
        with timed(self.trace, "engine"):
            answer = await ask(*args)
        if self.trace is not None:
            self.trace.cached = answer.cached and self.trace.cached is not False
        return answer

    def result(self, status: Status, **fields: Any) -> ScoreResult:
        """A result with this template and fingerprint."""
        return ScoreResult(
            status=status, template=self.template.name, fingerprint=self.fingerprint, **fields
        )

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

    def _shown(self, prompt: Prompt, number: int | None) -> ShownPrompt:
        """The prompt in the format of explanations."""
        template, mode, thinking = self.template, self.mode, self.writing.enable_thinking
        shown = ShownPrompt(mode=mode, reference=number)
        if parts := self.renderer.text(template, mode, thinking):
            shown.text, shown.fields = filled(parts, prompt.fields)
        else:
            turns = self.renderer.turns(template, mode, thinking)
            messages = [(role, *filled(parts, prompt.fields)) for role, parts in turns]
            shown.messages = [Turn(role=r, content=text, fields=f) for r, text, f in messages]
        if prompt.cut_characters:
            response, kept = self.request.response, prompt.fields["response"]
            place = cut_span(response, kept, prompt.head_characters, shown_as(template))
            shown.cut = [Cut(field="response", start=place[0], end=place[1], exact=place[2])]
        if self.engine.tokenizer is not None:
            shown.token_count = len(prompt.token_ids)
        return shown


def cut_details(prompt: Prompt) -> dict[str, Any]:
    """The entry of ``details`` that says how much of the response was cut."""
    return {"cut_response_characters": prompt.cut_characters} if prompt.cut_characters else {}
