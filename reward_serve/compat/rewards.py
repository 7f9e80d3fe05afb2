"""Remote reward URLs: OpenRLHF's ``/get_reward`` and slime's ``/remote_rm``.

Both know numbers alone. A response without a score fails the whole request, which the trainer
sends again; ``server.absent_reward`` is sent instead where the deployment says so. ``model``,
``template`` and ``timeout_s`` may stand in the URL's query.
"""

from __future__ import annotations

import math
import re
from typing import Any

from fastapi import HTTPException

from reward_serve.schema import MAX_TIMEOUT_S, Status, retry_after_s

Items = list[dict[str, Any]]

# How chat templates end a turn: OpenRLHF decodes with special tokens.
_TURN_ENDS = re.compile(r"(?:\s*(?:<\|[a-z_]{1,32}\|>|</s>|<eos>|<pad>|<end_of_turn>))+\s*\Z")
_IN_URL = ("model", "template", "timeout_s")


def openrlhf_items(body: Any) -> Items:
    """A request for each of ``query``, whose beginning, of ``prompts``, is not the response's.

    Raises:
        HTTPException: 422, names the field and the remedy.
    """
    body = body if isinstance(body, dict) else {}
    queries = _texts(body, "queries" if "queries" in body else "query")
    prompts = _texts(body, "prompts")
    labels = body.get("labels")
    labels = [None] * len(queries) if labels is None else labels
    if not isinstance(labels, list) or not len(queries) == len(prompts) == len(labels):
        raise HTTPException(422, "query, prompts, labels: must be lists of equal length")
    return [
        {"response": _response(i, query, prompt), "question": prompt, **_reference(label)}
        for i, (query, prompt, label) in enumerate(zip(queries, prompts, labels, strict=True))
    ]


def slime_items(body: Any) -> Items:
    """The one request; a prompt of several turns is a conversation.

    Raises:
        HTTPException: 422, names the field and the remedy.
    """
    if not isinstance(body, dict) or not isinstance(body.get("response"), str):
        raise HTTPException(422, "response: must be the sample's response as text")
    prompt = body.get("prompt")
    asked = {"messages": prompt} if isinstance(prompt, list) else {"question": prompt}
    return [{"response": body["response"], **asked, **_reference(body.get("label"))}]


def in_url(query: Any, items: Items) -> Items:
    """The items with what the URL says of them all.

    Raises:
        HTTPException: 422, ``timeout_s`` is no number of seconds.
    """
    told: dict[str, Any] = {name: query[name] for name in _IN_URL if name in query}
    if "timeout_s" in told:
        told["timeout_s"] = _seconds(told["timeout_s"])
    return [item | told for item in items]


def rewards_of(results: list[dict[str, Any]], absent: float | None) -> list[float]:
    """The scores, or what stands for those that are absent.

    Raises:
        HTTPException: one is absent, and nothing stands for it: 503, or 422 where the requests
            are at fault; 422 also where what the URL says is.
    """
    failed = [result for result in results if result["status"] != Status.OK]
    if failed and (absent is None or all(map(_at_the_urls_fault, results))):
        first = failed[0]
        detail = (
            f"{len(failed)} of {len(results)} have no score, the first: {first['status']}: "
            f"{first['reason']}"
        )
        if all(result["status"] == Status.INVALID for result in failed):
            raise HTTPException(422, detail)
        pause_s = max(retry_after_s(result["details"]) for result in failed)
        raise HTTPException(503, detail, {"Retry-After": str(max(1, math.ceil(pause_s)))})
    stand_in = absent if absent is not None else math.nan
    return [stand_in if result["score"] is None else result["score"] for result in results]


def openrlhf_reply(rewards: list[float], results: list[dict[str, Any]]) -> dict[str, Any]:
    """``rewards`` for the advantages, ``scores`` for dynamic filtering, and what to log."""
    absent = [float(result["score"] is None) for result in results]
    return {"rewards": rewards, "scores": rewards, "extra_logs": {"absent": absent}}


def _at_the_urls_fault(result: dict[str, Any]) -> bool:
    reason: str = result["reason"] or ""
    return result["status"] == Status.INVALID and reason.startswith("template: ")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= MAX_TIMEOUT_S:
        raise HTTPException(
            422, f"timeout_s: must be a number of seconds, at most {MAX_TIMEOUT_S:g}"
        )
    return seconds


def _texts(body: dict[str, Any], name: str) -> list[str]:
    texts = body.get(name)
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise HTTPException(422, f"{name}: must be a list of texts")
    return texts


def _response(index: int, query: str, prompt: str) -> str:
    _, found, response = query.partition(prompt)
    if not found:  # a decoded prompt may have other white space than the one that was encoded
        loose = re.search(r"\s*".join(map(re.escape, prompt.split())), query)
        if not loose:
            raise HTTPException(
                422, f"prompts.{index}: is not in query.{index}, so the response is not to be told"
            )
        response = query[loose.end() :]
    return _TURN_ENDS.sub("", response)


def _reference(label: Any) -> dict[str, Any]:
    if label is None or label == "":
        return {}
    return {"reference": list(map(str, label)) if isinstance(label, list) else str(label)}
