"""Reads verl's rows: the environment's ``LLM_JUDGE_SERVER_*`` and the keys of ``extra_info``.

Of ``extra_info``: ``server_url``, ``api_key``, ``timeout``, ``batch_size`` say where and how to
ask; ``problem`` or ``question``, ``model_name``, ``temperature``, ``top_p``, ``max_new_tokens``,
``enable_thinking``, ``prompt_template`` what to ask (a name, ``default`` for the deployment's own,
or a template itself where the deployment has ``judge.inline_templates``); ``target_gt`` and
``filter_gt_by_prompt_token``, with ``prompt``, which of several gold answers count.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from reward_serve.client import Client, connect
from reward_serve.client.rows import text_of, texts_of

_CLIENT_SETTINGS = (
    "url", "app", "model", "api_key", "api_key_file", "timeout_s", "on_failure", "window_s",
    "max_batch", "max_attempts", "samples", "samples_every",
)  # fmt: skip
_VERLS = frozenset(["reward_router_address", "reward_model_tokenizer"])
"""Arguments that verl adds to ``reward_kwargs``; of no use here."""
_OTHER_WAYS = {"url": "app", "api_key": "api_key_file"}  # to say the same
_OPTIONS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "max_new_tokens": "max_tokens",
    "enable_thinking": "enable_thinking",
}
_REASONING = frozenset(["detailed"])
"""Templates that ask for reasoning before the verdict."""


def client_for(info: Mapping[str, Any], settings: Mapping[str, Any]) -> Client:
    """The client that a row asks through: of the row first, then the settings, then the variables.

    Raises:
        ValueError: a setting is unknown or wrong.
    """
    if unknown := settings.keys() - _VERLS.union(_CLIENT_SETTINGS):
        raise ValueError(
            f"reward_kwargs: {', '.join(sorted(unknown))}: unknown; choose from "
            f"{', '.join(_CLIENT_SETTINGS)}"
        )
    chosen: dict[str, Any] = {"on_failure": "rule"}
    chosen |= {name: settings[name] for name in _CLIENT_SETTINGS if settings.get(name) is not None}
    for name, key, variable in (
        ("url", "server_url", "LLM_JUDGE_SERVER_URL"),
        ("api_key", "api_key", "LLM_JUDGE_SERVER_API_KEY"),
        ("timeout_s", "timeout", "LLM_JUDGE_SERVER_TIMEOUT"),
    ):
        said = None if info.get(key) == "" else info.get(key)
        other = _OTHER_WAYS.get(name, name)
        if said is None and name not in chosen and other not in chosen:
            said = os.environ.get(variable)
        if said is not None:
            chosen[name] = float(said) if name == "timeout_s" else said
            if other != name:
                chosen.pop(other, None)
    if info.get("batch_size"):
        chosen["max_batch"] = int(info["batch_size"])
    return connect(**chosen)


def request_for(response: str, ground_truth: Any, info: Mapping[str, Any]) -> dict[str, Any]:
    """A row as a request of the wire contract."""
    question = text_of(info.get("problem")) or text_of(info.get("question"))
    request: dict[str, Any] = {"response": response}
    if gold := references(ground_truth, info.get("prompt") or question, info):
        request["reference"] = gold
    if question:
        request["question"] = question
    if model := text_of(info.get("model_name")):
        request["model"] = model
    template = text_of(info.get("prompt_template")) or "default"
    if template != "default":
        request["template"] = template
    if info.get("index") is not None:
        request["group"] = f"{info.get('split', '')}/{info['index']}"
    options = {
        ours: info[theirs] for theirs, ours in _OPTIONS.items() if info.get(theirs) is not None
    }
    if options.get("enable_thinking") or template in _REASONING:
        options["mode"] = "generate"  # a deployment in label mode writes nothing
    return {**request, "options": options} if options else request


def references(ground_truth: Any, prompt: Any, info: Mapping[str, Any]) -> list[str]:
    """The gold answers that count; where a selection leaves none, all do.

    Args:
        ground_truth: one, a list, or a mapping of names to them; missing ones are left out.
        prompt: whose last word ``filter_gt_by_prompt_token`` looks for, whatever its case.
        info: the row's.
    """
    if isinstance(ground_truth, Mapping):
        named = [
            (str(name), text) for name, cell in ground_truth.items() for text in texts_of(cell)
        ]
    else:
        named = [(text, text) for text in texts_of(ground_truth)]
    kept = texts = [text for _, text in named]
    if wanted := set(texts_of(info.get("target_gt"))):
        kept = [text for name, text in named if wanted & {name, text}] or texts
    if info.get("filter_gt_by_prompt_token") and str(prompt or "").split():
        last = _words(str(prompt).split()[-1])
        kept = [text for text in kept if last and last <= _words(text)] or kept
    return kept


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))
