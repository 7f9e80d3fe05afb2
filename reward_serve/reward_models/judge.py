"""Kind ``judge``: a language model compares a response with its reference.

With ``rules_first`` the model is used only if no rule decides.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, cast

from reward_serve.config.judge import JudgeConfig
from reward_serve.config.models import JudgeModel
from reward_serve.engines.base import Engine, Sampling, TeacherEngine
from reward_serve.engines.caching import CachingEngine
from reward_serve.off_loop import grading_cost, off_loop
from reward_serve.prompts.rendering import CHARACTERS_A_TOKEN, Renderer
from reward_serve.reward_models.base import (
    MODELS_SHARE,
    Audited,
    InvalidRequestError,
    RewardModel,
    Trace,
    best_match,
    chosen,
    gathered,
    in_time,
    request_hash,
    result_of,
    summed_usage,
    timed,
)
from reward_serve.reward_models.chat import ChatRequest
from reward_serve.reward_models.comparison import Asker, Comparison, sampling_of
from reward_serve.reward_models.group import GroupJudge
from reward_serve.reward_models.teacher import Teacher
from reward_serve.reward_models.turns import scored_states, with_turns
from reward_serve.schema import Mode, Options, ScoreRequest, ScoreResult, Source
from reward_serve.templates import RulesName, Template, inline_template, is_inline, is_judged
from reward_serve_answers import (
    VERSION,
    Grade,
    UnusableReferenceError,
    verify_any,
    verify_strict_any,
)
from reward_serve_answers.values import RIGHT, gold_answer

logger = logging.getLogger(__name__)

RULES: dict[RulesName, Callable[[str, Sequence[str]], Grade]] = {
    "gsm8k": verify_any,
    "gsm8k_strict": verify_strict_any,
}
"""The verifiers that may decide before the model."""
_AUDITS = 4
_DESCRIBED = {"inline_templates", "mode", "max_tokens", "enable_thinking", "min_probability"}
_Both = tuple[Grade | None, ScoreResult]
"""The rules' grade, None without rules, and the model's result."""


class Judge(RewardModel):
    """A judge on one engine; raises ``LabelError`` if a label of its template is not one token."""

    scores_turns = True

    def __init__(self, config: JudgeModel, engine: Engine) -> None:
        self._config: JudgeConfig = config.judge
        self.reads_rubric = config.reads_rubric
        self.source: Source = "remote" if config.remote else "judge"
        self.engine: Engine = engine
        max_bytes = int(config.cache.max_mib * 2**20)
        cache = CachingEngine(engine, max_bytes) if config.cache.enabled else None
        renderer = Renderer(engine.tokenizer, engine.max_model_len)
        self._asker = Asker(engine, cache, renderer, self.source, self._config)
        self._audit = Audit(self._config.audit_rate)
        self._engine_fields = engine.describe()
        self._engine_key = ";".join(f"{k}={v}" for k, v in self._engine_fields.items())
        self._blind = set[str]()  # templates that showed no question of a request
        self._ends_thinking = config.engine.ends_thinking
        if config.teacher:
            teacher = Teacher(config, cast(TeacherEngine, engine))
            self.logprobs, self.complete = teacher.logprobs, teacher.complete
        self.groups: GroupJudge | None = None
        if config.group is not None:
            self.groups = GroupJudge(config.group, self._prepared)
            self.score_group, self.group_wait = self.groups.score, config.group.wait
            pair = config.group.default_template
            if config.group.mode == "label" and pair.label:
                renderer.label_ids(pair)
        renderer.skeleton(self._config.default_template, self._config.mode, False)

    async def score(self, request: ScoreRequest, trace: Trace | None = None) -> ScoreResult:
        """Score one request, by the best match of several references."""
        comparison = self._comparison(request, trace)
        return await (self._by_turn if request.turns else self._score)(comparison)

    async def _by_turn(self, comparison: Comparison) -> ScoreResult:
        """Score the whole and each turn; in mode likelihood, with what each turn changed."""
        request, template = comparison.request, comparison.template
        compares = comparison.mode == "likelihood"
        reads_answers = "conversation" not in template.fields
        if compares and len(request.references) > 1:
            raise InvalidRequestError(
                "reference: turns of mode likelihood compare states by one; send one, or no turns"
            )

        def score(state: ScoreRequest, trace: Trace | None = None) -> Awaitable[ScoreResult]:
            return self._score(replace(comparison, request=state, trace=trace))

        states = await scored_states(request, score, comparison.trace, reads_answers, compares)
        result = with_turns(
            states[compares:], partial(_expected, template), is_mean=template.turns == "turn"
        )
        if not compares:
            return result
        logprobs: list[Any] = [(state.details or {}).get("logprob") for state in states]
        differences = {
            f"turn_{number}": None if None in pair else pair[1] - pair[0]
            for number, pair in enumerate(pairwise(logprobs), 1)
        }
        details = {**(result.details or {}), "differences": differences}
        return result.model_copy(update={"details": details, "usage": summed_usage(states)})

    async def _score(self, comparison: Comparison) -> ScoreResult:
        request, trace = comparison.request, comparison.trace
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
            both = partial(self._both, comparison, grade, result)
            self._audit.of(request, result.source, both)
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
        max_tokens = request.max_completion_tokens or request.max_tokens or config.max_tokens
        return await self.engine.chat(body, min(max_tokens, config.max_tokens))

    def describe(self) -> dict[str, Any]:
        """Kind, settings and fingerprint of the default template and mode."""
        default, mode = self._config.default_template, self._config.mode
        cache = self._asker.cache
        sampling = sampling_of(Options(), self._config, mode, self._ends_thinking)
        return {
            "kind": self.source,
            "engine": self._engine_fields,
            "outage": self.engine.outage,
            "template": default.name,
            "templates": self._config.known_templates,
            **self._config.model_dump(include=_DESCRIBED),
            "rules_first": self._rules(default) is not None,
            "response_tokens": self._asker.budget(default),
            "max_model_len": self.engine.max_model_len,
            "cache": cache and {"hits": cache.hits, "misses": cache.misses},
            "fingerprint": self._fingerprint(default, mode, sampling),
            "audit": dict(self._audit.counts),
            **(self.groups.describe() if self.groups else {}),
        }

    def report_audits(self, report: Audited) -> None:
        """Call ``report`` after each audit."""
        self._audit.report = report

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
        sampling = sampling_of(request.options, self._config, mode, self._ends_thinking)
        self._check_fields(request, template)
        fingerprint = self._fingerprint(template, mode, sampling)
        return Comparison(self._asker, request, template, mode, sampling, fingerprint, trace)

    def _template(self, request: ScoreRequest) -> Template:
        name, template = request.template, self._config.default_template
        inline = name is not None and is_inline(name)
        if inline and not self._config.inline_templates:
            raise InvalidRequestError(
                "template: this deployment does not accept inline templates; choose from "
                f"{', '.join(self._config.known_templates)}, or set judge.inline_templates: true "
                "in its config"
            )
        try:
            if name is not None:
                template = inline_template(name) if inline else self._config.find_template(name)
        except ValueError as error:
            raise InvalidRequestError(str(error)) from None
        return template.without_absent(partial(getattr, request))

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
        template, request = comparison.template, comparison.request
        shows_reference = "reference" in template.fields or comparison.mode == "likelihood"
        references = request.references if shows_reference else [""]
        results = await gathered(map(comparison.verdict, references))
        result = best_match(results, highest=template.highest)
        if request.question and {"conversation", "question"}.isdisjoint(template.fields):
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

    def _rules(self, template: Template) -> RulesName | None:
        """The rules that decide before the model; None if no rules do."""
        return None if self._config.rules_first is False else template.rules

    def _fingerprint(self, template: Template, mode: Mode, sampling: Sampling) -> str:
        rules = f"{self._rules(template) or 'off'}-{VERSION}"
        settings = ""
        if mode == "generate":
            thinking = (sampling.thinking_tokens or "on") if sampling.enable_thinking else "off"
            settings = (
                f";max_tokens={sampling.max_tokens};temperature={sampling.temperature:g};"
                f"top_p={sampling.top_p:g};thinking={thinking}"
            )
        elif mode == "label" and self._config.min_probability:
            settings = f";min_probability={self._config.min_probability:g}"
        return (
            f"{self._engine_key};context={self.engine.max_model_len};"
            f"template={template.name}@{template.digest};mode={mode};"
            f"response_tokens={self._asker.budget(template)};rules={rules}{settings}"
        )


def _expected(template: Template, result: ScoreResult) -> ScoreResult:
    """The result of a state, with the expected value over its labels as score."""
    probabilities = result.probabilities if result.score is not None else None
    if template.shows != "conversation" or template.label is None or not probabilities:
        return result
    return result.model_copy(update={"score": template.label.expected(probabilities)})


class Audit:
    """Compares rules and model on a sample of requests, by their hash, in the background.

    If a policy learns to exploit one of the two, the disagreements increase while the reward still
    looks fine.

    Attributes:
        report: called after each comparison.
    """

    def __init__(self, rate: float) -> None:
        self.counts = {"agreed": 0, "disagreed": 0, "failed": 0}  # failed: no verdict of the model
        self.report: Audited | None = None
        self._rate = rate
        self._running: set[asyncio.Task[None]] = set()

    def of(
        self, request: ScoreRequest, source: str | None, both: Callable[[], Awaitable[_Both]]
    ) -> None:
        """Compare both, if the request is in the sample and few comparisons are running."""
        has_room = self._rate and len(self._running) < _AUDITS
        if has_room and chosen(request_hash(request), self._rate):
            task = asyncio.ensure_future(self._compare(request, source, both))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _compare(
        self, request: ScoreRequest, source: str | None, both: Callable[[], Awaitable[_Both]]
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
        if self.report is not None:
            self.report(request, source, grade.score, result.score)
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
