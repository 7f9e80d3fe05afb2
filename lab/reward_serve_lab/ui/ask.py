"""Ask: score a response with several models, templates and modes, or attack the reference."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Mapping
from functools import partial
from itertools import product
from typing import Any

from nicegui import ui
from nicegui.element import Element

from reward_serve.explanation import Explanation
from reward_serve.keys import API_KEY_VARIABLE
from reward_serve_lab.attacks.family import Attack
from reward_serve_lab.ui.attacking import attack_section
from reward_serve_lab.ui.elements import (
    LongText,
    Pieces,
    button,
    heading,
    message,
    tag,
    untrusted,
    upload_button,
)
from reward_serve_lab.ui.explained import card
from reward_serve_lab.ui.service import TroubleError
from reward_serve_lab.ui.session import Draft, Session
from reward_serve_lab.ui.text import hidden_names, legible, pieces, transportable

MAX_SIDE_BY_SIDE = 8
TIMEOUT_S = 60.0
_MODES = ["label", "generate"]
# Blurring the field sends its debounced input.
_AFTER_TYPING = "e => { e.target.blur(); e.target.focus(); setTimeout(emit); }"
_FIELDS = {
    "question": ("Question", 64),
    "reference": ("Reference", 44),
    "response": ("Response", 180),
    "conversation": ("Or a conversation, as JSON", 64),
}


def build(session: Session) -> None:
    """Build the page."""
    _Ask(session).build()


def requests_of(draft: Draft) -> dict[str, dict[str, Any]]:
    """The draft's requests by title: each combination of model, template and mode.

    Raises:
        ValueError: the conversation is not JSON, or there are too many combinations.
    """
    asked = {"response": draft.response} | ({"question": draft.question} if draft.question else {})
    if draft.conversation.strip():
        asked = _conversation(draft)
    if draft.reference.strip():
        asked["reference"] = draft.reference
    models: list[str] = draft.models or [""]
    templates: list[str] = draft.templates or [""]
    modes: list[str] = draft.modes or [""]
    chosen = list(product(models, templates, modes))
    if len(chosen) > MAX_SIDE_BY_SIDE:
        raise ValueError(
            f"{len(chosen)} combinations of models, templates and modes; at most "
            f"{MAX_SIDE_BY_SIDE} are shown. Choose fewer."
        )
    requests = {}
    for model, template, mode in chosen:
        given = {"model": model, "template": template, "options": mode and {"mode": mode}}
        request = asked | {name: value for name, value in given.items() if value}
        title = " · ".join(filter(None, (model, template, mode)))
        requests[title] = {**request, "timeout_s": TIMEOUT_S}
    return requests


def _conversation(draft: Draft) -> dict[str, Any]:
    try:
        conversation = json.loads(draft.conversation)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"The conversation is not JSON: {error}.") from None
    if not isinstance(conversation, list | dict):
        raise ValueError("The conversation must be a list of messages, or an object with them.")
    return {
        "turns": True,
        **(conversation if isinstance(conversation, dict) else {"messages": conversation}),
    }


class _Ask:
    """The page."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._hints: dict[str, Element] = {}
        self._inputs: dict[str, LongText] = {}
        self._unexplained = False

    def build(self) -> None:
        """Build the page in a container; opening an attack rebuilds it."""
        heading("Ask", 1)
        self._container = tag("div")
        with self._container:
            self._build()
        self._session.watchers.append(self._show_choices)

    def _build(self) -> None:
        with tag("div", "ask"):
            with tag("form", "fields ask-form") as form:
                self._fields()
            # A browser would reload the page.
            form.on("submit.prevent", js_handler="() => {}")
            self._answers = tag("div", "stack answers", aria_live="polite")
        with self._answers:
            if not (self._session.draft.response or self._session.draft.conversation):
                _welcome()
        self._show_choices()

    def _fields(self) -> None:
        draft = self._session.draft
        if draft.note:
            message(draft.note, "")
        for name, (label, height) in _FIELDS.items():
            field = LongText(
                label,
                value=getattr(draft, name),
                on_change=lambda event, name=name: self._changed(name, event.value or ""),
            )
            self._inputs[name] = field
            field.props(f"outlined debounce=150 input-style='height: {height}px'")
            field.props("spellcheck=false").classes("full")
            field.on("keydown.ctrl.enter", self._ask, js_handler=_AFTER_TYPING)
            self._hints[name] = tag("div", "hint small")
            self._show_hint(name)
        with tag("div", "choices"):
            self._models = self._multi_select("models", draft.models)
            self._templates = self._multi_select("templates", draft.templates)
            self._modes = self._multi_select("modes", draft.modes)
            self._modes.set_options(_MODES, value=draft.modes)
        with tag("div", "actions"):
            self._ask_button = button("Ask", self._ask, primary=True)
            self._attack_button = button("Attack it", self._attack)
            refuse = partial(self._show_message, "The file is over 2 MiB.", "Load a shorter one.")
            upload_button("Load JSON", ".json", 2**21, self._load, refuse)
            tag("span", "muted small", "Ctrl+Enter to ask")

    def _multi_select(self, name: str, chosen: list[str]) -> ui.select:
        made = ui.select(
            list(chosen),
            multiple=True,
            label=name,
            value=list(chosen),
            on_change=lambda event: setattr(self._session.draft, name, list(event.value or [])),
        )
        return made.props("outlined dense options-dense use-chips clearable")

    def _load(self, text: str) -> None:
        self._inputs["conversation"].set_value(transportable(text))

    def _changed(self, name: str, value: str) -> None:
        setattr(self._session.draft, name, value)
        self._show_hint(name)

    def _show_hint(self, name: str) -> None:
        hidden = hidden_names(getattr(self._session.draft, name))
        hint = self._hints[name]
        hint.clear()
        if hidden:
            with hint:
                tag("span", "unseen", "hidden characters")
                tag("span", "muted", " " + ", ".join(hidden))

    def _show_choices(self) -> None:
        if self._models.is_deleted:
            self._session.watchers.remove(self._show_choices)
            return
        models = self._session.state.models or []
        served = [transportable(str(model.get("name"))) for model in models]
        templates = [
            transportable(str(template))
            for model in models
            if isinstance(model.get("templates"), list)
            for template in model["templates"]
        ]
        for select, options in ((self._models, served), (self._templates, templates)):
            names = dict.fromkeys([*options, *(select.value or [])])
            known = {name: legible(name, 60) for name in names}
            if known != select.options:
                select.set_options(known, value=select.value)

    async def _ask(self) -> None:
        try:
            requests = requests_of(self._session.draft)
        except ValueError as error:
            self._show_message(str(error), "")
            return
        self._working("Scoring …")
        self._unexplained = False
        try:
            answers = await asyncio.gather(*map(self._explained, requests.values()))
        finally:
            self._done()
        if self._answers.is_deleted:
            return
        self._answers.clear()
        with self._answers:
            if self._unexplained:
                message(
                    "This service has explanations off; only results are shown.",
                    "",
                    "Set server.explain: true in the deployments file.",
                )
            with tag("div", "cards-wide"):
                for (title, request), answer in zip(requests.items(), answers, strict=True):
                    _answer(title, request, answer)
            self._request(next(iter(requests.values())))

    async def _explained(self, request: Mapping[str, Any]) -> Explanation | TroubleError:
        """The explanation, or only the result if the service has explanations off."""
        service = self._session.workbench.service
        try:
            return await service.explain(request)
        except TroubleError as trouble:
            if trouble.status_code != 404 or "explain" not in trouble.what.lower():
                return trouble
        try:
            (result,) = await service.score([request])
        except TroubleError as trouble:
            return trouble
        self._unexplained = True
        return Explanation(result=result)

    def _request(self, request: Mapping[str, Any]) -> None:
        service = self._session.workbench.service
        with tag("section", "card"):
            heading("Request", 2, "flush")
            for name, make in (("curl", as_curl), ("Python", as_python)):
                _snippet(name, make(service.url, request, service.has_key))

    async def _attack(self) -> None:
        draft = self._session.draft
        if not draft.reference.strip():
            self._show_message("An attack needs a reference.", "Fill in the reference.")
            return
        plain = Draft(**{**vars(draft), "response": "", "conversation": ""})
        base = next(iter(requests_of(plain).values()))
        self._working("Attacking …")
        try:
            await attack_section(self._session.workbench.service, base, self._answers, self._open)
        finally:
            self._done()

    def _open(self, attack: Attack) -> None:
        self._session.draft.response = attack.response
        self._session.draft.conversation = json.dumps(attack.messages) if attack.messages else ""
        self._session.draft.note = "An attack from the suite."
        self._container.clear()
        with self._container:
            self._build()

    def _working(self, text: str) -> None:
        self._ask_button.disable()
        self._attack_button.disable()
        self._show_message(text, "", "")

    def _done(self) -> None:
        if not self._ask_button.is_deleted:
            self._ask_button.enable()
            self._attack_button.enable()

    def _show_message(self, what: str, remedy: str, tone: Any = "warn") -> None:
        self._answers.clear()
        with self._answers:
            message(what, tone, remedy)


def _answer(title: str, request: Mapping[str, Any], answer: Explanation | TroubleError) -> None:
    if isinstance(answer, Explanation):
        result = answer.result
        default = " · ".join(filter(None, (result.model, result.template)))
        card(title or f"{default or 'model'} (default)", request, answer)
        return
    with tag("section", "card"):
        with tag("h2", "flush"):
            untrusted(title or "default model")
        message(answer.what, "bad", answer.remedy)


def as_curl(url: str, request: Mapping[str, Any], has_key: bool) -> str:
    """A shell command that sends the request; it reads the key from the environment."""
    key = f' \\\n  -H "authorization: Bearer ${API_KEY_VARIABLE}"' if has_key else ""
    # On stdin, because Linux limits an argument to 128 KiB.
    return (
        f"curl -s {shlex.quote(url + '/v1/score')} -H 'content-type: application/json'{key} \\\n"
        f"  --data-binary @- <<'EOF'\n{json.dumps(request, indent=1)}\nEOF"
    )


def as_python(url: str, request: Mapping[str, Any], has_key: bool) -> str:
    """Python code that sends the request with this project's client."""
    key = f", os.environ[{API_KEY_VARIABLE!r}]" if has_key else ""
    lines = ["import os\n"] if has_key else []
    lines += ["from reward_serve import HttpRewardClient\n", "request = {"]
    lines += [f"    {name!r}: {value!a}," for name, value in request.items()]
    lines += ["}", f"with HttpRewardClient({url!r}{key}) as judge:"]
    lines += ["    print(judge.score(request))"]
    return "\n".join(lines)


def _snippet(name: str, text: str) -> None:
    with tag("div", "snippet"):
        with tag("div", "card-head"):
            heading(name, 3)
            copy = tag("button", "copy", "Copy", type="button", aria_label=f"Copy as {name}")
            copy.on("click", lambda: ui.clipboard.write(text))
        Pieces(pieces(text), "pre").classes("text-box")


def _welcome() -> None:
    with tag("section", "card empty"):
        heading("Why does a response get its score?", 2, "flush")
        tag(
            "p",
            "muted",
            "Enter a reference and a response. The result shows the score and its source, the "
            "text that a rule matched, the judge's prompt and what was cut from it, the label "
            "probabilities, and the time of each step. A conversation is a list of messages, or "
            "an object with messages and tools; each of its assistant turns is scored too.",
        )
