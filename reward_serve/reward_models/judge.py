"""Kind ``judge``: a language model compares a response with its reference.

In label mode one forward pass gives the probability of each label. In generate mode the judge
writes text, whose last verdict counts. With ``rules_first`` the model is used only if no rule
decides.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

from reward_serve.config.judge import MIN_LABEL_MASS, JudgeConfig
from reward_serve.config.models import JudgeModel, RemoteModel
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
from reward_serve.explanation import Cut, ShownPrompt, Turn
from reward_serve.judging.critiques import tells
from reward_serve.judging.rendering import (
    CHARACTERS_A_TOKEN,
    LabelError,
    Renderer,
    cut_span,
    shown_as,
)
from reward_serve.judging.turns import shown_turns
from reward_serve.messages import as_json
from reward_serve.off_loop import RENDERED, grading_cost, off_loop
from reward_serve.reward_models.base import (
    MODELS_SHARE,
    InvalidRequestError,
    RewardModel,
    Trace,
    best,
    chosen,
    filled,
    gathered,
    in_time,
    request_hash,
    result_of,
    summed_usage,
    timed,
)
from reward_serve.reward_models.chat import ChatRequest
from reward_serve.reward_models.group import GroupJudge
from reward_serve.reward_models.turns import scored_states, with_turns
from reward_serve.schema import Mode, Options, ScoreRequest, ScoreResult, Source, Status
from reward_serve.templates import (
    MAX_REASON_CHARACTERS,
    RulesName,
    Template,
    inline_template,
    is_inline,
    is_judged,
    read_verdict,
)
from reward_serve_answers import (
    VERSION,
    Grade,
    UnusableReferenceError,
    final_answer,
    verify_any,
    verify_strict_any,
)
from reward_serve_answers.thinking import read_thinking
from reward_serve_answers.values import RIGHT, gold_answer

logger = logging.getLogger(__name__)

RULES: dict[RulesName, Callable[[str, Sequence[str]], Grade]] = {
    "gsm8k": verify_any,
    "gsm8k_strict": verify_strict_any,
}
"""The verifiers that may decide before the model."""
MAX_LIKELIHOOD_TOKENS = 32  # of a reference in mode likelihood; each is a forward pass
_AUDITS = 4
_DESCRIBED = {"inline_templates", "mode", "max_tokens", "enable_thinking", "min_probability"}
Answer = TypeVar("Answer", LabelOutput, TextOutput)
Answers = tuple[Sequence[ScoreResult], dict[str, Any]]
"""What a text says: the result of each criterion, or one; and fields of the whole result."""
_Both = tuple[Grade | None, ScoreResult]
"""The rules' grade, None without rules, and the model's result."""
_Report = Callable[[float, float], None]  # takes the scores by the rules and by the model


@dataclass(frozen=True, slots=True)
class Generation:
    """How the judge generates its answer."""

    sampling: Sampling
    enable_thinking: bool = False

    @property
    def settings(self) -> str:
        """The settings, for fingerprints."""
        sampling = self.sampling
        thinking = (sampling.thinking_tokens or "on") if self.enable_thinking else "off"
        return (
            f";max_tokens={sampling.max_tokens};temperature={sampling.temperature:g};"
            f"top_p={sampling.top_p:g};thinking={thinking}"
        )


_ONE_TOKEN = Generation(Sampling(max_tokens=1))
_REFERENCE = Generation(Sampling(MAX_LIKELIHOOD_TOKENS))


def generation_of(
    options: Options, config: JudgeConfig, mode: Mode, ends_thinking: bool
) -> Generation:
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
        return _ONE_TOKEN if mode == "label" else _REFERENCE
    temperature, thinking = options.temperature, options.enable_thinking
    enabled = config.enable_thinking if thinking is None else thinking
    sampling = Sampling(
        max_tokens=options.max_tokens or config.max_tokens,
        temperature=config.temperature if temperature is None else temperature,
        top_p=options.top_p or config.top_p,
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
    return Generation(sampling, enabled)


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
    """How a judge compares a request's response with each reference."""

    judge: Judge
    request: ScoreRequest
    template: Template
    mode: Mode
    generation: Generation
    fingerprint: str
    trace: Trace | None
    criterion: str = ""  # its text, for templates that show one
    responses: Sequence[str] = ()  # to show, for a template that compares them

    @property
    def engine(self) -> LanguageModel:
        """The judge's engine, with its cache unless the request bypasses it."""
        bypasses = self.request.options.cache is False
        return self.judge.engine if bypasses else self.judge.cached_engine

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
        template = self.template
        assert template.label is not None
        prompt = await self.render(reference)
        values = template.label.values
        output = await self.answer(self.engine.label_logprobs, prompt, list(values))
        logprobs = {label: output.logprobs[label] for label in values}
        if not math.isfinite(max(logprobs.values())) or any(map(math.isnan, logprobs.values())):
            status, reason = _NO_LABEL[self.judge.source]
            return self.result(status, reason=reason, usage=output.usage)
        probabilities = softmax(logprobs)
        likeliest = max(probabilities, key=lambda label: (probabilities[label], -values[label]))
        mass = sum(map(math.exp, logprobs.values()))
        found: dict[str, Any] = {"label": likeliest, "probabilities": probabilities}
        found |= {"details": cut_details(prompt) | {"label_mass": mass}, "usage": output.usage}
        if why := self.judge.undecided(probabilities[likeliest], mass):
            return self.result(Status.UNPARSEABLE, reason=why, **found)
        decides = template.label.binary and not self.responses
        score = values[likeliest] if decides else template.label.expected(probabilities)
        source = "cache" if output.cached else self.judge.source
        return self.result(Status.OK, score=score, source=source, **found)

    async def _by_text(self, reference: str) -> ScoreResult:
        (result,), about = await self.written(await self.render(reference), self._read)
        described = {"template": self.template.name, "fingerprint": self.fingerprint}
        return result.model_copy(update=described | about)

    def _read(self, output: TextOutput) -> Answers:
        result = read_verdict(self.template, output.text, output.cut_off)
        if result.score is not None:
            result.source = "cache" if output.cached else self.judge.source
            result.critique = self.critique(output.text)
        return [result], {}

    async def written(self, prompt: Prompt, read: Callable[[TextOutput], Answers]) -> Answers:
        """What is read of a generated text; one that lacks a verdict is asked for again.

        Another attempt has another seed and a temperature, and begins in the first half of the time
        left. A text that was cut off would be again. ``usage`` and ``details`` are of all attempts.

        Raises:
            EngineError: the engine failed.
        """
        sampling, details = self.generation.sampling, cut_details(prompt)
        varies = self.judge.source == "remote" or sampling.temperature > 0
        attempts = self.judge.attempts if varies else 1
        ends = time.monotonic() + self.request.timeout_s / 2
        outputs, answers = list[TextOutput](), list[Answers]()
        while True:
            try:
                outputs.append(await self.answer(self.engine.generate, prompt, sampling))
                answers.append(read(outputs[-1]))
            except UnusableReplyError as error:
                answers.append(([self.result(Status.UNPARSEABLE, reason=str(error))], {}))
            lacking = next((result for result in answers[-1][0] if result.score is None), None)
            # A model of our own writes the same text again, which the cache keeps.
            if lacking and self.judge.source == "remote" and isinstance(self.engine, CachingEngine):
                self.engine.forget(prompt, self.generation.sampling)
            is_last = len(answers) == attempts or time.monotonic() > ends
            if lacking is None or is_last or lacking.status is Status.TRUNCATED:
                break
            details = {"first_reply": lacking.reason, **details, "attempts": len(answers) + 1}
            temperature = sampling.temperature or 0.7
            sampling = replace(sampling, sample=sampling.sample + 1, temperature=temperature)
        results, about = max(answers, key=lambda each: sum(r.score is not None for r in each[0]))
        return results, about | {"details": details or None, "usage": summed_usage(outputs)}

    def critique(self, text: str) -> str | None:
        """The last sentence for the policy, if asked for and it tells no reference's answer."""
        if (pattern := self.template.written.critique) is None:
            return None
        found = [match[1] or "" for match in re.finditer(pattern, read_thinking(text).text)]
        critique = found[-1].strip()[:MAX_REASON_CHARACTERS] if found else ""
        told = any(tells(critique, reference) for reference in self.request.references)
        return None if told else critique or None

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
        gold = final_answer(reference) if self.template.reference == "final_answer" else reference
        ids = tokenizer.encode_plain(gold.strip())[0]
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
            self.answer(self.engine.label_logprobs, after(at), [str(token)])
            for at, token in enumerate(ids)
        )
        logprob = math.fsum(value for output in outputs for value in output.logprobs.values())
        usage = summed_usage(outputs)
        if not math.isfinite(logprob):
            status, reason = _NO_LABEL["judge"]
            return self.result(status, reason=reason, usage=usage)
        found = {"logprob": logprob, "reference_tokens": len(ids)}
        return self.result(
            Status.OK,
            score=math.exp(logprob / len(ids)),
            source="cache" if all(output.cached for output in outputs) else self.judge.source,
            details=cut_details(prompt) | found,
            usage=usage,
        )

    async def render(self, reference: str) -> Prompt:
        """Render the prompt, with room for the judge's answer; raises as ``verdict``."""
        template, final = self.template, self.template.reference == "final_answer"
        fields = {
            "question": self.request.question or "",
            "reference": final_answer(reference) if final else reference,
            "response": self.request.judged,
            "criterion": self.criterion,
            "tools": "\n".join(map(as_json, self.request.tools or ())),
            **{f"response_{n}": text for n, text in enumerate(self.responses, 1)},
        }
        try:
            with timed(self.trace, "rendering"):
                prompt = await off_loop(
                    self._rendering_cost(),
                    self.judge.renderer.render,
                    template,
                    fields,
                    self.mode,
                    response_tokens=self.judge.budget(self.template),
                    reserve_tokens=self.generation.sampling.max_tokens,
                    enable_thinking=self.generation.enable_thinking,
                    conversation=partial(shown_turns, self.request, template),
                )
        except ValueError as error:
            where = f"template: {template.name!r} in label mode: "
            labels = isinstance(error, LabelError)
            raise InvalidRequestError(f"{where if labels else ''}{error}") from None
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

    def _rendering_cost(self) -> int:
        """The cost of the prompts of all references, or of the rules if that is more.

        Items whose rules ran in the thread return to the event loop several at once, so their
        prompts are rendered there too.
        """
        request = self.request
        response = min(len(request.judged), CHARACTERS_A_TOKEN * self.judge.budget(self.template))
        if "conversation" in self.template.fields:
            sizes = request.sizes
            response = sizes["messages"] + sizes["tools"]
        shared = response + len(request.question or "") + len(self.template.user)
        prompts = sum(shared + len(reference) for reference in request.references or [""])
        return max(grading_cost(request), RENDERED * prompts)

    def _shown(self, prompt: Prompt, number: int | None) -> ShownPrompt:
        template, mode = self.template, self.mode
        shown = ShownPrompt(mode=mode, reference=number)
        skeleton = self.judge.renderer.skeleton(template, mode, self.generation.enable_thinking)
        if skeleton.text:
            shown.text, shown.fields = filled(skeleton.text, prompt.fields)
        else:
            messages = [(role, *filled(parts, prompt.fields)) for role, parts in skeleton.turns]
            shown.messages = [Turn(role=r, content=text, fields=f) for r, text, f in messages]
        if "conversation" in template.fields:
            shown.cut = [
                Cut(field="messages", turn=turn, start=start, end=end, exact=False)
                for turn, start, end in prompt.cut
            ]
        elif prompt.cut_characters:
            response, kept = self.request.judged, prompt.fields["response"]
            place = cut_span(response, kept, prompt.head_characters, shown_as(template))
            shown.cut = [Cut(field="response", start=place[0], end=place[1], exact=place[2])]
        if self.engine.tokenizer is not None:
            shown.token_count = len(prompt.token_ids)
        return shown


def cut_details(prompt: Prompt) -> dict[str, Any]:
    """The entries of ``details`` that say how much of the response or conversation was cut."""
    if prompt.cut:
        return {"cut_characters": prompt.cut_characters, "cut_turns": prompt.cut_turns}
    return {"cut_response_characters": prompt.cut_characters} if prompt.cut_characters else {}


def softmax(logprobs: Mapping[str, float]) -> dict[str, float]:
    """Probabilities normalised over the labels."""
    highest = max(logprobs.values())
    weights = {label: math.exp(value - highest) for label, value in logprobs.items()}
    total = sum(weights.values())
    return {label: weight / total for label, weight in weights.items()}


def expected(template: Template, result: ScoreResult) -> ScoreResult:
    """The result of a state, with the expected value over its labels as score."""
    probabilities = result.probabilities if result.score is not None else None
    if template.shows != "conversation" or template.label is None or not probabilities:
        return result
    return result.model_copy(update={"score": template.label.expected(probabilities)})


class Audit:
    """Compares rules and model on a sample of requests, by their hash, in the background.

    If a policy learns to exploit one of the two, the disagreements increase while the reward still
    looks fine.
    """

    def __init__(self, rate: float) -> None:
        self.counts = {"agreed": 0, "disagreed": 0, "failed": 0}  # failed: no verdict of the model
        self._rate = rate
        self._running: set[asyncio.Task[None]] = set()

    def of(
        self, request: ScoreRequest, both: Callable[[], Awaitable[_Both]], report: _Report | None
    ) -> None:
        """Compare both, if the request is in the sample and few comparisons are running."""
        has_room = self._rate and len(self._running) < _AUDITS
        if has_room and chosen(request_hash(request), self._rate):
            task = asyncio.ensure_future(self._compare(request, both, report))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _compare(
        self, request: ScoreRequest, both: Callable[[], Awaitable[_Both]], report: _Report | None
    ) -> None:
        try:
            grade, result = await both()
        except Exception as error:
            self.counts["failed"] += 1
            logger.debug("an audit failed: %r", error)
            return
        if grade is None or grade.score is None:
            return
        if result.score is None:
            self.counts["failed"] += 1
            return
        if report is not None:
            report(grade.score, result.score)
        if (result.score >= RIGHT / 2) == (grade.score == RIGHT):
            self.counts["agreed"] += 1
        else:
            self.counts["disagreed"] += 1
            disagreed = self.counts["disagreed"]
            if disagreed & (disagreed - 1) == 0:  # the 1st, 2nd, 4th, 8th...
                logger.warning(
                    "rules and model disagree on %d of %d requests so far; request %s: rule %s "
                    "says %s, the model %.2f",
                    disagreed, sum(self.counts.values()), request_hash(request),
                    grade.rule, grade.outcome, result.score,
                )  # fmt: skip


class Judge(RewardModel):
    """A judge on one engine; raises ``LabelError`` if a label of its template is not one token."""

    scores_turns = True

    def __init__(self, config: JudgeModel | RemoteModel, engine: Engine) -> None:
        self._config: JudgeConfig = config.judge
        self.source: Source = "remote" if isinstance(config, RemoteModel) else "judge"
        self.attempts = self._config.attempts or (2 if self.source == "remote" else 1)
        self.engine: Engine = engine
        max_bytes = int(config.cache.max_mib * 2**20)
        self._cache = CachingEngine(engine, max_bytes) if config.cache.enabled else None
        self.cached_engine: LanguageModel = self._cache or engine
        self._audit = Audit(self._config.audit_rate)
        self.renderer = Renderer(engine.tokenizer, engine.max_model_len)
        self._about = engine.describe()
        self._engine_key = ";".join(f"{k}={v}" for k, v in self._about.items())
        self._blind = set[str]()  # templates that showed no question of a request
        self._ends_thinking = isinstance(config, JudgeModel) and config.engine.ends_thinking
        if config.group is not None:
            self.groups = GroupJudge(config.group, self._prepared)
            pair = config.group.default_template
            if config.group.mode == "label" and pair.label:
                self.renderer.label_ids(pair)
        self.renderer.skeleton(self._config.default_template, self._config.mode, False)

    async def score(self, request: ScoreRequest, trace: Trace | None = None) -> ScoreResult:
        """Score one request, by the best match of several references."""
        return await (self._by_turn if request.turns else self._score)(request, trace)

    async def _by_turn(self, request: ScoreRequest, trace: Trace | None) -> ScoreResult:
        """Score the whole and each turn; in mode likelihood, with what each turn changed."""
        comparison = self._comparison(request, None)
        template, compares = comparison.template, comparison.mode == "likelihood"
        reads_answers = "conversation" not in template.fields
        if compares and len(request.references) > 1:
            raise InvalidRequestError(
                "reference: turns of mode likelihood compare states by one; send one, or no turns"
            )
        states = await scored_states(request, self._score, trace, reads_answers, compares)
        result = with_turns(
            states[compares:], partial(expected, template), is_mean=template.turns == "turn"
        )
        if not compares:
            return result
        values: list[Any] = [(each.details or {}).get("logprob") for each in states]
        differences = {
            f"turn_{number}": None if None in pair else pair[1] - pair[0]
            for number, pair in enumerate(pairwise(values), 1)
        }
        details = {**(result.details or {}), "differences": differences}
        return result.model_copy(update={"details": details, "usage": summed_usage(states)})

    async def _score(self, request: ScoreRequest, trace: Trace | None = None) -> ScoreResult:
        comparison = self._comparison(request, trace)
        rules_first = self._rules(comparison.template) is not None
        grade = await self._graded(comparison) if rules_first or trace is not None else None
        if rules_first and grade is not None and grade.score is not None:
            result = result_of(grade, comparison.fingerprint, comparison.template.name)
            if trace is not None:
                within_s = MODELS_SHARE * request.timeout_s
                what = "the model, asked only for an explanation,"
                trace.model = await in_time(self._by_model(comparison), within_s, what)
        else:
            result = await self._by_model(comparison)
            if trace is not None:
                trace.model = result
        if trace is None:
            report = self.audited and partial(self.audited, request, result.source)
            self._audit.of(request, partial(self._both, comparison, grade, result), report)
        return result

    async def chat(self, request: ChatRequest) -> dict[str, Any]:
        """A chat completion with one answer, by the deployment's settings where it sets none."""
        config, context = self._config, self.engine.max_model_len
        if request.size > CHARACTERS_A_TOKEN * context:
            raise InvalidRequestError(
                f"messages: {request.size} bytes exceed this model's context of {context} tokens; "
                "shorten them"
            )
        body = {"temperature": config.temperature, "top_p": config.top_p} | request.passed_on
        if self.engine.tokenizer is not None:  # an endpoint decides for itself
            effort = body.get("reasoning_effort", "none")
            thinks = {"enable_thinking": config.enable_thinking or effort != "none"}
            body["chat_template_kwargs"] = thinks | body.get("chat_template_kwargs", {})
            if config.thinking_tokens is not None:
                body.setdefault("thinking_token_budget", config.thinking_tokens)
        asked = request.max_completion_tokens or request.max_tokens or config.max_tokens
        return await self.engine.chat(body, min(asked, config.max_tokens))

    def describe(self) -> dict[str, Any]:
        """Kind, settings and fingerprint of the default template and mode."""
        default, mode = self._config.default_template, self._config.mode
        generation = generation_of(Options(), self._config, mode, self._ends_thinking)
        return {
            "kind": self.source,
            "engine": self._about,
            "outage": self.engine.outage,
            "template": default.name,
            "templates": self._config.known_templates,
            **self._config.model_dump(include=_DESCRIBED),
            "rules_first": self._rules(default) is not None,
            "response_tokens": self.budget(default),
            "max_model_len": self.engine.max_model_len,
            "cache": self._cache and {"hits": self._cache.hits, "misses": self._cache.misses},
            "fingerprint": self._fingerprint(default, mode, generation),
            "audit": dict(self._audit.counts),
            **(self.groups.describe() if self.groups else {}),
        }

    def _comparison(self, request: ScoreRequest, trace: Trace | None) -> Comparison:
        """Resolve and check the request's template and mode."""
        template = self._template(request)
        if template.shows not in self._config.shows:
            raise InvalidRequestError(
                f"template: {template.name!r} shows a {template.shows}; choose from "
                f"{', '.join(self._config.known_templates)}"
            )
        default = self._config.mode if self._config.mode in template.modes else template.modes[0]
        mode = request.options.mode or default
        if mode not in template.modes:
            raise InvalidRequestError(
                f"options.mode: template {template.name!r} has no section {mode}; choose from "
                f"{', '.join(template.modes)}"
            )
        if mode == "likelihood" and not request.references:
            raise InvalidRequestError("reference: mode likelihood needs it; send it")
        return self._prepared(request, template, mode, trace)

    def _prepared(
        self, request: ScoreRequest, template: Template, mode: Mode, trace: Trace | None = None
    ) -> Comparison:
        generation = generation_of(request.options, self._config, mode, self._ends_thinking)
        self._check_fields(request, template)
        fingerprint = self._fingerprint(template, mode, generation)
        return Comparison(self, request, template, mode, generation, fingerprint, trace)

    def _check_fields(self, request: ScoreRequest, template: Template) -> None:
        for name in template.fields:
            if not is_judged(name) and name != "criterion" and not getattr(request, name):
                raise InvalidRequestError(f"{name}: template {template.name!r} needs it; send it")
        if template.shows in ("criterion", "conversation") and template.reference == "full":
            return  # the reference may be any text
        try:
            for reference in request.references:
                gold_answer(reference)
        except UnusableReferenceError as error:
            raise InvalidRequestError(f"reference: {error}") from None

    async def _graded(self, comparison: Comparison) -> Grade | None:
        """The grade by the template's rules; None if it has no rules, or there is no reference."""
        request, name = comparison.request, comparison.template.rules
        if name is None or not request.references:
            return None
        cost, texts = grading_cost(request), (request.judged, request.references)
        with timed(comparison.trace, "rules"):
            grade = await off_loop(cost, RULES[name], *texts)
        if comparison.trace is not None:
            comparison.trace.graded(grade, request)
        return grade

    async def _by_model(self, comparison: Comparison) -> ScoreResult:
        """The model's result; with several references, that of the best match."""
        template = comparison.template
        shown = "reference" in template.fields or comparison.mode == "likelihood"
        references = comparison.request.references if shown else [""]
        results = await gathered(map(comparison.verdict, references))
        result = best(results, highest=template.highest)
        if comparison.request.question and {"conversation", "question"}.isdisjoint(template.fields):
            result.details = {**(result.details or {}), "not_shown": "question"}
            if template.name not in self._blind:
                self._blind.add(template.name)
                logger.info("template %s shows the judge no question", template.name)
        return result

    async def _both(
        self, comparison: Comparison, grade: Grade | None, result: ScoreResult
    ) -> _Both:
        """The rules' grade and the model's result; asks the one that did not give ``result``."""
        if result.source == "rule":
            return grade, await self._by_model(comparison)
        return grade or await self._graded(comparison), result

    def _template(self, request: ScoreRequest) -> Template:
        if request.template is None:
            return self._config.default_template.without_absent(partial(getattr, request))
        name = request.template
        inline = is_inline(name)
        if inline and not self._config.inline_templates:
            raise InvalidRequestError(
                "template: this deployment does not accept inline templates; choose from "
                f"{', '.join(self._config.known_templates)}, or set judge.inline_templates: true "
                "in its config"
            )
        try:
            template = inline_template(name) if inline else self._config.find_template(name)
            return template.without_absent(partial(getattr, request))
        except ValueError as error:
            raise InvalidRequestError(str(error)) from None

    def budget(self, template: Template) -> int:
        """Maximum tokens of the response to show."""
        return self._config.response_tokens or template.response_tokens

    def _rules(self, template: Template) -> RulesName | None:
        """The rules that decide before the model; None if no rules do."""
        return None if self._config.rules_first is False else template.rules

    def undecided(self, probability: float, mass: float) -> str | None:
        """Why the likelier label's probability, or all labels' mass, is too low for a score."""
        least = self._config.min_probability
        if least and probability < least:
            limit = f"below judge.min_probability {least:g}"
            return f"the likelier label has probability {probability:.4g}, {limit}"
        if least and mass < MIN_LABEL_MASS:
            limit = f"below the {MIN_LABEL_MASS:g} that judge.min_probability {least:g} needs"
            return f"the labels together have probability {mass:.4g}, {limit}"
        return None

    def _fingerprint(self, template: Template, mode: Mode, generation: Generation) -> str:
        rules = f"{self._rules(template) or 'off'}-{VERSION}"
        settings = generation.settings if mode == "generate" else ""
        if mode == "label" and self._config.min_probability:
            settings = f";min_probability={self._config.min_probability:g}"
        return (
            f"{self._engine_key};context={self.engine.max_model_len};"
            f"template={template.name}@{template.digest};mode={mode};"
            f"response_tokens={self.budget(template)};rules={rules}{settings}"
        )
