"""Kind ``judge``: a language model compares a response with its reference.

In label mode one forward pass gives the probability of each label; in generate mode the judge
writes text, whose last verdict counts. With ``rules_first`` the model is used only if no rule
decides.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from reward_serve.config.engine import ends_thinking
from reward_serve.config.judge import JudgeConfig
from reward_serve.config.models import JudgeModel, RemoteModel
from reward_serve.engines.base import Engine
from reward_serve.engines.caching import CachingEngine
from reward_serve.judging.rendering import Renderer
from reward_serve.off_loop import off_loop, takes_long
from reward_serve.reward_models.audit import Audit
from reward_serve.reward_models.base import (
    MODELS_SHARE,
    InvalidRequestError,
    RewardModel,
    Trace,
    best,
    failure_of,
    gathered,
    timed,
)
from reward_serve.reward_models.chat import Chat
from reward_serve.reward_models.comparison import Comparison, Generation, generation_of
from reward_serve.reward_models.group import GroupJudge
from reward_serve.reward_models.rule import RULES, result_of
from reward_serve.schema import Mode, Options, ScoreRequest, ScoreResult, Source, Status, failure
from reward_serve.templates import RulesName, Template
from reward_serve.templates.inline import inline_template, is_inline
from reward_serve_answers import VERSION, Grade, UnusableReferenceError
from reward_serve_answers.values import gold_answer


class Judge(RewardModel):
    """A judge on one engine.

    Args:
        config: a model of kind ``judge`` or ``remote``.
        engine: the engine of the judge's model.

    Raises:
        LabelError: a label of the deployment's template is not a single token for this model.
    """

    def __init__(self, config: JudgeModel | RemoteModel, engine: Engine) -> None:
        self._config: JudgeConfig = config.judge
        self._source: Source = "remote" if isinstance(config, RemoteModel) else "judge"
        cache = config.cache
        self.engine: Engine = engine
        self._cache = CachingEngine(engine, int(cache.max_mib * 2**20)) if cache.enabled else None
        self._audit = Audit(self._config.audit_rate)
        self._renderer = Renderer(engine.tokenizer, engine.max_model_len)
        self._about = engine.describe()
        self._engine_key = ";".join(f"{k}={v}" for k, v in self._about.items())
        self._ends_thinking = isinstance(config, JudgeModel) and ends_thinking(config.engine)
        self.chat = Chat(self._cache or engine, self._config, self._ends_thinking)
        if config.group is not None:
            self.groups = GroupJudge(config.group, self._prepared)
            pair = config.group.default_template
            if config.group.mode == "label" and pair.label:
                self._renderer.label_ids(pair)
        if self._config.mode == "label":
            self._renderer.label_ids(self._config.default_template)

    async def score(self, request: ScoreRequest, trace: Trace | None = None) -> ScoreResult:
        """Score one request; with several references, the best match is used.

        A trace has the rules' outcome and the model's result, whichever of them decides.
        """
        comparison = self._comparison(request, trace)
        rules_first = self._rules(comparison.template) is not None
        grade = await self._graded(comparison) if rules_first or trace is not None else None
        if rules_first and grade is not None and grade.score is not None:
            result = result_of(grade, comparison.fingerprint, comparison.template.name)
            if trace is not None:
                trace.model = await self._if_in_time(comparison)
        else:
            result = await self._by_model(comparison)
            if trace is not None:
                trace.model = result
        if trace is None and self._audit.wants(request):
            self._audit.compare(request, partial(self._both, comparison, grade, result))
        return result

    def describe(self) -> dict[str, Any]:
        """Kind, settings and fingerprint of the default template and mode."""
        default, mode = self._config.default_template, self._config.mode
        generation = generation_of(Options(), self._config, mode, self._ends_thinking)
        return {
            "kind": self._source,
            "engine": self._about,
            "template": default.name,
            "templates": self._config.known_templates,
            "inline_templates": self._config.inline_templates,
            "mode": mode,
            "rules_first": self._rules(default) is not None,
            "response_tokens": self._budget(default),
            "max_tokens": self._config.max_tokens,
            "enable_thinking": self._config.enable_thinking,
            "samples": self._config.samples,
            "max_samples": self._config.max_samples,
            "max_model_len": self.engine.max_model_len,
            "cache": self._cache and {"hits": self._cache.hits, "misses": self._cache.misses},
            "fingerprint": self._fingerprint(default, mode, generation),
            "audit": dict(self._audit.counts),
            **(
                {"groups": self.groups.describe(), "group": self.groups.counts}
                if self.groups
                else {}
            ),
        }

    def _comparison(self, request: ScoreRequest, trace: Trace | None) -> Comparison:
        """Resolve and check the request's template and mode.

        Raises:
            InvalidRequestError: an option is invalid, or the template needs a missing field.
        """
        template = self._template(request)
        if template.shows not in self._config.shows:
            raise InvalidRequestError(
                f"template: {template.name!r} shows a {template.shows}; choose from "
                f"{', '.join(self._config.known_templates)}"
            )
        mode: Mode = request.options.mode or (self._config.mode if template.label else "generate")
        return self._prepared(request, template, mode, trace)

    def _prepared(
        self, request: ScoreRequest, template: Template, mode: Mode, trace: Trace | None = None
    ) -> Comparison:
        generation = generation_of(request.options, self._config, mode, self._ends_thinking)
        self._check_fields(request, template)
        cache = None if request.options.cache is False else self._cache
        return Comparison(
            request=request,
            template=template,
            mode=mode,
            generation=generation,
            response_tokens=self._budget(template),
            fingerprint=self._fingerprint(template, mode, generation),
            source=self._source,
            engine=cache or self.engine,
            renderer=self._renderer,
            trace=trace,
        )

    def _check_fields(self, request: ScoreRequest, template: Template) -> None:
        for name in template.fields:
            if not name.startswith(("response", "criterion")) and not getattr(request, name):
                raise InvalidRequestError(f"{name}: template {template.name!r} needs it; send it")
        if template.shows == "criterion":
            return  # a reference is what the criteria refer to, not an answer
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
        with timed(comparison.trace, "rules"):
            grade = await off_loop(
                takes_long(request), RULES[name], request.response, request.references
            )
        if comparison.trace is not None:
            comparison.trace.graded(grade, request)
        return grade

    async def _by_model(self, comparison: Comparison) -> ScoreResult:
        """The model's result; with several references, that of the best match.

        ``Comparison.render`` renders each prompt, and ``Comparison.answer`` asks the engine: a
        ``CachingEngine``, unless the deployment or the request turns the cache off.
        """
        template = comparison.template
        references = comparison.request.references if "reference" in template.fields else [""]
        results = await gathered(map(comparison.verdict, references))
        return best(results, highest=template.highest)

    async def _if_in_time(self, comparison: Comparison) -> ScoreResult:
        """The model's result, needed only for an explanation; a failure is a typed result."""
        within_s = MODELS_SHARE * comparison.request.timeout_s
        try:
            async with asyncio.timeout(within_s):
                return await self._by_model(comparison)
        except TimeoutError:
            return failure(Status.TIMEOUT, f"no answer within {within_s:.1f} s")
        except Exception as error:
            return failure_of(error, "the model, asked only for an explanation,")

    async def _both(
        self, comparison: Comparison, grade: Grade | None, result: ScoreResult
    ) -> tuple[Grade | None, ScoreResult]:
        """The rules' grade and the model's result; asks the one that did not give ``result``."""
        if result.source == "rule":
            return grade, await self._by_model(comparison)
        return grade or await self._graded(comparison), result

    def _template(self, request: ScoreRequest) -> Template:
        name = request.template
        if name is None:
            return self._config.default_template
        if is_inline(name):
            return self._inline(name)
        try:
            return self._config.find_template(name)
        except ValueError as error:
            raise InvalidRequestError(str(error)) from None

    def _inline(self, text: str) -> Template:
        if not self._config.inline_templates:
            raise InvalidRequestError(
                "template: this deployment does not accept inline templates; choose from "
                f"{', '.join(self._config.known_templates)}, or set judge.inline_templates: true "
                "in its config"
            )
        try:
            return inline_template(text)
        except ValueError as error:
            raise InvalidRequestError(f"template: the inline template {error}") from None

    def _budget(self, template: Template) -> int:
        return self._config.response_tokens or template.response_tokens

    def _rules(self, template: Template) -> RulesName | None:
        """The rules that decide before the model; None if no rules do."""
        return None if self._config.rules_first is False else template.rules

    def _fingerprint(self, template: Template, mode: Mode, generation: Generation) -> str:
        name = self._rules(template)
        rules = f"{name}-{VERSION}" if name else "off"
        generated = generation.settings if mode == "generate" else ""
        return (
            f"{self._engine_key};context={self.engine.max_model_len};"
            f"template={template.name}@{template.digest};mode={mode};"
            f"response_tokens={self._budget(template)};rules={rules}{generated}"
        )
