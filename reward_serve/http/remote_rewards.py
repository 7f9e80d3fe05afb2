"""Remote reward URLs: OpenRLHF's ``/get_reward`` and slime's ``/remote_rm``.

Both protocols only have numbers. An item without a score fails the whole request, which the trainer
retries, unless ``server.absent_reward`` is set. ``model``, ``template`` and ``timeout_s`` can be
set in the URL's query.
"""

from __future__ import annotations

import math
import re
from typing import Any

from fastapi import HTTPException

from reward_serve.http.contract import retry_after
from reward_serve.schema import MAX_TIMEOUT_S, Status, retry_after_s

Items = list[dict[str, Any]]

_IN_URL = ("model", "template", "timeout_s")

# Tokens with which chat templates end turns and pad; DeepSeek's have full-width bars.
_TOKEN = re.compile(
    r"<[|\uff5c][^<>|\uff5c\s]{1,40}[|\uff5c]>|</?s>|<bos>|<eos>|<pad>|<end_of_turn>"
)
_LONGEST_TOKEN = 44
_SHORTEST_OVERLAP = 32  # characters besides whitespace; fewer might agree by accident
_MOST_PLACES = 1_000
_SPACE = re.compile(r"\s*")


def openrlhf_queries(body: Any) -> list[str]:
    """The queries, each of which is an item.

    Raises:
        HTTPException: 422, the field is missing or not a list of texts.
    """
    body = body if isinstance(body, dict) else {}
    return _texts(body, "queries" if "queries" in body else "query")


def openrlhf_items(body: dict[str, Any]) -> Items:
    """A score request for each query; its response is the query without its prompt.

    Raises:
        HTTPException: 422, a field is invalid.
    """
    queries, prompts = openrlhf_queries(body), _texts(body, "prompts")
    labels = body.get("labels")
    labels = [None] * len(queries) if labels is None else labels
    if not isinstance(labels, list) or not len(queries) == len(prompts) == len(labels):
        raise HTTPException(422, "query, prompts, labels: must be lists of equal length")
    return [
        {
            "response": _response(i, query, prompt),
            "question": prompt,
            **_reference(f"labels.{i}", label),
        }
        for i, (query, prompt, label) in enumerate(zip(queries, prompts, labels, strict=True))
    ]


def slime_items(body: Any) -> Items:
    """The score request of a sample; a list as prompt is sent as messages.

    Raises:
        HTTPException: 422, a field is invalid.
    """
    if not isinstance(body, dict) or not isinstance(body.get("response"), str):
        raise HTTPException(422, "response: must be the sample's response as text")
    prompt = body.get("prompt")
    asked = {"messages": prompt} if isinstance(prompt, list) else {"question": prompt}
    response = _without_turn_end(body["response"])
    return [{"response": response, **asked, **_reference("label", body.get("label"))}]


def with_url_fields(query: Any, items: Items) -> Items:
    """The items with the fields set in the URL.

    Raises:
        HTTPException: 422, ``timeout_s`` is not a number of seconds.
    """
    fields: dict[str, Any] = {name: query[name] for name in _IN_URL if name in query}
    if "timeout_s" in fields:
        fields["timeout_s"] = _seconds(fields["timeout_s"])
    return [item | fields for item in items]


def rewards_of(
    results: list[dict[str, Any]], absent: float | None, template: str | None = None
) -> list[float]:
    """The scores, with ``absent`` in place of missing ones.

    Args:
        results: the reward model's results.
        absent: ``server.absent_reward``.
        template: the template in the URL.

    Raises:
        HTTPException: a score is missing and ``absent`` is None: 422 if all requests are invalid,
            else 503. Also 422 if the template in the URL is invalid.
    """
    failed = [result for result in results if result["status"] != Status.OK]
    misnamed = [result for result in failed if template and _is_of_the_template(result)]
    if failed and (absent is None or misnamed):
        first = (misnamed or failed)[0]
        detail = (
            f"{len(failed)} of {len(results)} have no score, the first: {first['status']}: "
            f"{first['reason']}"
        )
        if misnamed or all(result["status"] == Status.INVALID for result in failed):
            raise HTTPException(422, detail)
        pause_s = max(retry_after_s(result["details"]) for result in failed)
        raise HTTPException(503, detail, retry_after(pause_s))
    stand_in = absent if absent is not None else math.nan
    return [stand_in if result["score"] is None else result["score"] for result in results]


def openrlhf_reply(rewards: list[float], results: list[dict[str, Any]]) -> dict[str, Any]:
    """``rewards`` for the advantages, ``scores`` for dynamic filtering, and ``extra_logs``."""
    absent = [float(result["score"] is None) for result in results]
    return {"rewards": rewards, "scores": rewards, "extra_logs": {"absent": absent}}


def _is_of_the_template(result: dict[str, Any]) -> bool:
    return result["status"] == Status.INVALID and "template: " in (result["reason"] or "")


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
    """The text after the prompt, or after its end where the prompt was cut from the left.

    The prompt may have been decoded with different whitespace.
    """
    shown = prompt[_after_tokens(prompt) :]
    start = _after_tokens(query)
    if shown and query.startswith(shown, start):
        return _without_turn_end(query[start + len(shown) :])
    while query.startswith("\ufffd", start):  # what is left of a character that was cut
        start += 1
    overlaps = _overlaps("".join(shown.split()), "".join(query[start:].split()))
    if len(overlaps) != 1:
        found = "begins neither with it nor with its end"
        if overlaps:
            found = "begins with its end in several ways, since the prompt repeats itself"
        raise HTTPException(
            422, f"prompts.{index}: query.{index} {found}; send the prompt as sampled"
        )
    missing = overlaps[0]
    end = start
    for word in re.finditer(r"\S+", query[start:]):
        end = start + min(word.end(), word.start() + missing)
        missing -= len(word[0])
        if missing <= 0:
            break
    return _without_turn_end(query[end:])


def _overlaps(prompt: str, query: str) -> list[int]:
    """The lengths of the prompt's ends with which the query begins: of the long ones, up to two."""
    if prompt and query.startswith(prompt):
        return [len(prompt)]
    head, place = query[:_SHORTEST_OVERLAP], -1
    lengths: list[int] = []
    for _ in range(_MOST_PLACES if len(head) == _SHORTEST_OVERLAP else 0):
        place = prompt.find(head, place + 1)
        if place < 0 or len(lengths) > 1:
            break
        if query.startswith(prompt[place:]):
            lengths.append(len(prompt) - place)
    return lengths


def _after_tokens(text: str) -> int:
    """The start of the text after padding tokens."""
    place = 0
    while token := _TOKEN.match(text, _SPACE.match(text, place).end()):  # type: ignore[union-attr]
        place = token.end()
    return place


def _without_turn_end(text: str) -> str:
    """The text without special tokens at its end, some of which trainers keep."""
    kept = end = len(text)
    while True:
        while end and text[end - 1].isspace():
            end -= 1
        tail = text[max(0, end - _LONGEST_TOKEN) : end]
        token = next((found for found in _TOKEN.finditer(tail) if found.end() == len(tail)), None)
        if token is None:
            return text[:kept]
        kept = end = end - len(token[0])


def _reference(field: str, label: Any) -> dict[str, Any]:
    if label is None or label != label or (isinstance(label, str) and not label.strip()):
        return {}  # None, NaN or blank
    several = label if isinstance(label, list) else [label]
    if any(isinstance(one, bool) or not isinstance(one, str | int | float) for one in several):
        raise HTTPException(422, f"{field}: must be text or a number, or a list of them")
    if any(isinstance(one, float) and not -(2**63) <= one < 2**64 for one in several):
        raise HTTPException(422, f"{field}: has a number of more than 64 bits; send it as text")
    return {"reference": list(map(str, label)) if isinstance(label, list) else str(label)}
