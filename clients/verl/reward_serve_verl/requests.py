"""Turns verl's rows into requests, from ``extra_info`` and ``LLM_JUDGE_SERVER_*`` variables.

Keys of ``extra_info``:

- The service: ``server_url``, ``api_key``, ``timeout``, ``batch_size``.
- The request: ``problem`` or ``question``, ``rubric`` (criteria or a name), ``model_name``,
  ``temperature``, ``top_p``, ``max_new_tokens``, ``enable_thinking``, ``prompt_template``
  (a name, ``default`` for the deployment's own, or template text if the deployment has
  ``judge.inline_templates``).
- The choice among several gold answers: ``target_gt``, and ``filter_gt_by_prompt_token`` with
  ``prompt``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from reward_serve.client import Client, connect
from reward_serve.client.rows import request_of, text_of, texts_of

_CLIENT_SETTINGS = (
    "url", "app", "model", "api_key", "api_key_file", "timeout_s", "on_failure", "max_batch",
    "max_attempts", "samples", "samples_every",
)  # fmt: skip
_VERLS = frozenset(["reward_router_address", "reward_model_tokenizer"])
"""Arguments that verl adds to ``reward_kwargs``; ignored."""
_ROW_SETTINGS = ("judged_data_sources", "group_size", "components")
"""Settings of rows and rewards, not of the client."""
_ALTERNATIVES = {"url": "app", "api_key": "api_key_file"}
"""Settings that exclude each other."""
_OPTIONS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "max_new_tokens": "max_tokens",
    "enable_thinking": "enable_thinking",
}
_REASONING = frozenset(["detailed"])
"""Templates that request reasoning before the verdict."""


def client_for(info: Mapping[str, Any], settings: Mapping[str, Any]) -> Client:
    """The client for a row; the row overrides the settings, which override the variables.

    Raises:
        ValueError: a setting is unknown or invalid.
    """
    ours = (*_CLIENT_SETTINGS, *_ROW_SETTINGS)
    if unknown := settings.keys() - _VERLS.union(ours):
        raise ValueError(
            f"reward_kwargs: {', '.join(sorted(unknown))}: unknown; choose from {', '.join(ours)}"
        )
    # A rule's 0 or 1 is on another scale than a place in a group.
    chosen: dict[str, Any] = {"on_failure": "none" if settings.get("group_size") else "rule"}
    chosen |= {name: settings[name] for name in _CLIENT_SETTINGS if settings.get(name) is not None}
    for name, key, variable in (
        ("url", "server_url", "LLM_JUDGE_SERVER_URL"),
        ("api_key", "api_key", "LLM_JUDGE_SERVER_API_KEY"),
        ("timeout_s", "timeout", "LLM_JUDGE_SERVER_TIMEOUT"),
    ):
        value = None if info.get(key) == "" else info.get(key)
        other = _ALTERNATIVES.get(name, name)
        if value is None and name not in chosen and other not in chosen:
            value = os.environ.get(variable)
        if value is not None:
            chosen[name] = float(value) if name == "timeout_s" else value
            if other != name:
                chosen.pop(other, None)
    if info.get("batch_size"):
        chosen["max_batch"] = int(info["batch_size"])
    return connect(**chosen)


def request_for(
    response: str, ground_truth: Any, info: Mapping[str, Any], group_size: int | None = None
) -> dict[str, Any]:
    """The scoring request for a row.

    Args:
        response: the response.
        ground_truth: the row's gold answers.
        info: the row's ``extra_info``.
        group_size: samples of a prompt, to judge them against each other.
    """
    question = text_of(info.get("problem")) or text_of(info.get("question"))
    gold = references(ground_truth, info.get("prompt") or question, info)
    request = request_of(response, gold, question, info.get("rubric"), info)
    if model := text_of(info.get("model_name")):
        request["model"] = model
    template = text_of(info.get("prompt_template")) or "default"
    if template != "default":
        request["template"] = template
    if group_size is not None:
        request["group_size"] = group_size
    options = {
        ours: info[theirs] for theirs, ours in _OPTIONS.items() if info.get(theirs) is not None
    }
    if options.get("enable_thinking") or template in _REASONING:
        options["mode"] = "generate"  # label mode generates no reasoning
    return {**request, "options": options} if options else request


def references(ground_truth: Any, prompt: Any, info: Mapping[str, Any]) -> list[str]:
    """The gold answers to compare with; a filter that leaves none is ignored.

    Args:
        ground_truth: a gold answer, a list, or a mapping from names; missing values are skipped.
        prompt: the prompt; ``filter_gt_by_prompt_token`` looks for its last word, ignoring case.
        info: the row's ``extra_info``.
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
