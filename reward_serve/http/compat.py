"""The routes of ``server.compatible_with``, for other services' clients.

OpenAI's ``/v1/chat/completions`` is for clients with their own prompts, and a teacher's
``/v1/completions`` for those that read ``prompt_logprobs``. Unsupported fields that would change an
answer are rejected. In chats, log-probabilities are among them: a request for top-k logprobs would
overwrite the label logprobs of others in the same engine step. SGLang's ``/generate`` gives a
teacher's log-probabilities of ``input_ids``, and generates nothing.

OpenRLHF's ``/get_reward`` and slime's ``/remote_rm`` only have numbers. An item without a score
fails the whole request, unless ``server.absent_reward`` is set.
``model``, ``template`` and ``timeout_s`` can be set in the URL's query.
"""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal
from uuid import uuid4

from fastapi import HTTPException, Request, Response
from pydantic import BaseModel, Field, ValidationError

from reward_serve.config.app import ServerConfig
from reward_serve.http.api import DocumentedApi, read_json, reply, retry_after
from reward_serve.logprobs import MAX_TOP_K, TokenId, as_json_values
from reward_serve.off_loop import off_loop
from reward_serve.reward_models.base import gathered
from reward_serve.reward_models.chat import CHAT_TIMEOUT_S, ChatRequest, CompletionRequest, merged
from reward_serve.routing.dispatch import Dispatcher, NoAnswerError, UnknownModelError
from reward_serve.schema import MAX_TIMEOUT_S, Status, describe_errors, longest_timeout_s

logger = logging.getLogger("ray.serve")

Items = list[dict[str, Any]]

_OPENAI_CODES = {
    Status.INVALID: (400, "invalid_request_error"),
    Status.OVERLOADED: (503, "overloaded_error"),
    Status.TIMEOUT: (504, "timeout_error"),
}
"""The HTTP status code and OpenAI's error type for a failure's status."""

# Tokens with which chat templates end turns and pad; DeepSeek's have full-width bars.
_TOKEN = re.compile(
    r"<[|\uff5c][^<>|\uff5c\s]{1,40}[|\uff5c]>|</?s>|<bos>|<eos>|<pad>|<end_of_turn>"
)
_LONGEST_TOKEN = 44
_SHORTEST_OVERLAP = 32  # characters besides whitespace; fewer might agree by accident
_MOST_PLACES = 1_000
_PADDING, _CHARACTER = re.compile(rf"\A(?:\s*+(?:{_TOKEN.pattern}))++"), re.compile(r"\S")


@dataclass
class CompatRoutes:
    """The handlers of the routes; ``admit`` counts items for a caller's key during a request."""

    dispatcher: Dispatcher
    server: ServerConfig
    admit: Callable[[Request, int], None]

    def add_to(self, api: DocumentedApi) -> None:
        """Register the routes of the protocols that ``server.compatible_with`` lists."""
        if "openai" in self.server.compatible_with:
            api.add("/v1/chat/completions", self.chat_completions, dict[str, Any], ChatRequest)
            api.add("/v1/completions", self.completions, dict[str, Any], CompletionRequest)
            api.add("/inference/v1/generate", self.tokens, dict[str, Any], dict[str, Any])
        if "sglang" in self.server.compatible_with:
            api.add("/generate", self.generate, dict[str, Any], SglangRequest)
        if "openrlhf" in self.server.compatible_with:
            api.add("/get_reward", self.get_reward, dict[str, Any], dict[str, Any])
        if "slime" in self.server.compatible_with:
            api.add("/remote_rm", self.remote_rm, float, dict[str, Any])

    async def get_reward(self, request: Request) -> Response:
        """OpenRLHF's ``--remote_rm_url``: scores ``query``, ``prompts`` and ``labels``."""
        items = openrlhf_items(await read_json(request, self.server.max_body_bytes))
        numbers, results = await self._scored(request, items)
        # `rewards` are for the advantages, `scores` for dynamic filtering.
        absent = [float(result["score"] is None) for result in results]
        return reply({"rewards": numbers, "scores": numbers, "extra_logs": {"absent": absent}})

    async def remote_rm(self, request: Request) -> Response:
        """Slime's ``--rm-url``: scores a sample's ``prompt``, ``response`` and ``label``."""
        body = await read_json(request, self.server.max_body_bytes)
        (number,), _ = await self._scored(request, [slime_item(body)])
        return reply(number)

    async def _scored(
        self, request: Request, items: Items
    ) -> tuple[list[float | None], list[dict[str, Any]]]:
        """The rewards and their results."""
        self.admit(request, len(items))
        named = {"model", "template", "timeout_s"}
        fields: dict[str, Any] = {k: v for k, v in request.query_params.items() if k in named}
        if "timeout_s" in fields:
            fields["timeout_s"] = _seconds(fields["timeout_s"])
        self.dispatcher.pick(fields.get("model"))
        origin = None, request.state.key
        results = await self.dispatcher.score_batch([item | fields for item in items], origin)
        return rewards_of(results, self.server.absent_reward, fields.get("template")), results

    async def chat_completions(self, request: Request) -> Response:
        """OpenAI's chat completions, by a judge's model."""
        return await self._completed(request, lambda body: [body])

    async def completions(self, request: Request) -> Response:
        """OpenAI's text completions, by a teacher; each prompt of a list on its own."""
        return await self._completed(request, _each_prompt)

    async def tokens(self, request: Request) -> Response:
        """The ``token_ids`` and ``sampling_params``, by a teacher: what prime-rl sends."""
        return await self._completed(request, lambda body: [_from_tokens(body)], _as_tokens)

    async def _completed(
        self,
        request: Request,
        split: Callable[[Any], Items],
        shape: Callable[[dict[str, Any]], dict[str, Any]] = dict,
    ) -> Response:
        body = await read_json(request, self.server.max_body_bytes)
        if not isinstance(body, dict):
            return _problem("body: must be an object", 400, "invalid_request_error")
        try:
            model = self.dispatcher.pick(body.get("model"))
        except UnknownModelError as error:
            return _problem(str(error), 404, "invalid_request_error")
        parts, answers = split(body), body.get("n")
        self.admit(request, len(parts) * (answers if type(answers) is int and answers > 0 else 1))
        within_s = longest_timeout_s([body]) if "timeout_s" in body else CHAT_TIMEOUT_S
        origin = (uuid4().hex if len(parts) > 1 else None), request.state.key

        async def completion(part: dict[str, Any]) -> dict[str, Any]:
            try:
                return await self.dispatcher.complete(model, part, within_s, origin)
            except NoAnswerError as error:
                logger.warning("reward model %s: a prompt unanswered: %r", model, error.__cause__)
                return {"status": error.status, "reason": error.reason, "details": None}

        results = await gathered(map(completion, parts))
        if failed := [result for result in results if result["status"] != "ok"]:
            code, kind = _OPENAI_CODES.get(Status(failed[0]["status"]), (500, "server_error"))
            headers = retry_after(failed) if code == 503 else {}
            return _problem(failed[0]["reason"], code, kind, headers)
        whole = merged([result["completion"] for result in results], len(parts))
        whole |= {"model": body.get("model") or model}
        # An endpoint's text may have half of a character, which only escapes can carry.
        content = await off_loop(math.inf if len(parts) > 1 else 0, json.dumps, shape(whole))
        return Response(content, media_type="application/json")

    async def generate(self, request: Request) -> Response:
        """SGLang's log-probabilities of ``input_ids``, by the teacher of ``?model=``."""
        body = await read_json(request, self.server.max_body_bytes)
        try:
            asked = SglangRequest.model_validate(body)
        except ValidationError as error:
            raise HTTPException(422, describe_errors(error, SglangRequest)) from None
        self.admit(request, 1)
        query = request.query_params
        model, timeout_s = self.dispatcher.pick(query.get("model")), query.get("timeout_s")
        within_s = CHAT_TIMEOUT_S if timeout_s is None else _seconds(timeout_s)
        fields = asked.as_logprobs | {"model": model, "timeout_s": within_s}
        result = await self.dispatcher.logprobs(fields, (None, request.state.key))
        if result["status"] != "ok":
            code = Status(result["status"]).http_code
            raise HTTPException(
                code, result["reason"], retry_after([result]) if code == 503 else None
            )
        return reply(await off_loop(len(result["logprobs"]), asked.answer, result))


def _each_prompt(body: dict[str, Any]) -> Items:
    """A body for each prompt, or as it is where it has one."""
    prompt = body.get("prompt")
    if isinstance(prompt, list) and any(isinstance(part, str | list) for part in prompt):
        return [{**body, "prompt": part} for part in prompt]
    return [body]


def _from_tokens(body: dict[str, Any]) -> dict[str, Any]:
    """A completion's body, with the names of vLLM's tokens in, tokens out."""
    fields = dict(body)
    if not isinstance(ids := fields.pop("token_ids", None), list):
        raise HTTPException(400, "token_ids: must be a list of token ids")
    if isinstance(body.get("sampling_params"), dict):
        fields |= fields.pop("sampling_params")
    return {**fields, "prompt": ids, "return_token_ids": True}


def _as_tokens(completion: dict[str, Any]) -> dict[str, Any]:
    choices = completion["choices"]
    kept = ("index", "finish_reason", "token_ids")
    return {
        "request_id": completion["id"],
        **{name: completion[name] for name in ("model", "created", "usage")},
        "choices": [{name: choice[name] for name in kept} for choice in choices],
        "prompt_logprobs": choices[0]["prompt_logprobs"],
    }


class _SglangSampling(BaseModel, extra="ignore"):
    """Only what changes nothing: a teacher generates nothing, and has no temperature."""

    temperature: Literal[0, 1] = 0
    max_new_tokens: Literal[0, 1] = 0


class SglangRequest(BaseModel, extra="forbid"):
    """What trainers send to SGLang for the log-probabilities of a sequence."""

    input_ids: list[TokenId] = Field(min_length=2)
    return_logprob: Literal[True]
    logprob_start_len: int = Field(0, strict=True, ge=0)
    top_logprobs_num: int = Field(0, strict=True, ge=0, le=MAX_TOP_K)
    sampling_params: _SglangSampling = Field(default_factory=_SglangSampling)
    return_text_in_logprobs: Literal[False] = False
    stream: Literal[False] = False
    rid: str | None = None

    @property
    def as_logprobs(self) -> dict[str, Any]:
        """The request of ``/v1/logprobs``: SGLang's start is the last token without a value."""
        start, top_k = self.logprob_start_len + 1, self.top_logprobs_num
        return {"token_ids": self.input_ids, "start": start, "top_k": top_k}

    def answer(self, result: dict[str, Any]) -> dict[str, Any]:
        """A plain result in SGLang's form: triples of value, id and None, the first without."""
        values = as_json_values(result, "float")
        ids, usage = self.input_ids[self.logprob_start_len :], result["usage"]
        logprobs = [None, *values["logprobs"]]
        about = {
            "id": self.rid or result["id"],
            "finish_reason": {"type": "length", "length": 0},
            **usage,
            "input_token_logprobs": [[v, i, None] for v, i in zip(logprobs, ids, strict=True)],
            "output_token_logprobs": [],
        }
        if self.top_logprobs_num:
            rows = zip(values["top_logprobs"], values["top_ids"], strict=True)
            tops = [[[v, i, None] for v, i in zip(*row, strict=True)] for row in rows]
            about |= {"input_top_logprobs": [None, *tops], "output_top_logprobs": []}
        return {"text": "", "output_ids": [], "meta_info": about}


def openai_models(names: Iterable[str]) -> dict[str, Any]:
    """The models in OpenAI's format, for ``GET /v1/models``."""
    data = [
        {"id": name, "object": "model", "created": 0, "owned_by": "reward_serve"} for name in names
    ]
    return {"object": "list", "data": data}


def _problem(message: str, code: int, kind: str, headers: dict[str, str] | None = None) -> Response:
    """An error in OpenAI's format, with this service's ``detail``."""
    error = {"message": message, "type": kind, "param": None, "code": str(code)}
    return reply({"error": error, "detail": message}, code, headers)


def openrlhf_items(body: Any) -> Items:
    """A score request for each query; its response is the query without its prompt.

    Raises:
        HTTPException: 422, a field is invalid.
    """
    body = body if isinstance(body, dict) else {}
    queries, prompts = _texts(body, "query"), _texts(body, "prompts")
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


def slime_item(body: Any) -> dict[str, Any]:
    """The score request of a sample; a list as prompt is sent as messages.

    Raises:
        HTTPException: 422, a field is invalid.
    """
    if not isinstance(body, dict) or not isinstance(body.get("response"), str):
        raise HTTPException(422, "response: must be the sample's response as text")
    prompt = body.get("prompt")
    asked = {"messages": prompt} if isinstance(prompt, list) else {"question": prompt}
    response = _without_turn_end(body["response"])
    return {"response": response, **asked, **_reference("label", body.get("label"))}


def rewards_of(
    results: list[dict[str, Any]], absent: float | None, template: str | None = None
) -> list[float | None]:
    """The scores, with ``absent``, if it is not None, in place of missing ones.

    Raises:
        HTTPException: a score is missing and ``absent`` is None: 503 if a retry may bring one, else
            422. Also 422 if the template in the URL is invalid.
    """
    failed = [result for result in results if result["status"] != Status.OK]
    misnamed = [r for r in failed if template and "template: " in (r["reason"] or "")]
    passing = any(Status(result["status"]).is_passing for result in failed)
    if failed and (absent is None or misnamed):
        first = (misnamed or failed)[0]
        detail = (
            f"{len(failed)} of {len(results)} have no score, the first: {first['status']}: "
            f"{first['reason']}"
        )
        if misnamed or not passing:
            raise HTTPException(422, detail)
        raise HTTPException(503, detail, retry_after(failed))
    return [absent if result["score"] is None else result["score"] for result in results]


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
    text, query = _PADDING.sub("", prompt), _PADDING.sub("", query)
    if text and query.startswith(text):
        return _without_turn_end(query[len(text) :])
    if not (length := _overlap("".join(text.split()), "".join(query.split()))):
        raise HTTPException(
            422,
            f"prompts.{index}: query.{index} begins neither with it nor with its end; send the "
            "prompt as sampled",
        )
    last = next(islice(_CHARACTER.finditer(query), length - 1, None))
    return _without_turn_end(query[last.end() :])


def _overlap(prompt: str, query: str) -> int:
    """The length of the longest end of the prompt with which the query begins; 0 if too short."""
    if prompt and query.startswith(prompt):
        return len(prompt)
    head, place = query[:_SHORTEST_OVERLAP], -1
    for _ in range(_MOST_PLACES if len(head) == _SHORTEST_OVERLAP else 0):
        if (place := prompt.find(head, place + 1)) < 0:
            break
        if query.startswith(prompt[place:]):
            return len(prompt) - place
    return 0


def _without_turn_end(text: str) -> str:
    """The text without special tokens at its end, some of which trainers keep."""
    kept = end = len(text)
    while True:
        while end and text[end - 1].isspace():
            end -= 1
        tail = text[max(0, end - _LONGEST_TOKEN) : end]
        token = next((match for match in _TOKEN.finditer(tail) if match.end() == len(tail)), None)
        if token is None:
            return text[:kept]
        kept = end = end - len(token[0])


def _reference(field: str, label: Any) -> dict[str, Any]:
    if label is None or label != label or (isinstance(label, str) and not label.strip()):
        return {}  # None, NaN or blank
    several = label if isinstance(label, list) else [label]
    if any(isinstance(v, bool) or not isinstance(v, str | int | float) for v in several):
        raise HTTPException(422, f"{field}: must be text or a number, or a list of them")
    if any(isinstance(v, float) and not -(2**63) <= v < 2**64 for v in several):
        raise HTTPException(422, f"{field}: has a number of more than 64 bits; send it as text")
    return {"reference": list(map(str, label)) if isinstance(label, list) else str(label)}
