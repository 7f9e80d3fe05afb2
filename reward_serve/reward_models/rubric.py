"""Kind ``rubric``: a language model judges each criterion of a rubric on its own.

In label mode each criterion is one forward pass; question and response come first, so that all of
them share one cached prefix. In generate mode the model answers all criteria in one JSON object. A
criterion that failed is a component without a score, and never a number in the aggregate.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

from reward_serve.config.models import RubricModel
from reward_serve.criteria import YES_OR_NO, Criterion, Rubric
from reward_serve.engines.base import Engine, TextOutput
from reward_serve.messages import without_twins
from reward_serve.reward_models.base import (
    MODELS_SHARE,
    InvalidRequestError,
    gathered,
    in_time,
    summed_usage,
)
from reward_serve.reward_models.comparison import Comparison, Verdicts
from reward_serve.reward_models.composite import (
    NEED_EVERY_PART,
    RUBRIC_AGGREGATES,
    component_of,
    no_score,
)
from reward_serve.reward_models.judge import Judge
from reward_serve.schema import ScoreRequest, ScoreResult, Source, Status, failure, retry_details
from reward_serve.templates import MAX_REASON_CHARACTERS, LabelForm, visible

_KEPT = ("cut_", "attempts", "first_reply")
_JSON = json.JSONDecoder(strict=False, object_pairs_hook=without_twins)  # with lines in a reason
_GOES_ON = re.compile(r"""["'\u2019\u201d]\s*[:}]""")
# Models write LaTeX in JSON: \sqrt, which is no escape, and \frac and \theta, which are others.
_ESCAPE = re.compile(r'\\(["\\/n]|[rt](?![a-z])|u[0-9a-fA-F]{4})?')
_MAX_FAULTS = 64
_BACKSLASH = "\x1a"  # one character for another, so that places stay


class RubricJudge(Judge):
    """Judges criteria on one engine; raises like ``Judge``."""

    def __init__(self, config: RubricModel, engine: Engine) -> None:
        super().__init__(config, engine)
        self._rubric = config.rubric
        self._named = {
            name: Rubric.validate_python(criteria)  # a path is read by resolve()
            for name, criteria in config.rubric.rubrics.items()
        }

    async def _score(self, comparison: Comparison) -> ScoreResult:
        """Score one request by its rubric, or by the deployment's default."""
        criteria = self._criteria(comparison.request)
        reference = "\n\nor\n\n".join(comparison.request.references)
        answer = _one_by_one if comparison.mode == "label" else _in_one_text
        result = self._result(comparison, criteria, await answer(comparison, criteria, reference))
        if comparison.trace is not None:
            comparison.trace.model = result
        return result

    def describe(self) -> dict[str, Any]:
        """Kind, settings, rubrics and fingerprint."""
        return super().describe() | {
            "kind": "rubric",
            "rubrics": list(self._named),
            "rubric": self._rubric.default,
            "aggregate": self._rubric.aggregate,
            "min_answered": self._rubric.min_answered,
        }

    def _criteria(self, request: ScoreRequest) -> Sequence[Criterion]:
        rubric = self._rubric.default if request.rubric is None else request.rubric
        if isinstance(rubric, list):
            return rubric
        known = ", ".join(self._named) or "none, so send criteria"
        if rubric is None:
            raise InvalidRequestError(
                f"rubric: is missing; send criteria, or the name of one of this deployment's "
                f"rubrics: {known}"
            )
        if rubric not in self._named:
            raise InvalidRequestError(
                f"rubric: no rubric is named {rubric[:64]!r}; choose from {known}"
            )
        return self._named[rubric]

    def _result(
        self, comparison: Comparison, criteria: Sequence[Criterion], answers: Verdicts
    ) -> ScoreResult:
        results, reply = answers
        pairs = list(zip(criteria, results, strict=True))
        parts = {c.name: component_of(r) for c, r in pairs}
        scores = [(r.score, c.weight) for c, r in pairs if r.score is not None]
        details: dict[str, Any] = {"criteria": len(criteria), "criteria_answered": len(scores)}
        for result in results:
            details |= {k: v for k, v in (result.details or {}).items() if k.startswith(_KEPT)}
        details |= retry_details(results)
        fields: dict[str, Any] = {
            "components": parts,
            "template": comparison.template.name,
            "fingerprint": self._rubric_fingerprint(comparison.fingerprint, criteria),
            "text": reply.get("text"),
            "usage": summed_usage(results),
            "details": details,
        }
        needed = max(1, math.ceil(self._rubric.min_answered * len(criteria) - 1e-9))
        required = [parts[c.name] for c in criteria if c.required]
        lacking = any(part.score is None for part in required)
        enough = len(scores) >= needed and not lacking
        score = RUBRIC_AGGREGATES[self._rubric.aggregate](scores) if enough else None
        if score and self._rubric.aggregate in NEED_EVERY_PART and len(scores) < len(criteria):
            score, needed = None, len(criteria)
        if score and any(c.required and c.weight > 0 and not parts[c.name].score for c in criteria):
            score = 0.0
        if score is None:
            status, reason = no_score(parts, needed, "criteria", required)
            reason += "; a required one has none" if lacking else ""
            return failure(status, reason, **fields)
        source = comparison.source(all(result.source == "cache" for result in results))
        return ScoreResult(status=Status.OK, score=score, source=source, **{**fields, **reply})

    def _rubric_fingerprint(self, fingerprint: str, criteria: Sequence[Criterion]) -> str:
        text = json.dumps([criterion.model_dump() for criterion in criteria])
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        rule = f"{self._rubric.aggregate}-{self._rubric.min_answered}"
        rule += "-gated" if any(c.required for c in criteria) else ""
        return f"{fingerprint};rubric={digest};aggregate={rule}"


async def _one_by_one(
    comparison: Comparison, criteria: Sequence[Criterion], reference: str
) -> Verdicts:
    """One forward pass for each criterion; those that miss the deadline have timed out.

    Raises:
        InvalidRequestError: a criterion cannot be asked.
    """
    within_s = MODELS_SHARE * comparison.request.timeout_s
    results = await gathered(
        in_time(_asking(comparison, criterion).verdict(reference), within_s, "a criterion")
        for criterion in criteria
    )
    for criterion, result in zip(criteria, results, strict=True):
        if result.status is Status.INVALID:
            raise InvalidRequestError(f"criterion {criterion.name!r}: {result.reason}")
    return results, {}


def _asking(comparison: Comparison, criterion: Criterion) -> Comparison:
    """The comparison for one criterion, with its choices as labels."""
    template, choices = comparison.template, criterion.choices
    if choices is not None:
        *first, last = choices
        ask = f"Which choice fits the response? Reply {', '.join(first)} or {last}."
        form = LabelForm(instruction=ask, values=choices)
        digest = f"{template.digest}-{'/'.join(choices)}"
        template = template.model_copy(update={"label": form, "digest": digest})
    return replace(comparison, template=template, criterion=criterion.text)


async def _in_one_text(
    comparison: Comparison, criteria: Sequence[Criterion], reference: str
) -> Verdicts:
    """All criteria answered in one text; raises like ``_one_by_one``, or ``EngineError``."""
    form = comparison.template.label
    default = form.values if form else YES_OR_NO
    choices = [criterion.choices or default for criterion in criteria]
    lines = [
        f"{criterion.name} ({' / '.join(values)}): {criterion.text}"
        for criterion, values in zip(criteria, choices, strict=True)
    ]
    prompt = await replace(comparison, criterion="\n".join(lines)).render(reference)

    def read(output: TextOutput) -> Verdicts:
        text, reason = visible(output.text, output.cut_off), None
        if isinstance(text, ScoreResult):
            results = [text]
        else:
            names = {criterion.name for criterion in criteria}
            verdicts, start = _last_object(text, comparison.template.written.verdict, names)
            reason = text[:start].strip()[-MAX_REASON_CHARACTERS:] or None
            source = comparison.source(output.cached)
            results = [
                _chosen(verdicts.get(criterion.name), values, source)
                for criterion, values in zip(criteria, choices, strict=True)
            ]
        critique = comparison.critique(output.text)
        return results, {"text": output.text, "reason": reason, "critique": critique}

    results, fields = await comparison.written(prompt, read)
    if len(results) < len(criteria):  # nothing was read
        results = [results[0]] * len(criteria)
    first = {name: fields.pop(name) for name in ("usage", "details")}
    return [results[0].model_copy(update=first), *results[1:]], fields


def _last_object(text: str, pattern: str, names: AbstractSet[str]) -> tuple[Mapping[str, Any], int]:
    """The last JSON object with one of the names, and its place; empty if it cannot be read.

    A reason may quote an object, or a part of one that ends its own: text goes on behind that.
    """
    text = _ESCAPE.sub(lambda escape: escape[0] if escape[1] else _BACKSLASH, text)
    last, place, end, faults = dict[str, Any](), len(text), 0, 0
    for match in re.finditer(pattern, text):
        if (start := match.start(1)) < end:
            continue
        try:
            verdicts, after = _JSON.raw_decode(text, start)
        except (ValueError, RecursionError):
            last, faults = {}, faults + 1
            if faults > _MAX_FAULTS:
                break
            continue
        if _GOES_ON.search(text, end, start):
            last = {}
        if not names.isdisjoint(verdicts):
            last, place = verdicts, start
        end = after
    return {} if _GOES_ON.search(text, end) else last, place


def _chosen(verdict: Any, values: Mapping[str, float], source: Source) -> ScoreResult:
    """The result of one answer in the model's JSON object: a choice, or with its reason."""
    why = ""
    if isinstance(verdict, dict):
        why, verdict = str(verdict.get("reason") or ""), verdict.get("verdict")
    if verdict is None:
        return failure(Status.UNPARSEABLE, "the judge's last JSON object has no choice for it")
    known = {label.casefold(): value for label, value in values.items()}
    if known.keys() >= YES_OR_NO.keys():
        known = {"true": known["yes"], "false": known["no"]} | known
    plain = str(verdict) if isinstance(verdict, str | int | float) else ""
    score = known.get(plain.strip(" \t\r\n.").casefold())
    if score is None:
        reason = f"the judge's answer is not one of its choices: {', '.join(values)}; see text"
        return failure(Status.UNPARSEABLE, reason)
    why = why.replace(_BACKSLASH, "\\").encode("utf-8", "replace").decode()  # of half a character
    return ScoreResult(
        status=Status.OK, score=score, source=source, reason=why[:MAX_REASON_CHARACTERS] or None
    )
