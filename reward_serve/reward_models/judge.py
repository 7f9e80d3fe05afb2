"""Kind ``judge``: a language model compares a response with its reference.

Label mode reads the probability of each label off one forward pass; generate mode lets the judge
write and takes its last verdict. Under ``rules_first`` what a rule can prove is not asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from reward_serve.config.engine import ends_thinking
from reward_serve.config.judge import JudgeConfig
from reward_serve.config.models import JudgeModel, RemoteModel
from reward_serve.engines.base import Engine
from reward_serve.engines.caching import CachingEngine
from reward_serve.judging.rendering import Mode, Renderer
from reward_serve.reward_models.base import InvalidRequestError, Verdict, best, check_references
from reward_serve.reward_models.chat import Chat
from reward_serve.reward_models.comparison import Comparison, PromptRenderer
from reward_serve.reward_models.findings import Findings
from reward_serve.reward_models.generate import check_options, generate_verdict, settings_of
from reward_serve.reward_models.label import label_verdict
from reward_serve.reward_models.recording import Recorder, attempted
from reward_serve.reward_models.rule import decided, verified
from reward_serve.schema import ScoreRequest, Source
from reward_serve.templates import Template, load_template, template_names
from reward_serve.templates.inline import inline_template, is_inline
from reward_serve.verifiers import (
    VERIFIER_VERSION,
    Verification,
    verify_any,
    verify_strict_any,
)

_RULES: dict[str, Callable[[str, list[str]], Verification]] = {
    "final_answer": verify_any,
    "gsm8k_strict": verify_strict_any,
}


_MODELS_SHARE = 0.9  # of a deadline, where the answer to a request does not wait for the model


@dataclass(frozen=True, slots=True)
class _Way:
    """How a request is judged."""

    template: Template
    mode: Mode
    fingerprint: str


class Judge:
    """A judge on one engine.

    Args:
        config: of kind ``judge``, or of kind ``remote``.
        engine: what is asked.

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
        """The model itself, for clients that bring their own prompt."""
        if self._config.mode == "label":
            self._renderer.label_ids(self._default)

    async def score(self, request: ScoreRequest) -> Verdict:
        """The verdict on one request; with several references, the best match is used."""
        way = self._way(request)
        if self._config.rules_first:
            proven = self._by_rule(request, way.template)
            if proven and proven.outcome != "abstain":
                return decided(proven, way.fingerprint, way.template.name)
        return await self._by_model(request, way, self._engine(request), self._renderer)

    async def explain(self, request: ScoreRequest, findings: Findings) -> Verdict:
        """The same, with the rules' outcome and the model's verdict whichever of them decides."""
        way = self._way(request)
        with findings.timed("rules"):
            rule = self._by_rule(request, way.template)
        proven = None
        if rule is not None:
            findings.rule = verified(rule, request.response)
            if self._config.rules_first and rule.outcome != "abstain":
                proven = decided(rule, way.fingerprint, way.template.name)
        recorder = Recorder(self._renderer, self._engine(request), findings)
        asked = self._by_model(request, way, recorder, recorder)
        if proven is None:
            findings.model = await asked
            return findings.model
        findings.model = await attempted(asked, _MODELS_SHARE * request.timeout_s)
        return proven

    def by_rule(self, request: ScoreRequest) -> Verification | None:
        """What the template's rules make of a request; None where it has none."""
        return self._by_rule(request, self._template(request))

    async def by_model(self, request: ScoreRequest) -> Verdict:
        """The model's verdict, whatever a rule can prove."""
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
            "rules_first": self._config.rules_first,
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
        """Why the engine can serve no more; None while it can."""
        return await self._anew.failure()

    def close(self) -> None:
        """End the engine."""
        self._anew.close()

    def _way(self, request: ScoreRequest) -> _Way:
        """How to judge the request.

        Raises:
            InvalidRequestError: it asks for what cannot be, or lacks what is needed.
        """
        template = self._template(request)
        mode: Mode = request.options.mode or (self._config.mode if template.label else "generate")
        check_options(request.options, self._config, mode, self._ends_thinking)
        for name in template.fields:
            if name != "response" and not getattr(request, name):
                raise InvalidRequestError(f"{name}: template {template.name!r} needs it; send it")
        check_references(request.references)
        return _Way(template, mode, self._fingerprint(template, mode))

    def _by_rule(self, request: ScoreRequest, template: Template) -> Verification | None:
        rules = _RULES.get(template.rules or "") if request.references else None
        return rules(request.response, request.references) if rules else None

    async def _by_model(
        self, request: ScoreRequest, way: _Way, engine: Engine, renderer: PromptRenderer
    ) -> Verdict:
        references = request.references if "reference" in way.template.fields else [""]
        budget = self._budget(way.template)
        asked = [
            Comparison(request, way.template, reference, budget, way.fingerprint)
            for reference in references
        ]
        verdicts = await asyncio.gather(
            *(self._ask(each, way.mode, engine, renderer) for each in asked)
        )
        return best(verdicts, highest=way.template.highest)

    async def _ask(
        self, asked: Comparison, mode: Mode, engine: Engine, renderer: PromptRenderer
    ) -> Verdict:
        if mode == "label":
            return await label_verdict(asked, engine, renderer, self._source)
        return await generate_verdict(asked, engine, renderer, self._source, self._config)

    def _engine(self, request: ScoreRequest) -> Engine:
        """The engine that this request is for: with what it answered before, or anew."""
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
                f"template: there is no {name[:64]!r}; choose of {', '.join(self._names())}"
            ) from None

    def _names(self) -> list[str]:
        return [*([self._own.name] if self._own else []), *template_names()]

    def _inline(self, text: str) -> Template:
        if not self._config.inline_templates:
            raise InvalidRequestError(
                "template: this deployment takes no inline templates; name one of "
                f"{', '.join(self._names())}, or set judge.inline_templates: true in its config"
            )
        try:
            return inline_template(text)
        except ValueError as error:
            raise InvalidRequestError(f"template: the inline template {error}") from None

    def _budget(self, template: Template) -> int:
        return self._config.response_tokens or template.response_tokens

    def _fingerprint(self, template: Template, mode: Mode) -> str:
        rules = f"gsm8k-{VERIFIER_VERSION}" if self._config.rules_first else "off"
        writing = settings_of(self._config) if mode == "generate" else ""
        return (
            f"{self._engine_key};context={self._anew.max_model_len};"
            f"template={template.name}@{template.digest};mode={mode};"
            f"response_tokens={self._budget(template)};rules={rules}{writing}"
        )
