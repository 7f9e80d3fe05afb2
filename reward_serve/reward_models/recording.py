"""Records a judge's prompts and answers for ``explain``."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast, get_args

from reward_serve.engines.base import (
    Encoder,
    Engine,
    EngineError,
    LabelOutput,
    OverloadedError,
    Prompt,
    Sampling,
    TextOutput,
)
from reward_serve.explanation import Cut, FieldName, FieldSpan, ShownPrompt, Token, Turn
from reward_serve.judging.cutting import cut_span
from reward_serve.judging.rendering import Layout, Parts, Renderer, shown_as
from reward_serve.reward_models.base import InvalidRequestError, Verdict
from reward_serve.reward_models.findings import Findings
from reward_serve.schema import Status
from reward_serve.templates import Template

logger = logging.getLogger(__name__)

_FIELDS = frozenset(get_args(FieldName))


class Recorder:
    """A renderer and an engine that record each prompt and answer.

    Args:
        renderer: renders the prompts.
        engine: answers them.
        findings: where they are recorded.
    """

    def __init__(self, renderer: Renderer, engine: Engine, findings: Findings) -> None:
        self.max_model_len = engine.max_model_len
        self._renderer = renderer
        self._engine = engine
        self._findings = findings
        self._began = 0.0
        self._asking = 0

    @property
    def tokenizer(self) -> Any:
        """See the engine."""
        return self._engine.tokenizer

    def render(self, template: Template, fields: Mapping[str, str], layout: Layout) -> Prompt:
        """See the renderer."""
        with self._findings.timed("rendering"):
            prompt = self._renderer.render(template, fields, layout)
        mode, enable_thinking = layout.mode, layout.enable_thinking
        number = len(self._findings.prompts)
        about = {"mode": mode, "reference": number if "reference" in template.fields else None}
        text = self._renderer.text(template, mode, enable_thinking)
        turns = self._renderer.turns(template, mode, enable_thinking)

        def shown() -> ShownPrompt:
            return ShownPrompt(
                **about,
                **(_as_text(text, prompt) if text else _as_messages(turns, prompt)),
                **self._as_tokens(prompt),
                cut=_cut(template, fields["response"], prompt),
            )

        self._findings.prompts.append(shown)
        return prompt

    async def label_logprobs(self, prompt: Prompt, labels: Sequence[str]) -> LabelOutput:
        """See the engine."""
        with self._timed():
            output = await self._engine.label_logprobs(prompt, labels)
        self._note(output.cached)
        return output

    async def generate(self, prompt: Prompt, sampling: Sampling) -> TextOutput:
        """See the engine."""
        with self._timed():
            output = await self._engine.generate(prompt, sampling)
        self._note(output.cached)
        return output

    def describe(self) -> dict[str, str]:
        """See the engine."""
        return self._engine.describe()

    async def failure(self) -> str | None:
        """See the engine."""
        return await self._engine.failure()

    def close(self) -> None:
        """Nothing to do: the judge owns the engine."""

    @contextmanager
    def _timed(self) -> Iterator[None]:
        """Add the time during which at least one call to the engine is running."""
        if not self._asking:
            self._began = time.perf_counter()
        self._asking += 1
        try:
            yield
        finally:
            self._asking -= 1
            if not self._asking:
                seconds = self._findings.seconds
                spent = time.perf_counter() - self._began
                seconds["engine"] = seconds.get("engine", 0.0) + spent

    def _note(self, cached: bool) -> None:
        self._findings.cached = cached and self._findings.cached is not False

    def _as_tokens(self, prompt: Prompt) -> dict[str, Any]:
        tokenizer = self._engine.tokenizer
        if tokenizer is None:
            return {}
        fields: dict[str, Any] = {"token_count": len(prompt.token_ids)}
        if self._findings.tokens:
            fields["tokens"] = shown_tokens(tokenizer, prompt.token_ids)
        return fields


def shown_tokens(tokenizer: Encoder, token_ids: Sequence[int]) -> list[Token]:
    """The tokens in the format of explanations."""
    tokens = zip(token_ids, tokenizer.tokens(token_ids), strict=True)
    return [Token(id=i, text=text, special=special) for i, (text, special) in tokens]


async def attempted(asked: Coroutine[Any, Any, Verdict], within_s: float) -> Verdict:
    """Await a verdict that only the explanation needs; a failure becomes a typed verdict."""
    try:
        async with asyncio.timeout(within_s):
            return await asked
    except TimeoutError:
        return Verdict(status=Status.TIMEOUT, reason=f"no answer within {within_s:.1f} s")
    except InvalidRequestError as error:
        return Verdict(status=Status.INVALID, reason=str(error))
    except OverloadedError as error:
        return Verdict(status=Status.OVERLOADED, reason=str(error))
    except Exception as error:
        if not isinstance(error, EngineError):
            logger.exception("a model failed, asked for an explanation alone")
        return Verdict(status=Status.ERROR, reason=f"{type(error).__name__}: {error}")


def _as_text(parts: Parts, prompt: Prompt) -> dict[str, Any]:
    text, fields = _joined(parts, prompt.fields)
    return {"text": text, "fields": fields}


def _as_messages(turns: Sequence[tuple[str, Parts]], prompt: Prompt) -> dict[str, Any]:
    messages = []
    for role, parts in turns:
        content, fields = _joined(parts, prompt.fields)
        messages.append(Turn(role=role, content=content, fields=fields))
    return {"messages": messages}


def _joined(parts: Parts, fields: Mapping[str, str]) -> tuple[str, list[FieldSpan]]:
    """The text with its fields inserted, and their spans."""
    text, spans = "", []
    for part, name in parts:
        text += part
        if name is not None and name in _FIELDS:
            start, text = len(text), text + fields[name]
            spans.append(FieldSpan(field=cast(FieldName, name), start=start, end=len(text)))
    return text, spans


def _cut(template: Template, response: str, prompt: Prompt) -> list[Cut]:
    if not prompt.cut_characters:
        return []
    start, end, exact = cut_span(
        response, prompt.fields["response"], prompt.head_characters, shown_as(template)
    )
    return [Cut(field="response", start=start, end=end, exact=exact)]
