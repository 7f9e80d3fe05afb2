"""Kind ``judge``: a language model compares a response with its reference.

Label mode reads the probability of each label off one forward pass; generate mode lets the judge
write and takes its last verdict. Under ``rules_first`` what a rule can prove is not asked.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from reward_serve.config import JudgeConfig, JudgeModel, RemoteModel
from reward_serve.config.engine import ends_thinking
from reward_serve.engines.base import Engine, TextOutput
from reward_serve.engines.caching import CachingEngine
from reward_serve.judging.rendering import LabelError, Mode, Prompt, Renderer
from reward_serve.judging.verdict import read_verdict
from reward_serve.reward_models.audit import Audit
from reward_serve.reward_models.base import InvalidRequestError, Verdict, best, check_references
from reward_serve.reward_models.chat import Chat
from reward_serve.reward_models.rule import decided
from reward_serve.reward_models.writing import (
    aggregate,
    check_options,
    settings_of,
    writing_of,
)
from reward_serve.schema import ScoreRequest, Source, Status
from reward_serve.templates import Template, load_template, template_names
from reward_serve.templates.inline import inline_template, is_inline
from reward_serve.verifiers import (
    VERIFIER_VERSION,
    Verification,
    final_answer,
    verify_any,
    verify_strict_any,
)

_RULES: dict[str, Callable[[str, list[str]], Verification]] = {
    "final_answer": verify_any,
    "gsm8k_strict": verify_strict_any,
}


# An endpoint tells only its likeliest tokens; an engine of ours, the labels themselves.
_NO_LABEL = {
    "remote": (
        Status.UNPARSEABLE,
        "none of the labels is among the endpoint's likeliest tokens; set judge.mode: generate, or "
        "ask a model that follows the template",
    ),
    "judge": (
        Status.ERROR,
        "the engine gave the labels no probability; its weights or dtype are broken",
    ),
}


class Judge:
    """A judge on one engine.

    Args:
        config: of kind ``judge``, or of kind ``remote``.
        engine: what is asked.
        source: of verdicts that the engine gave.

    Raises:
        LabelError: a label of the deployment's template is not a single token for this model.
    """

    def __init__(
        self, config: JudgeModel | RemoteModel, engine: Engine, source: Source = "judge"
    ) -> None:
        self._config: JudgeConfig = config.judge
        self._kind = config.kind
        self._source = source
        cache = config.cache
        self._anew = engine
        self._cache = (
            CachingEngine(engine, cache.max_entries, int(cache.max_mib * 2**20))
            if cache.enabled
            else None
        )
        self._audit = Audit(config.judge.audit_rate)
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
        """The verdict on one request; of several references, the best match counts."""
        template = self._template(request)
        mode: Mode = request.options.mode or (self._config.mode if template.label else "generate")
        check_options(request.options, self._config, mode, self._ends_thinking)
        for name in template.fields:
            if name != "response" and not getattr(request, name):
                raise InvalidRequestError(f"{name}: template {template.name!r} needs it; send it")
        check_references(request.references)
        fingerprint = self._fingerprint(template, mode)
        rules = _RULES.get(template.rules or "") if request.references else None
        if rules and self._config.rules_first:
            verification = rules(request.response, request.references)
            if verification.outcome != "abstain":
                if self._audit.wants(request):
                    ask = partial(self._ask_model, request, template, mode, fingerprint)
                    self._audit.ask_model(request, verification, ask)
                return decided(verification, fingerprint, template.name)
        verdict = await self._ask_model(request, template, mode, fingerprint)
        if rules and not self._config.rules_first and self._audit.wants(request):
            self._audit.compare(request, rules(request.response, request.references), verdict)
        return verdict

    def describe(self) -> dict[str, Any]:
        """Kind, settings and fingerprint of the default template and mode."""
        default = self._default
        return {
            "kind": self._kind,
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
            "audit": dict(self._audit.counts),
            "cache": self._cache and {"hits": self._cache.hits, "misses": self._cache.misses},
            "fingerprint": self._fingerprint(default, self._config.mode),
        }

    async def failure(self) -> str | None:
        """Why the engine can serve no more; None while it can."""
        return await self._anew.failure()

    def close(self) -> None:
        """End the engine."""
        self._anew.close()

    async def _ask_model(
        self, request: ScoreRequest, template: Template, mode: Mode, fingerprint: str
    ) -> Verdict:
        ask = self._label if mode == "label" else self._generate
        references = request.references if "reference" in template.fields else [""]
        verdicts = await asyncio.gather(
            *(ask(request, template, reference, fingerprint) for reference in references)
        )
        return best(verdicts, highest=template.highest)

    async def _label(
        self, request: ScoreRequest, template: Template, reference: str, fingerprint: str
    ) -> Verdict:
        if template.label is None:
            raise InvalidRequestError(
                f"options.mode: template {template.name!r} has no labels; leave the mode out, "
                "or set generate"
            )
        try:
            ids = self._renderer.label_ids(template)
        except LabelError as error:
            raise InvalidRequestError(
                f"template: {template.name!r} in label mode: {error}"
            ) from None
        prompt = self._render(request, template, reference, "label", 1, False)
        output = await self._engine(request).label_logprobs(prompt.token_ids, list(ids.values()))
        logprobs = {label: output.logprobs[i] for label, i in ids.items()}
        if not math.isfinite(max(logprobs.values())) or any(map(math.isnan, logprobs.values())):
            status, reason = _NO_LABEL[self._kind]
            return Verdict(
                status=status,
                reason=reason,
                template=template.name,
                fingerprint=fingerprint,
                usage=output.usage,
            )
        probabilities = softmax(logprobs)
        values = template.label.values
        likeliest = max(probabilities, key=lambda label: (probabilities[label], -values[label]))
        expected = sum(p * values[label] for label, p in probabilities.items())
        return Verdict(
            score=values[likeliest] if template.label.binary else expected,
            source="cache" if output.cached else self._source,
            label=likeliest,
            probabilities=probabilities,
            template=template.name,
            fingerprint=fingerprint,
            details=_cut(prompt) | {"label_mass": sum(map(math.exp, logprobs.values()))},
            usage=output.usage,
        )

    async def _generate(
        self, request: ScoreRequest, template: Template, reference: str, fingerprint: str
    ) -> Verdict:
        way = writing_of(request.options, self._config)
        prompt = self._render(
            request, template, reference, "generate", way.max_tokens, way.enable_thinking
        )
        engine = self._engine(request)
        outputs = await asyncio.gather(
            *(
                engine.generate(
                    prompt.token_ids,
                    temperature=way.temperature,
                    top_p=way.top_p,
                    max_tokens=way.max_tokens,
                    thinking_tokens=way.thinking_tokens,
                    sample=sample,
                )
                for sample in range(way.samples)
            )
        )
        cut = _cut(prompt) or None
        base = Verdict(template=template.name, fingerprint=fingerprint, details=cut)
        verdicts = [_written(output, template, base, self._source) for output in outputs]
        return aggregate(verdicts, self._config.aggregate)

    def _render(
        self,
        request: ScoreRequest,
        template: Template,
        reference: str,
        mode: Mode,
        reserve_tokens: int,
        enable_thinking: bool,
    ) -> Prompt:
        if template.reference == "final_answer":
            reference = final_answer(reference)
        fields = {
            "question": request.question or "",
            "reference": reference,
            "response": request.response,
        }
        try:
            return self._renderer.render(
                template,
                fields,
                mode=mode,
                response_tokens=self._budget(template),
                reserve_tokens=reserve_tokens,
                enable_thinking=enable_thinking,
            )
        except ValueError as error:
            raise InvalidRequestError(str(error)) from None

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


def softmax(logprobs: dict[str, float]) -> dict[str, float]:
    """Log-probabilities renormalised over the labels alone."""
    highest = max(logprobs.values())
    weights = {label: math.exp(value - highest) for label, value in logprobs.items()}
    total = sum(weights.values())
    return {label: weight / total for label, weight in weights.items()}


def _written(output: TextOutput, template: Template, base: Verdict, own: Source) -> Verdict:
    """The verdict of one written answer."""
    written = read_verdict(template, output.text, output.cut_off)
    source: Source = "cache" if output.cached else own
    return replace(
        base,
        status=written.status,
        score=written.score,
        source=source if written.status is Status.OK else None,
        label=written.label,
        text=output.text,
        reason=written.reason,
        usage=output.usage,
    )


def _cut(prompt: Prompt) -> dict[str, Any]:
    return {"cut_response_characters": prompt.cut_characters} if prompt.cut_characters else {}
