"""Asks a judge's model about one response: its prompt by a template, and the verdict it gives.

In label mode one forward pass gives the probability of each label. In generate mode the judge
writes text, whose last verdict counts. In likelihood mode the score is the probability of the
reference.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar, cast

from reward_serve.config.judge import MIN_LABEL_MASS, JudgeConfig
from reward_serve.engines.base import (
    Engine,
    LabelOutput,
    LanguageModel,
    Prompt,
    Sampling,
    TextOutput,
    UnusableReplyError,
)
from reward_serve.engines.caching import CachingEngine
from reward_serve.explanation import FieldSpan, ShownPrompt, Turn
from reward_serve.messages import as_json
from reward_serve.off_loop import RENDERED, grading_cost, off_loop
from reward_serve.prompts.critiques import tells
from reward_serve.prompts.rendering import CHARACTERS_A_TOKEN, LabelError, Parts, Renderer
from reward_serve.prompts.transcript import Pieces, shown_turns
from reward_serve.reward_models.base import (
    InvalidRequestError,
    Trace,
    gathered,
    summed_usage,
    timed,
)
from reward_serve.schema import Mode, Options, ScoreRequest, ScoreResult, Source, Status
from reward_serve.templates import MAX_REASON_CHARACTERS, Template, read_verdict
from reward_serve_answers import final_answer
from reward_serve_answers.thinking import read_thinking

MAX_LIKELIHOOD_TOKENS = 32  # of a reference in mode likelihood; each is a forward pass
Output = TypeVar("Output", LabelOutput, TextOutput)
Verdicts = tuple[Sequence[ScoreResult], dict[str, Any]]
"""What a text says: the result of each criterion, or one; and fields of the whole result."""


def sampling_of(options: Options, config: JudgeConfig, mode: Mode, ends_thinking: bool) -> Sampling:
    """Merge a request's options with the deployment's settings; other modes generate no text.

    Raises:
        InvalidRequestError: the deployment does not allow an option, or it would have no effect.
    """
    for name, value in options:
        if value is not None and name not in config.allowed_options:
            raise InvalidRequestError(
                f"options.{name}: not allowed by this deployment; remove it, or add it to "
                "judge.allowed_options"
            )
    if mode != "generate":
        for name in ("enable_thinking", "thinking_tokens"):
            if getattr(options, name):
                raise InvalidRequestError(
                    f"options.{name}: has no effect in {mode} mode; remove it, or set "
                    "options.mode: generate"
                )
        return Sampling(1 if mode == "label" else MAX_LIKELIHOOD_TOKENS)
    temperature, thinking = options.temperature, options.enable_thinking
    enabled = config.enable_thinking if thinking is None else thinking
    sampling = Sampling(
        max_tokens=options.max_tokens or config.max_tokens,
        temperature=config.temperature if temperature is None else temperature,
        top_p=options.top_p or config.top_p,
        enable_thinking=enabled,
        thinking_tokens=(options.thinking_tokens or config.thinking_tokens) if enabled else None,
    )
    if sampling.max_tokens > config.max_tokens:
        raise InvalidRequestError(
            f"options.max_tokens: {sampling.max_tokens} is above the deployment's maximum of "
            f"{config.max_tokens}; request fewer, or raise judge.max_tokens"
        )
    if (tokens := options.thinking_tokens) is not None:
        why = None
        if not enabled:
            why = "thinking is off; set options.enable_thinking"
        elif not ends_thinking:
            why = "this engine cannot limit thinking; remove it, or set "
            why += "engine.engine_kwargs.reasoning_parser, for example to qwen3"
        elif tokens >= sampling.max_tokens:
            why = f"{tokens} leaves no room for a verdict in max_tokens: {sampling.max_tokens}; "
            why += "lower it"
        if why is not None:
            raise InvalidRequestError(f"options.thinking_tokens: {why}")
    return sampling


# An endpoint returns only its likeliest tokens; a vLLM engine returns the labels themselves.
_NO_LABEL: dict[Source, tuple[Status, str]] = {
    "remote": (
        Status.UNPARSEABLE,
        "the endpoint's likeliest tokens include no label; set judge.mode: generate, "
        "or use a model that follows the template",
    ),
    "judge": (
        Status.ERROR,
        "the engine's label probabilities are NaN or zero; check the model's weights and dtype",
    ),
}


@dataclass(frozen=True, slots=True)
class Asker:
    """What a judge asks with, and how."""

    engine: Engine
    cache: CachingEngine | None  # in front of the engine
    renderer: Renderer
    source: Source
    config: JudgeConfig

    def budget(self, template: Template) -> int:
        """Maximum tokens of the response to show."""
        return self.config.response_tokens or template.response_tokens


@dataclass(frozen=True, slots=True)
class Comparison:
    """A question about a request's response, to be asked with each reference."""

    asker: Asker
    request: ScoreRequest
    template: Template
    mode: Mode
    sampling: Sampling
    fingerprint: str
    trace: Trace | None = None
    pieces: Pieces = field(default_factory=dict)  # shared by the states of a conversation
    criterion: str = ""  # its text, for templates that show one
    responses: Sequence[str] = ()  # to show, for a template that compares them

    @property
    def engine(self) -> LanguageModel:
        """The judge's engine, with its cache unless the request bypasses it."""
        cache = None if self.request.options.cache is False else self.asker.cache
        return cache or self.asker.engine

    async def verdict(self, reference: str) -> ScoreResult:
        """The model's verdict.

        Raises:
            InvalidRequestError: the question and the reference leave no room, or the template's
                labels cannot be asked for.
            EngineError: the engine failed.
        """
        match self.mode:
            case "label":
                return await self._by_labels(reference)
            case "generate":
                return await self._by_text(reference)
        return await self._by_likelihood(reference)

    async def _by_labels(self, reference: str) -> ScoreResult:
        """Score by labels: the likelier label's value if they are binary, else the expected value.

        Two responses are compared by the expected value; a group's ranking combines many of them.
        What ``judge.min_probability`` leaves undecided keeps its label and its probabilities.
        """
        form = self.template.label
        assert form is not None
        prompt, values = await self.render(reference), form.values
        output = await self._answer(self.engine.label_logprobs, prompt, list(values))
        logprobs = {label: output.logprobs[label] for label in values}
        if not math.isfinite(max(logprobs.values())) or any(map(math.isnan, logprobs.values())):
            status, reason = _NO_LABEL[self.asker.source]
            return self.result(status, reason=reason, usage=output.usage)
        probabilities = softmax(logprobs)
        likeliest = max(probabilities, key=lambda label: (probabilities[label], -values[label]))
        mass = sum(map(math.exp, logprobs.values()))
        fields: dict[str, Any] = {"label": likeliest, "probabilities": probabilities}
        fields |= {"details": {**prompt.cut_details, "label_mass": mass}, "usage": output.usage}
        if why := self._undecided(probabilities[likeliest], mass):
            return self.result(Status.UNPARSEABLE, reason=why, **fields)
        decides = form.binary and not self.responses
        score = values[likeliest] if decides else form.expected(probabilities)
        return self.result(Status.OK, score=score, source=self.source(output.cached), **fields)

    def _undecided(self, probability: float, mass: float) -> str | None:
        """Why the likelier label's probability, or all labels' mass, is too low for a score."""
        least = self.asker.config.min_probability
        if least and probability < least:
            limit = f"below judge.min_probability {least:g}"
            return f"the likelier label has probability {probability:.4g}, {limit}"
        if least and mass < MIN_LABEL_MASS:
            limit = f"below the {MIN_LABEL_MASS:g} that judge.min_probability {least:g} needs"
            return f"the labels together have probability {mass:.4g}, {limit}"
        return None

    async def _by_text(self, reference: str) -> ScoreResult:
        (result,), fields = await self.written(await self.render(reference), self._read)
        fields |= {"template": self.template.name, "fingerprint": self.fingerprint}
        return result.model_copy(update=fields)

    def _read(self, output: TextOutput) -> Verdicts:
        result = read_verdict(self.template, output.text, output.cut_off)
        if result.score is not None:
            result.source = self.source(output.cached)
            result.critique = self.critique(output.text)
        return [result], {}

    async def written(self, prompt: Prompt, read: Callable[[TextOutput], Verdicts]) -> Verdicts:
        """What is read of a generated text; one that lacks a verdict is asked for again.

        Another attempt has another seed and a temperature, and begins in the first half of the time
        left. A text that was cut off would be again. ``usage`` and ``details`` are of all attempts.

        Raises:
            EngineError: the engine failed.
        """
        sampling, details = self.sampling, dict[str, Any](prompt.cut_details)
        is_remote = self.asker.source == "remote"
        varies = is_remote or sampling.temperature > 0
        attempts = (self.asker.config.attempts or (2 if is_remote else 1)) if varies else 1
        ends = time.monotonic() + self.request.timeout_s / 2
        outputs, attempted = list[TextOutput](), list[Verdicts]()
        while True:
            try:
                outputs.append(await self._answer(self.engine.generate, prompt, sampling))
                attempted.append(read(outputs[-1]))
            except UnusableReplyError as error:
                attempted.append(([self.result(Status.UNPARSEABLE, reason=str(error))], {}))
            lacking = next((result for result in attempted[-1][0] if result.score is None), None)
            # A model of our own writes the same text again, which the cache keeps.
            if lacking and is_remote and isinstance(self.engine, CachingEngine):
                self.engine.forget(prompt, self.sampling)
            is_last = len(attempted) == attempts or time.monotonic() > ends
            if lacking is None or is_last or lacking.status is Status.TRUNCATED:
                break
            details = {"first_reply": lacking.reason, **details, "attempts": len(attempted) + 1}
            temperature = sampling.temperature or 0.7
            sampling = replace(sampling, sample=sampling.sample + 1, temperature=temperature)
        results, fields = max(attempted, key=lambda v: sum(r.score is not None for r in v[0]))
        return results, fields | {"details": details or None, "usage": summed_usage(outputs)}

    def critique(self, text: str) -> str | None:
        """The last sentence for the policy, if asked for and it tells no reference's answer."""
        if (pattern := self.template.written.critique) is None:
            return None
        sentences = [match[1] or "" for match in re.finditer(pattern, read_thinking(text).text)]
        critique = sentences[-1].strip()[:MAX_REASON_CHARACTERS] if sentences else ""
        is_told = any(tells(critique, reference) for reference in self.request.references)
        return None if is_told else critique or None

    async def _by_likelihood(self, reference: str) -> ScoreResult:
        """Score by the probability of the reference as the model's reply, token by token.

        vLLM reads no prefix cache for a request with the log-probabilities of its prompt, so each
        token of the reference is asked for after those before it.
        """
        tokenizer = self.engine.tokenizer
        if tokenizer is None:
            raise InvalidRequestError(
                "options.mode: likelihood needs a model on vLLM, not an endpoint; set label or "
                "generate"
            )
        ids = tokenizer.encode_plain(self._reference(reference).strip())[0]
        if not 0 < len(ids) <= MAX_LIKELIHOOD_TOKENS:
            raise InvalidRequestError(
                f"reference: has {len(ids)} tokens, and mode likelihood takes 1 to "
                f"{MAX_LIKELIHOOD_TOKENS}; send the final answer alone"
            )
        prompt = await self.render(reference)

        def after(at: int) -> Prompt:
            label_ids = {str(ids[at]): ids[at]}
            return replace(prompt, token_ids=prompt.token_ids + ids[:at], label_ids=label_ids)

        outputs = await gathered(
            self._answer(self.engine.label_logprobs, after(at), [str(token)])
            for at, token in enumerate(ids)
        )
        logprob = math.fsum(value for output in outputs for value in output.logprobs.values())
        usage = summed_usage(outputs)
        if not math.isfinite(logprob):
            status, reason = _NO_LABEL["judge"]
            return self.result(status, reason=reason, usage=usage)
        return self.result(
            Status.OK,
            score=math.exp(logprob / len(ids)),
            source=self.source(all(output.cached for output in outputs)),
            details={**prompt.cut_details, "logprob": logprob, "reference_tokens": len(ids)},
            usage=usage,
        )

    async def render(self, reference: str) -> Prompt:
        """Render the prompt, with room for the judge's answer; raises as ``verdict``."""
        template, request, asker = self.template, self.request, self.asker
        fields = {
            "question": request.question or "",
            "reference": self._reference(reference),
            "response": request.judged,
            "criterion": self.criterion,
            "tools": "\n".join(map(as_json, request.tools or ())),
            **{f"response_{n}": text for n, text in enumerate(self.responses, 1)},
        }
        try:
            with timed(self.trace, "rendering"):
                prompt = await off_loop(
                    self._rendering_cost(),
                    asker.renderer.render,
                    template,
                    fields,
                    self.mode,
                    response_tokens=asker.budget(template),
                    reserve_tokens=self.sampling.max_tokens,
                    enable_thinking=self.sampling.enable_thinking,
                    conversation=partial(shown_turns, request, template, self.pieces),
                )
        except ValueError as error:
            where = f"template: {template.name!r} in label mode: "
            labels = isinstance(error, LabelError)
            raise InvalidRequestError(f"{where if labels else ''}{error}") from None
        if self.trace is not None:
            number = len(self.trace.prompts) if "reference" in template.fields else None
            self.trace.prompts.append(partial(self._shown, prompt, number))
        return prompt

    def _reference(self, reference: str) -> str:
        """The reference as the template has it."""
        return final_answer(reference) if self.template.reference == "final_answer" else reference

    async def _answer(self, ask: Callable[..., Awaitable[Output]], *args: Any) -> Output:
        """An answer of the engine, by one of its methods."""
        with timed(self.trace, "engine"):
            output = await ask(*args)
        if self.trace is not None:
            self.trace.cached = output.cached and self.trace.cached is not False
        return output

    def source(self, is_cached: bool) -> Source:
        """The source of a score."""
        return "cache" if is_cached else self.asker.source

    def result(self, status: Status, **fields: Any) -> ScoreResult:
        """A result with this template and fingerprint."""
        return ScoreResult(
            status=status, template=self.template.name, fingerprint=self.fingerprint, **fields
        )

    def _rendering_cost(self) -> int:
        """The cost of the prompts of all references, or of the rules if that is more.

        Items whose rules ran in the thread return to the event loop several at once, so their
        prompts are rendered there too.
        """
        request = self.request
        response = min(len(request.judged), CHARACTERS_A_TOKEN * self.asker.budget(self.template))
        if "conversation" in self.template.fields:
            sizes = request.sizes
            response = sizes["messages"] + sizes["tools"]
        shared = response + len(request.question or "") + len(self.template.user)
        prompts = sum(shared + len(reference) for reference in request.references or [""])
        return max(grading_cost(request), RENDERED * prompts)

    def _shown(self, prompt: Prompt, number: int | None) -> ShownPrompt:
        explained = ShownPrompt(mode=self.mode, reference=number, cut=list(prompt.cut))
        thinks = self.sampling.enable_thinking
        skeleton = self.asker.renderer.skeleton(self.template, self.mode, thinks)
        if skeleton.text:
            explained.text, explained.fields = _filled(skeleton.text, prompt.fields)
        else:
            messages = [(role, *_filled(parts, prompt.fields)) for role, parts in skeleton.turns]
            explained.messages = [Turn(role=r, content=text, fields=f) for r, text, f in messages]
        if self.engine.tokenizer is not None:
            explained.token_count = len(prompt.token_ids)
        return explained


def _filled(parts: Parts, values: Mapping[str, str]) -> tuple[str, list[FieldSpan]]:
    """A prompt's text with its fields inserted, and their spans."""
    text, spans = "", []
    for part, name in parts:
        text += part
        if name is not None:
            start, text = len(text), text + values[name]
            spans.append(FieldSpan(field=cast(Any, name), start=start, end=len(text)))
    return text, spans


def softmax(logprobs: Mapping[str, float]) -> dict[str, float]:
    """Probabilities normalised over the labels."""
    highest = max(logprobs.values())
    weights = {label: math.exp(value - highest) for label, value in logprobs.items()}
    total = sum(weights.values())
    return {label: weight / total for label, weight in weights.items()}
