"""A card for an explanation: score, source, matched text, prompt, probabilities and times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nicegui.element import Element
from pydantic import ValidationError

from reward_serve.explanation import Explanation, RuleOutcome, Seconds, ShownPrompt
from reward_serve.messages import Message
from reward_serve.schema import ScoreRequest, ScoreResult
from reward_serve_lab.evaluation.bulk import judged_text
from reward_serve_lab.ui import charts
from reward_serve_lab.ui.elements import Pieces, heading, message, pill, tag, untrusted
from reward_serve_lab.ui.text import MAX_SHOWN, Mark, pieces

_LEGEND = {"match": "matched by the rule", "cut": "not shown to the judge"}
_PARTS = ("queue", "rules", "rendering", "engine")


def card(
    title: str, request: Mapping[str, Any], explanation: Explanation, level: int = 2
) -> Element:
    """Show an explanation as a card.

    Args:
        title: the requested model, template and mode.
        request: the request as sent.
        explanation: the service's.
        level: heading level.
    """
    result = explanation.result
    section = tag("section", "card verdict")
    with section:
        _head(title, result, level)
        if result.reason and result.score is None:
            message(result.reason, "warn")
        if explanation.rule is not None or explanation.model is not None:
            _deciders(explanation)
        if turns := _turns(request):
            _conversation(turns, explanation)
        else:
            _response(judged_text(request), explanation)
        for prompt in explanation.prompts:
            _prompt(prompt)
        _times(explanation.seconds)
        _usage(explanation)
        for name, member in (explanation.members or {}).items():
            card(f"member {name}", request, member, level + 1)
    return section


def _head(title: str, result: ScoreResult, level: int) -> None:
    with tag("div", "verdict-head"):
        with tag("div", "verdict-score"):
            text = "–" if result.score is None else f"{result.score:g}"
            tag("span", f"score big {charts.score_tone(result.score)}", text)
        with tag("div", "verdict-about"):
            with tag(f"h{level}"):
                untrusted(title)
            with tag("div", "pills"):
                pill(result.status.value, charts.STATUS_TONES.get(result.status.value, ""))
                if result.score is None:
                    pill("no score", "none")
                pill(f"decided by {result.source}" if result.source else "undecided")
                for name, value in (result.details or {}).items():
                    if name == "rule":
                        with tag("span", "pill"):
                            untrusted(f"rule {value}")


def _deciders(explanation: Explanation) -> None:
    """The outcomes of the rules and the model side by side, whichever decided."""
    rule_decided = explanation.result.source == "rule"
    with tag("div", "deciders"):
        if explanation.rule is not None:
            with tag("div", "decider decided" if rule_decided else "decider"):
                _rule(explanation.rule)
        if explanation.model is not None:
            with tag("div", "decider" if rule_decided else "decider decided"):
                _model(explanation.model)
    if explanation.rule is None and explanation.model is not None and explanation.model.template:
        text = "No rules: the template has none, or the request has no reference."
        tag("p", "muted small", text)
    if disagrees(explanation):
        message("Rules and model disagree on this response.", "warn")


def disagrees(explanation: Explanation) -> bool:
    """Whether rules and model both have a score, and the scores differ."""
    return (
        explanation.rule is not None
        and explanation.model is not None
        and explanation.rule.score is not None
        and explanation.model.score is not None
        and abs(explanation.rule.score - explanation.model.score) > 1e-9
    )


def _rule(rule: RuleOutcome) -> None:
    heading("Rules", 3)
    with tag("div", "pills"):
        pill(rule.outcome, {"right": "ok", "wrong": "bad"}.get(rule.outcome, ""))
        with tag("span", "pill"):
            untrusted(rule.rule)
    if rule.answer is not None:
        with tag("p", "small"):
            tag("span", "muted", "answer: ")
            untrusted(rule.answer[:400], "mono")


def _model(model: ScoreResult) -> None:
    heading("Model", 3)
    with tag("div", "pills"):
        text = "no score" if model.score is None else f"score {model.score:g}"
        pill(text, charts.score_tone(model.score))
        if model.status.value != "ok":
            pill(model.status.value, charts.STATUS_TONES.get(model.status.value, ""))
    if model.probabilities:
        charts.bars(model.probabilities, model.label)
    if model.reason:
        untrusted(model.reason, "small muted", "p")
    if model.text:
        untrusted(model.text, "text-box", "div")


def _turns(request: Mapping[str, Any]) -> list[Message]:
    """The turns of a conversation; none if it is invalid, or the request is a response."""
    try:
        return ScoreRequest.model_validate(request).conversation if request.get("messages") else []
    except ValidationError:
        return []


def _conversation(turns: Sequence[Message], explanation: Explanation) -> None:
    """Each turn, with the scores of the assistant's beside them."""
    heading("Conversation", 3)
    parts = explanation.result.components or {}
    number, last = 0, max(i for i, turn in enumerate(turns) if turn.role == "assistant")
    most = max(1_000, 4 * MAX_SHOWN // len(turns))
    with tag("div", "turns"):
        for place, turn in enumerate(turns):
            number += turn.role == "assistant"
            with tag("div", f"turn {turn.role}"):
                with tag("div", "turn-about"):
                    pill(turn.role)
                    if turn.name:
                        untrusted(turn.name[:80], "mono")
                    part = parts.get(f"turn_{number}") if turn.role == "assistant" else None
                    if part is not None:
                        text = part.status.value if part.score is None else f"{part.score:.3g}"
                        pill(f"turn {number}: {text}", charts.score_tone(part.score))
                        if part.reason:
                            untrusted(part.reason, "small muted")
                marks = _marks(explanation) if place == last else []
                if turn.text:
                    Pieces(pieces(turn.text, marks, most)).classes("text-box")
                for call in turn.tool_calls or ():
                    Pieces(pieces(call.shown, (), most)).classes("text-box call")


def _marks(explanation: Explanation) -> list[Mark]:
    """The parts of the response that a rule matched or that the judge does not see."""
    marks = [
        Mark(cut.start, cut.end, "cut")
        for prompt in explanation.prompts[:1]
        for cut in prompt.cut
        if cut.field == "response"
    ]
    if explanation.rule is not None and explanation.rule.span is not None:
        marks.append(Mark(explanation.rule.span.start, explanation.rule.span.end, "match"))
    return marks


def _response(response: str, explanation: Explanation) -> None:
    marks = _marks(explanation)
    heading("Response", 3)
    kinds = {mark.kind for mark in marks}
    if kinds:
        with tag("p", "legend small muted"):
            for kind, text in _LEGEND.items():
                if kind in kinds:
                    tag("span", kind, text)
    Pieces(pieces(response, marks)).classes("text-box")
    if not response:
        tag("p", "muted small", "The response is empty.")


def _prompt(prompt: ShownPrompt) -> None:
    where = "" if prompt.reference is None else f", reference {prompt.reference + 1}"
    size = "" if prompt.token_count is None else f", {prompt.token_count:,} tokens"
    with tag("details", "more", open=True):
        tag("summary", text=f"Prompt as sent to the judge ({prompt.mode}{where}{size})")
        for cut in prompt.cut:
            roughly = "" if cut.exact else "about "
            _cut_note(
                f"{cut.field}: {roughly}{cut.end - cut.start:,} characters cut ({cut.start:,} to "
                f"{cut.end:,})"
            )
        if prompt.text is not None:
            marks = [Mark(field.start, field.end, "field-part") for field in prompt.fields]
            Pieces(pieces(prompt.text, marks)).classes("text-box")
        for turn in prompt.messages or ():
            with tag("p", "small muted"):
                untrusted(turn.role)
            marks = [Mark(field.start, field.end, "field-part") for field in turn.fields]
            Pieces(pieces(turn.content, marks)).classes("text-box")


def _cut_note(text: str) -> None:
    with tag("p", "cut-note small"):
        tag("span", "scissors", "✂", aria_hidden="true")
        tag("span", text=text)


def _times(seconds: Seconds) -> None:
    parts = {name: getattr(seconds, name) for name in _PARTS}
    known = {name: value for name, value in parts.items() if value is not None}
    total = max(seconds.total, sum(known.values())) or 1.0
    heading("Time", 3)
    with tag("div", "times", aria_hidden="true"):
        for name, value in known.items():
            tag("span", f"time {name}").style(f"flex-grow: {max(value / total, 0.004):.4f}")
        rest = max(0.0, seconds.total - sum(known.values()))
        tag("span", "time rest").style(f"flex-grow: {rest / total:.4f}")
    with tag("p", "legend small"):
        for name, value in known.items():
            with tag("span"):
                tag("span", f"key {name}", aria_hidden="true")
                tag("span", text=f"{name} {_ms(value)}")
        tag("span", "muted", f"total {_ms(seconds.total)}")


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:,.1f} ms" if seconds < 10 else f"{seconds:,.1f} s"


def _usage(explanation: Explanation) -> None:
    usage = (explanation.model or explanation.result).usage
    parts = []
    if usage.prompt_tokens:
        parts.append(
            f"{usage.prompt_tokens:,} prompt tokens ({usage.cached_tokens:,} cached), "
            f"{usage.completion_tokens:,} completion tokens"
        )
    if explanation.cached is not None:
        parts.append("from the verdict cache" if explanation.cached else "not in the verdict cache")
    if parts:
        tag("p", "small muted", " · ".join(parts))
