"""How a judge's model compares a response with a reference, in label or generate mode.

In label mode one forward pass gives the probability of each label. In generate mode the model
writes text with a verdict; the verdicts of several samples are combined.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean
from typing import Any, Literal, TypeVar

from reward_serve.config.judge import JudgeConfig
from reward_serve.engines.base import LabelOutput, LanguageModel, Prompt, Sampling, TextOutput
from reward_serve.engines.caching import CachingEngine
from reward_serve.explanation import Cut, ShownPrompt, Turn
from reward_serve.judging.rendering import (
    CHARACTERS_A_TOKEN,
    LabelError,
    Renderer,
    cut_span,
    shown_as,
)
from reward_serve.judging.verdict import read_verdict
from reward_serve.off_loop import off_loop, takes_long
from reward_serve.reward_models.base import (
    InvalidRequestError,
    Trace,
    filled,
    gathered,
    summed_usage,
    timed,
)
from reward_serve.schema import Mode, Options, ScoreRequest, ScoreResult, Source, Status
from reward_serve.templates import Template
from reward_serve_answers import final_answer

Aggregate = Literal["vote", "mean"]


@dataclass(frozen=True, slots=True)
class Generation:
    """How the judge generates.

    Attributes:
        sampling: sampling parameters of each answer.
        enable_thinking: whether the chat template enables thinking.
        samples: number of answers.
        aggregate: how the verdicts of several answers are combined.
    """

    sampling: Sampling
    enable_thinking: bool = False
    samples: int = 1
    aggregate: Aggregate = "vote"

    @property
    def settings(self) -> str:
        """The settings, for fingerprints."""
        sampling = self.sampling
        thinking = (sampling.thinking_tokens or "on") if self.enable_thinking else "off"
        return (
            f";max_tokens={sampling.max_tokens};temperature={sampling.temperature:g};"
            f"top_p={sampling.top_p:g};thinking={thinking};samples={self.samples}-{self.aggregate}"
        )


_ONE_TOKEN = Generation(Sampling(max_tokens=1))


def generation_of(
    options: Options, config: JudgeConfig, mode: Mode, ends_thinking: bool
) -> Generation:
    """Merge a request's options with the deployment's settings; one token in label mode.

    Args:
        options: the request's options.
        config: the deployment's settings.
        mode: the mode of this request.
        ends_thinking: whether the engine can limit thinking.

    Raises:
        InvalidRequestError: the deployment does not allow an option, or it would have no effect;
            names the option and the remedy.
    """
    for name, value in options:
        if value is not None and name not in config.allowed_options:
            raise InvalidRequestError(
                f"options.{name}: not allowed by this deployment; remove it, or add it to "
                "judge.allowed_options"
            )
    if mode == "label":
        _check_label_mode(options)
        return _ONE_TOKEN
    temperature, thinking = options.temperature, options.enable_thinking
    enabled = config.enable_thinking if thinking is None else thinking
    sampling = Sampling(
        max_tokens=options.max_tokens or config.max_tokens,
        temperature=config.temperature if temperature is None else temperature,
        top_p=options.top_p or config.top_p,
        thinking_tokens=(options.thinking_tokens or config.thinking_tokens) if enabled else None,
    )
    samples = options.samples or config.samples
    generation = Generation(sampling, enabled, samples, config.aggregate)
    _check_samples(generation, config)
    if options.thinking_tokens is not None:
        _check_thinking(options.thinking_tokens, generation, ends_thinking)
    return generation


def _check_label_mode(options: Options) -> None:
    for name in ("enable_thinking", "thinking_tokens", "samples"):
        asked = getattr(options, name)
        if asked and not (name == "samples" and asked == 1):
            raise InvalidRequestError(
                f"options.{name}: has no effect in label mode; remove it, or set "
                "options.mode: generate"
            )


def _check_samples(generation: Generation, config: JudgeConfig) -> None:
    max_tokens, samples = generation.sampling.max_tokens, generation.samples
    if max_tokens > config.max_tokens:
        raise InvalidRequestError(
            f"options.max_tokens: {max_tokens} is above the deployment's maximum of "
            f"{config.max_tokens}; request fewer, or raise judge.max_tokens"
        )
    if samples > config.max_samples:
        raise InvalidRequestError(
            f"options.samples: {samples} is above the deployment's maximum of "
            f"{config.max_samples}; request fewer, or raise judge.max_samples"
        )
    if samples > 1 and generation.sampling.temperature == 0:
        raise InvalidRequestError(
            f"options.samples: {samples} samples at temperature 0 are identical; set "
            "options.temperature, such as 0.6, or samples: 1"
        )


def _check_thinking(asked: int, generation: Generation, ends_thinking: bool) -> None:
    if not generation.enable_thinking:
        raise InvalidRequestError(
            "options.thinking_tokens: thinking is off; set options.enable_thinking"
        )
    if not ends_thinking:
        raise InvalidRequestError(
            "options.thinking_tokens: this engine cannot limit thinking; remove it, or set "
            "engine.engine_kwargs.reasoning_parser, for example to qwen3"
        )
    most = generation.sampling.max_tokens
    if asked >= most:
        raise InvalidRequestError(
            f"options.thinking_tokens: {asked} leaves no room for a verdict in max_tokens: "
            f"{most}; lower it"
        )


Answer = TypeVar("Answer", LabelOutput, TextOutput)

LONG_PROMPT = 2**12
"""Characters of a prompt that take some 30 ms to render at worst."""

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
class Comparison:
    """How a judge compares a request's response with each reference.

    Attributes:
        request: the request.
        template: the judging template.
        mode: label or generate.
        generation: how the judge generates its answer.
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
    generation: Generation
    response_tokens: int
    fingerprint: str
    source: Source
    engine: LanguageModel
    renderer: Renderer
    trace: Trace | None
    criterion: str = ""
    responses: Sequence[str] = ()

    async def verdict(self, reference: str) -> ScoreResult:
        """The model's verdict.

        Raises:
            InvalidRequestError: the question and the reference leave no room, or the template's
                labels cannot be asked for.
            EngineError: the engine failed.
        """
        if self.mode == "label":
            return await self._by_labels(reference)
        return await self._by_text(reference)

    async def _by_labels(self, reference: str) -> ScoreResult:
        """Score by labels: the likelier label's value if they are binary, else the expected value.

        Two responses are compared by the expected value; a group's ranking combines many of them.
        """
        template = self.template
        if template.label is None:
            raise InvalidRequestError(
                f"options.mode: template {template.name!r} has no labels; remove the mode, or set "
                "generate"
            )
        prompt = await self.render(reference)
        values = template.label.values
        output = await self.answer(self.engine.label_logprobs, prompt, list(values))
        logprobs = {label: output.logprobs[label] for label in values}
        if not math.isfinite(max(logprobs.values())) or any(map(math.isnan, logprobs.values())):
            status, reason = _NO_LABEL[self.source]
            return self.result(status, reason=reason, usage=output.usage)
        probabilities = softmax(logprobs)
        likeliest = max(probabilities, key=lambda label: (probabilities[label], -values[label]))
        expected = sum(p * values[label] for label, p in probabilities.items())
        return self.result(
            Status.OK,
            score=values[likeliest] if template.label.binary and not self.responses else expected,
            source="cache" if output.cached else self.source,
            label=likeliest,
            probabilities=probabilities,
            details=cut_details(prompt) | {"label_mass": sum(map(math.exp, logprobs.values()))},
            usage=output.usage,
        )

    async def _by_text(self, reference: str) -> ScoreResult:
        """Generate the verdict, or combine the verdicts of several samples."""
        prompt = await self.render(reference)
        outputs = await gathered(
            self.answer(
                self.engine.generate, prompt, replace(self.generation.sampling, sample=sample)
            )
            for sample in range(self.generation.samples)
        )
        details = cut_details(prompt) or None
        results = [self._written(output, details) for output in outputs]
        if results[0].score is None:
            self.forget(prompt)
        return aggregate(results, self.generation.aggregate)

    def forget(self, prompt: Prompt) -> None:
        """Let a hosted endpoint answer again what it gave no verdict for.

        A model of our own writes the same text again, which the cache keeps.
        """
        if self.source == "remote" and isinstance(self.engine, CachingEngine):
            self.engine.forget(prompt, self.generation.sampling)

    def _written(self, output: TextOutput, details: dict[str, Any] | None) -> ScoreResult:
        """The result of one generated answer."""
        source: Source = "cache" if output.cached else self.source
        result = read_verdict(self.template, output.text, output.cut_off)
        return result.model_copy(
            update={
                "source": None if result.score is None else source,
                "template": self.template.name,
                "fingerprint": self.fingerprint,
                "details": details,
                "usage": output.usage,
            }
        )

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
        try:
            with timed(self.trace, "rendering"):
                prompt = await off_loop(
                    self._is_long(),
                    self.renderer.render,
                    template,
                    fields,
                    self.mode,
                    response_tokens=self.response_tokens,
                    reserve_tokens=self.generation.sampling.max_tokens,
                    enable_thinking=self.generation.enable_thinking,
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
        template, mode = self.template, self.mode
        shown = ShownPrompt(mode=mode, reference=number)
        skeleton = self.renderer.skeleton(template, mode, self.generation.enable_thinking)
        if skeleton.text:
            shown.text, shown.fields = filled(skeleton.text, prompt.fields)
        else:
            messages = [(role, *filled(parts, prompt.fields)) for role, parts in skeleton.turns]
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


def softmax(logprobs: Mapping[str, float]) -> dict[str, float]:
    """Probabilities normalised over the labels."""
    highest = max(logprobs.values())
    weights = {label: math.exp(value - highest) for label, value in logprobs.items()}
    total = sum(weights.values())
    return {label: weight / total for label, weight in weights.items()}


def aggregate(results: Sequence[ScoreResult], how: Aggregate) -> ScoreResult:
    """Combine the verdicts of several samples.

    If at most half of them have a score, the result is the first failure. ``vote`` takes the most
    frequent score, in a tie the lowest; ``mean`` takes the mean. The text is that of a sample with
    this score, or with the nearest; ``details.samples`` lists every score.
    """
    if len(results) == 1:
        return results[0]
    scores = [result.score for result in results if result.score is not None]
    details = (results[0].details or {}) | {"samples": [result.score for result in results]}
    combined: dict[str, Any] = {"details": details, "usage": summed_usage(results)}
    if 2 * len(scores) <= len(results):
        failed = next(result for result in results if result.score is None)
        reason = f"{len(results) - len(scores)} of {len(results)} samples: {failed.reason}"
        return failed.model_copy(update={**combined, "reason": reason})
    counts = Counter(scores)
    score = fmean(scores) if how == "mean" else min(scores, key=lambda s: (-counts[s], s))
    scored = [result for result in results if result.score is not None]
    nearest = min(scored, key=lambda result: abs((result.score or 0.0) - score))
    label = nearest.label if nearest.score == score else None
    return nearest.model_copy(update={**combined, "score": score, "label": label})
