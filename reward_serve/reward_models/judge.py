"""Kind ``judge``: a language model compares a response with its reference.

In label mode one forward pass gives the probability of each label; in generate mode the judge
writes text, whose last verdict counts. With ``rules_first`` the model is used only if no rule
decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reward_serve.config.engine import ends_thinking
from reward_serve.config.judge import JudgeConfig
from reward_serve.config.models import JudgeModel, RemoteModel
from reward_serve.engines.base import Engine
from reward_serve.engines.caching import CachingEngine
from reward_serve.judging.rendering import Mode, Renderer
from reward_serve.off_loop import off_loop
from reward_serve.reward_models.base import (
    InvalidRequestError,
    Verdict,
    best,
    check_references,
    gathered,
)
from reward_serve.reward_models.chat import Chat
from reward_serve.reward_models.comparison import Comparison, PromptRenderer
from reward_serve.reward_models.findings import Findings, rule_outcome
from reward_serve.reward_models.generate import check_options, generate_verdict, settings_of
from reward_serve.reward_models.label import label_verdict
from reward_serve.reward_models.recording import Recorder, attempted
from reward_serve.reward_models.rule import decided
from reward_serve.rules import VERIFIER_VERSION
from reward_serve.rules.base import takes_long
from reward_serve.rules.grade import Grade
from reward_serve.rules.registry import RULES
from reward_serve.rules.spans import located
from reward_serve.schema import ScoreRequest, Source
from reward_serve.templates import Template, load_template, template_names
from reward_serve.templates.inline import inline_template, is_inline
from reward_serve.verifier_names import RulesName

_MODELS_SHARE = 0.9  # of a deadline, where the answer to a request does not wait for the model


@dataclass(frozen=True, slots=True)
class _Way:
    """The template and mode of a request."""

    template: Template
    mode: Mode
    fingerprint: str


class Judge:
    """A judge on one engine.

    Args:
        config: a model of kind ``judge`` or ``remote``.
        engine: the engine of the judge's model.

    Raises:
        LabelError: a label of the deployment's template is not a single token for this model.
    """

    def __init__(self, config: JudgeModel | RemoteModel, engine: Engine) -> None:
        self._config: JudgeConfig = config.judge
        self._source: Source = config.kind
        cache = config.cache
        self._anew = engine
        self._cache = (
            CachingEngine(engine, cache.max_entries, int(cache.max_mib * 2**20))
            if cache.enabled
            else None
        )
        self._renderer = Renderer(engine.tokenizer, engine.max_model_len)
        self._about = engine.describe()
        self._engine_key = ";".join(f"{k}={v}" for k, v in self._about.items())
        self._own = self._config.own_template
        self._default = self._own or load_template(self._config.template)
        self._ends_thinking = isinstance(config, JudgeModel) and ends_thinking(config.engine)
        self.chat = Chat(self._cache or engine, self._config, self._ends_thinking)
        """Chat completions by the judge's model."""
        if self._config.mode == "label":
            self._renderer.label_ids(self._default)

    async def score(self, request: ScoreRequest) -> Verdict:
        """Score one request; with several references, the best match is used."""
        way = self._way(request)
        if self._rules(way.template):
            proven = await self._by_rule(request, way.template)
            if proven and proven.score is not None:
                return decided(proven, way.fingerprint, way.template.name)
        return await self._by_model(request, way, self._engine(request), self._renderer)

    async def explain(self, request: ScoreRequest, findings: Findings) -> Verdict:
        """The same, with the rules' outcome and the model's verdict whichever of them decides."""
        way = self._way(request)
        with findings.timed("rules"):
            rule = await self._by_rule(request, way.template)
        proven = None
        if rule is not None:
            found = await off_loop(takes_long(request), located, request.response, rule)
            findings.rule = rule_outcome(found)
            if self._rules(way.template) and rule.score is not None:
                proven = decided(rule, way.fingerprint, way.template.name)
        recorder = Recorder(self._renderer, self._engine(request), findings)
        asked = self._by_model(request, way, recorder, recorder)
        if proven is None:
            findings.model = await asked
            return findings.model
        findings.model = await attempted(asked, _MODELS_SHARE * request.timeout_s)
        return proven

    async def by_rule(self, request: ScoreRequest) -> Grade | None:
        """The verification by the template's rules; None if it has no rules."""
        return await self._by_rule(request, self._template(request))

    async def by_model(self, request: ScoreRequest) -> Verdict:
        """The model's verdict, without rules."""
        way = self._way(request)
        return await self._by_model(request, way, self._engine(request), self._renderer)

    def describe(self) -> dict[str, Any]:
        """Kind, settings and fingerprint of the default template and mode."""
        default = self._default
        return {
            "kind": self._source,
            "engine": self._about,
            "template": default.name,
            "templates": self._names(),
            "inline_templates": self._config.inline_templates,
            "mode": self._config.mode,
            "rules_first": self._rules(default) is not None,
            "response_tokens": self._budget(default),
            "max_tokens": self._config.max_tokens,
            "enable_thinking": self._config.enable_thinking,
            "samples": self._config.samples,
            "max_samples": self._config.max_samples,
            "max_model_len": self._anew.max_model_len,
            "cache": self._cache and {"hits": self._cache.hits, "misses": self._cache.misses},
            "fingerprint": self._fingerprint(default, self._config.mode),
        }

    async def failure(self) -> str | None:
        """Why the engine cannot serve any more; None while it can."""
        return await self._anew.failure()

    def close(self) -> None:
        """Stop the engine."""
        self._anew.close()

    def _way(self, request: ScoreRequest) -> _Way:
        """Resolve and check the request's template and mode.

        Raises:
            InvalidRequestError: an option is invalid, or the template needs a missing field.
        """
        template = self._template(request)
        mode: Mode = request.options.mode or (self._config.mode if template.label else "generate")
        check_options(request.options, self._config, mode, self._ends_thinking)
        for name in template.fields:
            if name != "response" and not getattr(request, name):
                raise InvalidRequestError(f"{name}: template {template.name!r} needs it; send it")
        check_references(request.references)
        return _Way(template, mode, self._fingerprint(template, mode))

    async def _by_rule(self, request: ScoreRequest, template: Template) -> Grade | None:
        if template.rules is None or not request.references:
            return None
        rules = RULES[template.rules]
        return await off_loop(takes_long(request), rules, request.response, request.references)

    async def _by_model(
        self, request: ScoreRequest, way: _Way, engine: Engine, renderer: PromptRenderer
    ) -> Verdict:
        references = request.references if "reference" in way.template.fields else [""]
        budget = self._budget(way.template)
        asked = [
            Comparison(request, way.template, reference, budget, way.fingerprint)
            for reference in references
        ]
        verdicts = await gathered(self._ask(each, way.mode, engine, renderer) for each in asked)
        return best(verdicts, highest=way.template.highest)

    async def _ask(
        self, asked: Comparison, mode: Mode, engine: Engine, renderer: PromptRenderer
    ) -> Verdict:
        if mode == "label":
            return await label_verdict(asked, engine, renderer, self._source)
        return await generate_verdict(asked, engine, renderer, self._source, self._config)

    def _engine(self, request: ScoreRequest) -> Engine:
        """The engine with its cache, or without it if the request bypasses the cache."""
        return self._anew if request.options.cache is False else self._cache or self._anew

    def _template(self, request: ScoreRequest) -> Template:
        name = request.template
        if name is None:
            return self._default
        if is_inline(name):
            return self._inline(name)
        if self._own and name == self._own.name:
            return self._own
        try:
            return load_template(name)
        except KeyError:
            raise InvalidRequestError(
                f"template: no template is named {name[:64]!r}; choose from "
                f"{', '.join(self._names())}"
            ) from None

    def _names(self) -> list[str]:
        return [*([self._own.name] if self._own else []), *template_names()]

    def _inline(self, text: str) -> Template:
        if not self._config.inline_templates:
            raise InvalidRequestError(
                "template: this deployment does not accept inline templates; choose from "
                f"{', '.join(self._names())}, or set judge.inline_templates: true in its config"
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

    def _fingerprint(self, template: Template, mode: Mode) -> str:
        name = self._rules(template)
        rules = f"{name}-{VERIFIER_VERSION}" if name else "off"
        writing = settings_of(self._config) if mode == "generate" else ""
        return (
            f"{self._engine_key};context={self._anew.max_model_len};"
            f"template={template.name}@{template.digest};mode={mode};"
            f"response_tokens={self._budget(template)};rules={rules}{writing}"
        )
