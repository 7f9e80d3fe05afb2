"""The reward function that verl calls. Each reward is a dict of numbers with the same keys.

Undecided samples raise ``ScoringError``: verl's V1 trainer then stores no trajectory for them, and
the group's baseline excludes them (``training.py``). Rows whose ``data_source`` matches none of the
patterns in ``reward_kwargs.judged_data_sources`` are scored by verl's own
``default_compute_score``, without the service.

Keys of a row's ``extra_info``:

- The service, also in ``LLM_JUDGE_SERVER_*`` variables: ``server_url``, ``api_key``, ``timeout``,
  and ``batch_size``. A row's own service is sent the row's ``api_key`` or none.
- The request: ``problem`` or ``question``, ``rubric`` (criteria or a name), ``model_name``,
  ``temperature``, ``top_p``, ``max_new_tokens``, ``enable_thinking``, ``prompt_template``
  (a name, or template text if the deployment has ``judge.inline_templates``; ``default`` is
  ``problem`` where the row has one; without it, the deployment's own).
- The choice among several gold answers: ``target_gt``, and ``filter_gt_by_prompt_token`` with
  ``prompt``.
- ``rollout_conversation``, by ``agent_loop.py``: it is judged instead of the response.
- ``judge_metadata`` and, without ``index``, ``judge_group``, by ``training.py``.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Any

from httpx import URL

from reward_serve.client import Client, ScoringError, connect, metrics_of
from reward_serve.client.outcomes import components_of, turns_of
from reward_serve.client.rows import (
    PROBE_RESPONSE,
    check_first_results,
    check_rows,
    conversation_of,
    request_of,
    text_of,
    texts_of,
)
from reward_serve.schema import ScoreResult, Status, failure

logger = logging.getLogger(__name__)

_CLIENT_SETTINGS = (
    "url", "app", "model", "api_key", "api_key_file", "timeout_s", "on_failure", "max_batch",
    "max_attempts", "connections",
)  # fmt: skip
_VERLS = frozenset(["reward_router_address", "reward_model_tokenizer"])
"""Arguments that verl adds to ``reward_kwargs``; ignored."""
_ROW_SETTINGS = (
    "judged_data_sources", "group_size", "components", "turns", "critique", "row_hosts",
)  # fmt: skip
"""Settings of rows and rewards, not of the client."""
_TURNS = {"log": "turn_scores", "differences": "turn_rewards"}
"""What ``reward_kwargs.turns`` adds to rewards."""
CONVERSATION = "rollout_conversation"
_OPTIONS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "max_new_tokens": "max_tokens",
    "enable_thinking": "enable_thinking",
}
_SAMPLING = ("temperature", "top_p", "max_new_tokens")
_UNREAD = ("model", "max_tokens", "num_workers")
"""Keys of ``llm_judge_remote`` that are not read."""
_noted = set[str]()


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
    if (turns := settings.get("turns")) not in (None, *_TURNS):
        raise ValueError(f"reward_kwargs.turns: {turns!r} is not one of {', '.join(_TURNS)}")
    # A rule's 0 or 1 is on another scale than turns.
    chosen: dict[str, Any] = {"on_failure": "none" if turns == "differences" else None}
    chosen |= {name: settings[name] for name in _CLIENT_SETTINGS if settings.get(name) is not None}
    for name, excluded, key, variable in (
        ("url", "app", "server_url", "LLM_JUDGE_SERVER_URL"),
        ("api_key", "api_key_file", "api_key", "LLM_JUDGE_SERVER_API_KEY"),
        ("timeout_s", "", "timeout", "LLM_JUDGE_SERVER_TIMEOUT"),
    ):
        value = None if info.get(key) == "" else info.get(key)
        if value is None and chosen.keys().isdisjoint((name, excluded)):
            value = os.environ.get(variable)
        if value is not None:
            chosen[name] = value
            chosen.pop(excluded, None)
    of_variables = map(os.environ.get, ("LLM_JUDGE_SERVER_URL", "REWARD_SERVE_URL"))
    configured = next(filter(None, [settings.get("url"), *of_variables]), None)
    if (url := info.get("server_url")) and url != configured:
        hosts = settings.get("row_hosts")
        hosts = ["*"] if hosts is None else [hosts] if isinstance(hosts, str) else hosts
        if not any(fnmatchcase(URL(url).host, host) for host in hosts):
            raise ValueError(f"extra_info.server_url: {url!r}: not in reward_kwargs.row_hosts")
        chosen.pop("api_key_file", None)
        chosen["api_key"] = info.get("api_key") or ""  # a data set must not learn the trainer's key
    if info.get("batch_size"):
        chosen["max_batch"] = int(info["batch_size"])
    return connect(**chosen)


def warn_of_timeout(config: Any) -> None:
    """Log a warning if verl ends a sample's scoring before the client's deadline.

    Args:
        config: verl's configuration; ``reward.timeout`` is the limit of a sample, in seconds.
    """
    settings = config.reward.custom_reward_function.get("reward_kwargs") or {}
    is_limited = config.reward.reward_manager.name == "rate_limited"
    limit_s = config.reward.get("timeout", 300.0 if is_limited else None)
    timeout_s = client_for({}, settings).timeout_s
    if limit_s is not None and timeout_s >= limit_s:
        logger.warning(
            "reward.timeout=%g: verl then gives a sample up before its deadline of %g s, and its "
            "verdict is lost; set reward_kwargs.timeout_s below it", limit_s, timeout_s,
        )  # fmt: skip


def request_for(
    response: str,
    ground_truth: Any,
    info: Mapping[str, Any],
    group_size: int | None = None,
    turns: str | None = None,
    data_source: str | None = None,
) -> dict[str, Any]:
    """The scoring request for a row.

    Args:
        response: the response.
        ground_truth: the row's gold answers.
        info: the row's ``extra_info``.
        group_size: samples of a prompt, to judge them against each other.
        turns: see ``as_reward``; unless it is None, each assistant turn is scored too.
        data_source: the row's data set, which is sent as metadata.
    """
    question = text_of(info.get("problem")) or text_of(info.get("question"))
    gold = references(ground_truth, info.get("prompt") or question, info)
    row = {"data_source": data_source, **info}
    request = request_of(response, gold, question, info.get("rubric"), row)
    if group_size is None and (conversation := info.get(CONVERSATION)):
        request = conversation_of(request, conversation["messages"], conversation["tools"])
    if turns:
        request["turns"] = True
    if model := text_of(info.get("model_name")):
        request["model"] = model
    template = text_of(info.get("prompt_template"))
    if template == "default":  # as there, it shows the problem
        template = "problem" if "question" in request and group_size is None else None
    if template:
        request["template"] = template
    if group_size is not None:
        request["group_size"] = group_size
    options = {ours: info[theirs] for theirs, ours in _OPTIONS.items() if text_of(info.get(theirs))}
    if options.get("enable_thinking") or template == "detailed":
        options["mode"] = "generate"  # label mode generates no reasoning
    return {**request, "options": options} if options else request


def note_unused(info: Mapping[str, Any], result: ScoreResult) -> None:
    """Log once which of the row's settings had no effect, or one that the judge cannot follow."""
    wrote_none = result.text is None and result.source in ("judge", "cache", "remote")
    names = (*_UNREAD, *_SAMPLING) if wrote_none else _UNREAD
    if unused := ", ".join(name for name in names if text_of(info.get(name))):
        why = "no effect; temperature, top_p and max_new_tokens need a judge that writes (serve "
        _warn_once(f"{unused}: {why}MODEL --mode generate), and model_name names the model")
    is_bundled = "weights=bundled" in (result.fingerprint or "")
    if is_bundled and text_of(info.get("prompt_template")) and result.template != "final_answer":
        why = "the bundled judge was trained on final_answer alone; remove it, or serve a larger"
        _warn_once(f"prompt_template: {why} model")


def _warn_once(message: str) -> None:
    if message not in _noted:
        _noted.add(message)
        logger.warning("extra_info: %s", message)


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


_ZEROS = dict.fromkeys(metrics_of(ScoreResult(status=Status.OK, score=0.0)), 0.0)


def is_judged(data_source: str, settings: Mapping[str, Any]) -> bool:
    """Whether the judge scores rows of ``data_source``: all, if no patterns are set.

    Raises:
        ValueError: ``judged_data_sources`` is neither a pattern nor a list of patterns.
    """
    given = settings.get("judged_data_sources")
    if given is None:
        return True
    patterns = [given] if isinstance(given, str) else given
    # Hydra's lists are sequences, but not lists.
    if not isinstance(patterns, Sequence) or not all(
        isinstance(pattern, str) for pattern in patterns
    ):
        raise ValueError(
            f"reward_kwargs.judged_data_sources: {given!r} must be a pattern or a list of them, "
            "such as ['llm_judge_remote_*']"
        )
    return any(fnmatchcase(data_source, pattern) for pattern in patterns)


def default_reward(
    data_source: str, solution: str, ground_truth: Any, info: Mapping[str, Any]
) -> dict[str, Any]:
    """The reward by verl itself, with the keys of a judged row; the metrics of requests are 0.

    Raises:
        NotImplementedError: verl has no scoring for ``data_source``.
    """
    from verl.utils.reward_score import default_compute_score

    try:
        scored = default_compute_score(data_source, solution, ground_truth, dict(info))
    except NotImplementedError as error:
        raise NotImplementedError(f"{error}; see reward_kwargs.judged_data_sources") from None
    fields = scored if isinstance(scored, Mapping) else {"score": scored}
    score = float(fields["score"])
    accuracy = float(fields.get("acc", score >= 0.5))
    return {"score": score, "acc": accuracy, "judged": 0.0, **_ZEROS, "latency_ms": 0.0}


async def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: Mapping[str, Any] | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Score a response.

    Args:
        data_source: the row's data set; if no pattern in ``judged_data_sources`` matches it, verl
            scores the row itself.
        solution_str: the response.
        ground_truth: a gold answer or solution, a list of them, or a mapping from names.
        extra_info: the row's ``extra_info``; the docstring of ``scoring.py`` lists its keys.
        **settings: ``reward_kwargs``, which ``docs/how-to/verl.md`` lists.

    Returns:
        ``score`` and metrics of the request; see ``as_reward``.

    Raises:
        ValueError: a setting is unknown or invalid.
        ScoringError: the sample is undecided; verl's V1 trainer then leaves it out.
        RefusedRowError: the service refuses all samples.
    """
    info = extra_info or {}
    critique = {"critique": ""} if settings.get("critique") else {}
    if not is_judged(data_source, settings):
        fields = await asyncio.to_thread(
            default_reward, data_source, solution_str, ground_truth, info
        )
        fields |= {f"component_{name}": math.nan for name in settings.get("components") or ()}
        fields |= {_TURNS[settings["turns"]]: "[]"} if settings.get("turns") else {}
        return fields | critique
    client, turns = client_for(info, settings), settings.get("turns")
    size = settings.get("group_size")
    request = request_for(solution_str, ground_truth, info, size, turns, data_source)
    result = await client.ascore(request)
    check_first_results(client, [result])
    note_unused(info, result)
    reward = as_reward(result, settings.get("components") or (), turns)
    return reward | dict.fromkeys(critique, result.critique or "")


def as_reward(
    result: ScoreResult, components: Sequence[str] = (), turns: str | None = None
) -> dict[str, Any]:
    """A result as verl's reward dict.

    Args:
        result: the result.
        components: names of criteria, or of a composite's members; verl needs the same keys for
            every sample, whatever its rubric.
        turns: ``log``, or ``differences``, a reward for each turn: its score less the one before.

    Returns:
        ``score``, ``acc`` (1.0 if the score, without a penalty of verl's, is at least 0.5),
        ``judged`` (1.0), the metrics of ``reward_serve.client.metrics_of``, ``latency_ms``, the
        time in the service, and ``component_<name>``, NaN where it has no score; with turns a JSON
        list (verl averages what is not text), ``turn_scores``, or ``turn_rewards`` to place.

    Raises:
        ScoringError: the result has no score, or a turn has none, of which a reward would be made.
    """
    if result.score is None:
        raise ScoringError(result)
    scores = components_of(result)
    return {
        "score": result.score,
        "acc": float(result.score >= 0.5),
        "judged": 1.0,
        **metrics_of(result),
        "latency_ms": result.latency_ms,
        **{f"component_{name}": scores.get(name, math.nan) for name in components},
        **(_of_turns(result, turns) if turns else {}),
    }


def _of_turns(result: ScoreResult, turns: str) -> dict[str, str]:
    scores = turns_of(result)
    decided = [score for score in scores if score is not None]
    if turns == "log":
        values: list[Any] = scores
    elif result.source == "fallback":
        values = []
    elif not decided or len(decided) < len(scores):
        reason = f"{len(decided)} of {len(scores)} turns have a score"
        raise ScoringError(failure(Status.UNPARSEABLE, reason))
    else:
        values = [after - before for before, after in pairwise([0.0, *decided])]
    return {_TURNS[turns]: json.dumps(values)}


def check_first_rows(rows: Iterable[Mapping[str, Any]], settings: Mapping[str, Any]) -> None:
    """Score each row once, with a wrong response; if the service does not answer, log a warning.

    Rows that verl scores itself are left out; settings are ``reward_kwargs``.

    Raises:
        RefusedRowError: the service refuses a row; the message has the reason.
        ValueError: a setting is invalid.
    """
    settings = {**settings, "on_failure": "none", "max_attempts": 1}

    def probe(row: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        info = row.get("extra_info") or {}
        truth = (row.get("reward_model") or {}).get("ground_truth")
        asked = request_for(
            PROBE_RESPONSE, truth, info, None, settings.get("turns"), row.get("data_source")
        )
        return client_for(info, settings), asked

    judged = (row for row in rows if is_judged(str(row.get("data_source")), settings))
    failed = check_rows(map(probe, judged))
    if failed is not None:
        logger.warning("a probe had no verdict: %s: %s", failed.status.value, failed.reason)
