"""For trainers' adapters: reads data set rows, and checks the first ones with the service."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reward_serve.client.client import Client
from reward_serve.client.outcomes import failed_status, is_refusal
from reward_serve.logprobs import LogprobsResult
from reward_serve.messages import Message
from reward_serve.schema import ScoreResult, Status

PROBED_ROWS = 8
"""Number of a data set's first rows to check before training."""
PROBE_RESPONSE = "I do not know."
"""A response that every verifier and judge calls wrong."""
REFUSED_SAMPLES = 64
"""How many refused samples before a first verdict, more than a row has, end a run."""


class RefusedRowError(ValueError):
    """The service refuses a row of the data set: no response to it can have a verdict."""


def text_of(cell: Any) -> str | None:
    """A cell as text, decoded if it is bytes; None where it is missing: None, NaN or blank."""
    try:
        missing = cell is None or bool(cell != cell)
    except (TypeError, ValueError):  # pandas.NA is neither equal to itself nor unequal
        missing = True
    if isinstance(cell, bytes):
        cell = cell.decode(errors="replace")
    text = "" if missing else str(cell)
    return text if text.strip() else None


def texts_of(cell: Any) -> list[str]:
    """The gold answers in a cell, which may be one or several (or lists), without missing ones."""
    if hasattr(cell, "tolist"):  # of numpy
        cell = cell.tolist()
    if isinstance(cell, Iterable) and not isinstance(cell, str | bytes | Mapping):
        return [text for part in cell for text in texts_of(part)]
    text = text_of(cell)
    return [] if text is None else [text]


def rubric_of(cell: Any) -> str | list[Any] | None:
    """A cell's rubric: a name, or criteria without the fields that Arrow fills with None."""
    if hasattr(cell, "tolist"):  # of numpy
        cell = cell.tolist()
    if not isinstance(cell, list | tuple):
        return text_of(cell)
    return [_present(criterion) for criterion in cell if criterion is not None] or None


def _present(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {key: _present(part) for key, part in value.items() if part is not None}


def request_of(
    response: str,
    reference: Any = None,
    question: Any = None,
    rubric: Any = None,
    info: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A scoring request of a row's cells; those that are missing send nothing.

    Args:
        response: the response.
        reference: the gold answers.
        question: the question.
        rubric: the rubric.
        info: the row's ``extra_info``, whose ``split`` and ``index`` name the group; without
            ``index`` it is ``judge_group``. ``judge_metadata`` is the request's metadata, with
            ``data_source``, by which a service may choose the model.
    """
    fields = {
        "reference": texts_of(reference),
        "question": text_of(question),
        "rubric": rubric_of(rubric),
    }
    request: dict[str, Any] = {name: value for name, value in fields.items() if value}
    request, info = {"response": response, **request}, info or {}
    if info.get("index") is not None:
        request["group"] = f"{info.get('split', '')}/{info['index']}"
    elif info.get("judge_group"):
        request["group"] = info["judge_group"]
    source = text_of(info.get("data_source"))
    if keys := {
        **({"data_source": source} if source else {}),
        **(info.get("judge_metadata") or {}),
    }:
        request["metadata"] = keys
    return request


def conversation_of(
    request: Mapping[str, Any], messages: Iterable[Any], tools: Sequence[Any]
) -> dict[str, Any]:
    """A row's request for a conversation, which stands for its response and its question.

    Messages are as a chat template takes them; NaN in a call's arguments becomes text.
    """
    plain = json.loads(json.dumps(list(messages), default=str), parse_constant=str)
    turns = [{key: turn[key] for key in Message.model_fields if key in turn} for turn in plain]
    others = {key: value for key, value in request.items() if key not in ("response", "question")}
    return {**others, "messages": turns, "tools": list(tools)}


def check_rows(probes: Iterable[tuple[Client, Mapping[str, Any]]]) -> ScoreResult | None:
    """Check the first rows of a data set with the service, before training.

    Args:
        probes: for each row, a client and a request, for example with ``PROBE_RESPONSE``.

    Returns:
        The first result without a score, if any: the service is down, or failed.

    Raises:
        RefusedRowError: names the row and the service's reason.
    """
    failed = None
    for row, (client, request) in enumerate(probes):
        result = client.score(request)
        if failed_status(result) == Status.INVALID:
            row_cannot = f"row {row} of the training data cannot"
            what = "no row can" if is_refusal(result) else row_cannot
            raise RefusedRowError(f"{what} have a verdict: {result.reason}")
        failed = failed or (None if result.status is Status.OK else result)
    return failed


def check_first_results(client: Client, results: Sequence[ScoreResult | LogprobsResult]) -> None:
    """Stop a run that the service refuses as a whole; one odd row does not stop it.

    Raises:
        RefusedRowError: a result refuses all requests; or before the client's first verdict, all of
            several results are refused, or ``REFUSED_SAMPLES`` were.
    """
    refused = [result for result in results if failed_status(result) == Status.INVALID]
    counts = client.counters.snapshot()
    is_many = len(refused) == len(results) > 1 or counts["failed_invalid"] >= REFUSED_SAMPLES
    if any(map(is_refusal, refused)) or (refused and is_many and not counts["ok"]):
        raise RefusedRowError(
            f"{counts['failed_invalid']} of {counts['asked']} samples so far cannot have a "
            f"verdict, and no retry changes it: {refused[0].reason}"
        )
