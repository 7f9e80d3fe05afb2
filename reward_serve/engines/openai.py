"""An OpenAI-compatible endpoint as an ``Engine``."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain
from statistics import median
from typing import TYPE_CHECKING, Any

from reward_serve.config.engine import RemoteConfig
from reward_serve.config.models import JudgeModel
from reward_serve.engines.base import (
    EndpointDownError,
    EngineError,
    FrozenModel,
    LabelOutput,
    OverloadedError,
    Prompt,
    RefusedError,
    Sampling,
    TextOutput,
    UnusableReplyError,
)
from reward_serve.keys import read_key
from reward_serve.schema import Usage

if TYPE_CHECKING:
    import openai
    from openai import AsyncOpenAI

logger = logging.getLogger("ray.serve")

_CHARACTERS_PER_TOKEN = 3
_CONNECT_S = 5.0
_PROBE_S = 10.0
_PROBE_EVERY_S = 2.0
_REFUSED = {
    401: "set the variable or file of its key to a key that it accepts, and deploy again",
    403: "use a key that may ask for this model, and deploy again",
    404: "set remote.model to a model that it has, and remote.base_url to end before /chat",
}
_REASONING = re.compile(r"(?:.*/)?(?:gpt-5|o[134])(?![a-z0-9]|-chat)")
_NAMED = re.compile(r"""(?:['"`]|supplied: )(\w+)""")
_FINAL = ("stop", "eos_token", "stop_sequence")  # the latter two are TGI's
_LINK = re.compile(r"https?://([A-Za-z0-9.-]+)(?::\d+)?(?:[/?#][^\\\s]*)?")
_DROPPABLE = frozenset(["temperature", "top_p", "seed", "reasoning_effort"])
_FIRST_CALLS, _LEAST_ROUND, _MOST_REFUSED = 32, 8, 0.1


class Window:
    """How many calls an endpoint takes at once, learnt from its replies as TCP does (RFC 5681).

    It doubles with each round of replies until a tenth of a round is refused (429) or the endpoint
    slows, to a median of twice the fastest round's. Then it shrinks, to what was not refused or to
    what the endpoint answers at its fastest (at least 32), and grows by one a round. If a
    whole round is refused, or calls made one at a time are, the number of calls was not the cause,
    and it goes on doubling. No maintained package does this.
    """

    def __init__(self, most: int) -> None:
        self.size = float(min(most, _FIRST_CALLS))
        self.calls = 0  # in progress
        self._most, self._doubles = most, True
        self._round = list[float]()  # seconds of each reply, inf for a refusal
        self._fastest_s, self._shrunk_at = math.inf, -math.inf

    async def asked(self, request: Any) -> None:
        """A hook for the HTTP client."""
        request.extensions["began"] = time.monotonic()

    async def replied(self, response: Any) -> None:
        """A hook for the HTTP client."""
        began, is_refusal = response.request.extensions["began"], response.status_code == 429
        if began < self._shrunk_at or not (is_refusal or response.is_success):
            return
        self._round.append(math.inf if is_refusal else time.monotonic() - began)
        if len(self._round) < max(_LEAST_ROUND, self.size):
            return
        refused, median_s = self._round.count(math.inf) / len(self._round), median(self._round)
        self._round.clear()
        if refused > _MOST_REFUSED:
            kept = max(0.25, 1 - refused)
        elif 2 * self.calls <= self.size:  # there was nothing more to ask
            return
        elif self.size <= _FIRST_CALLS or median_s <= 2 * self._fastest_s:
            self._fastest_s = min(median_s, self._fastest_s)
            self.size = min(self._most, 2 * self.size if self._doubles else self.size + 1)
            return
        else:
            kept = max(self._fastest_s / median_s, _FIRST_CALLS / self.size)
            self._fastest_s = median_s / 2  # if the questions are longer, it shrinks only once
        self._doubles = self._doubles and (refused == 1.0 or self.size == 1.0)
        self.size = max(1.0, kept * self.size)
        self._shrunk_at = time.monotonic()


class OpenAIEngine(FrozenModel):
    """A client of a chat-completions endpoint; one that is down may recover, so it is never dead.

    The endpoint is down when a call fails that no change of the request would save, and then a
    request for one token does too. While it is down, calls fail at once, and it is asked for a
    token every two seconds until it replies, or refuses only that request.

    Args:
        model: its ``remote`` section, the bound of its calls at once, and the number of replicas
            that share its limits.
        client: the endpoint's client; by default created from the configuration.

    Raises:
        RemoteKeyError: the API key was not found.
    """

    def __init__(self, model: JudgeModel, client: AsyncOpenAI | None = None) -> None:
        from aiolimiter import AsyncLimiter
        from openai import AsyncOpenAI, Timeout

        config, replicas = model.remote, model.autoscaling.max_replicas
        assert config is not None
        self.tokenizer = None
        self.max_model_len = config.max_model_len
        self.window = Window(model.max_concurrent_items or 1)
        hooks: Any = {"request": [self.window.asked], "response": [self.window.replied]}
        self._config = config
        self._client = client or AsyncOpenAI(
            api_key=remote_key(config),
            base_url=config.base_url,
            max_retries=config.max_retries,
            timeout=Timeout(config.timeout_s, connect=min(_CONNECT_S, config.timeout_s)),
            http_client=_http_client(hooks),
        )
        url, key = self._client.base_url, config.api_key_file or config.api_key_env or "none"
        self._url = f"{url.scheme}://{url.netloc.decode()}{url.path}"
        self._name = f"the endpoint {self._url} (model {config.model}, key {key})"
        self._replied = self._is_refusal = False
        self._down_since, self._code = 0.0, 0
        self._probing: asyncio.Task[None] | None = None
        reasoning = _REASONING.match(config.model) is not None
        self._limit = "max_completion_tokens" if reasoning else "max_tokens"
        refused = ("temperature", "top_p", "seed") if reasoning else ()
        self._dropped = {*config.extra_body, *refused}  # extra_body has its own
        self._defaults = {"reasoning_effort": "low"} if reasoning else {}
        limits = (config.requests_per_minute, config.tokens_per_minute)
        self._requests, self._tokens = (
            AsyncLimiter(max(1.0, n / replicas), 60) if n else None for n in limits
        )
        self._longest = 0.0  # tokens of the longest reply of late, and half as many again

    def describe(self) -> dict[str, str]:
        """Model and endpoint, for fingerprints; the endpoint does not report its weights."""
        return {
            "weights": self._config.model,
            "endpoint": self._url,
            "engine": "openai-chat-completions",
        }

    async def label_logprobs(self, prompt: Prompt, labels: Sequence[str]) -> LabelOutput:
        """The log-probability of each label among the endpoint's likeliest next tokens."""
        reply = await self._ask(
            prompt, max_tokens=1, temperature=0.0,
            logprobs=True, top_logprobs=self._config.top_logprobs,
        )  # fmt: skip
        choice = reply["choices"][0]
        _is_cut_off(choice)
        chances = dict.fromkeys(labels, 0.0)
        try:
            for token in choice["logprobs"]["content"][0]["top_logprobs"]:
                if (label := token["token"].strip()) in chances:  # "1" and " 1" are one label
                    chances[label] += math.exp(min(token["logprob"], 0.0))
        except (AttributeError, LookupError, TypeError):
            raise EngineError(
                f"remote.model: {self._config.model} returns no logprobs; set judge.mode: generate"
            ) from None
        logs = {label: math.log(p) if p else -math.inf for label, p in chances.items()}
        return LabelOutput(logs, _usage(reply))

    async def generate(self, prompt: Prompt, sampling: Sampling) -> TextOutput:
        """Generated text; the endpoint controls whether the model thinks."""
        reply = await self._ask(
            prompt,
            max_tokens=sampling.max_tokens,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            seed=sampling.sample,
        )
        choice = reply["choices"][0]
        cut_off, text = _is_cut_off(choice), _text(choice)
        if not cut_off and not text.strip():
            raise UnusableReplyError(f"the endpoint's reply has no text{_why(choice)}")
        return TextOutput(text, cut_off, _usage(reply))

    async def chat(self, body: Mapping[str, Any], max_tokens: int) -> dict[str, Any]:
        """The endpoint's answer, with its own model in place of the request's."""
        settings = {name: value for name, value in body.items() if name != "messages"}
        prompt = Prompt(body["messages"])
        # What is refused may be this caller's value, and scores are asked for with ours.
        return await self._ask(prompt, max_tokens=max_tokens, learns=False, **settings)

    async def _ask(
        self, prompt: Prompt, *, max_tokens: int, learns: bool = True, **settings: Any
    ) -> dict[str, Any]:
        """The endpoint's reply as plain JSON; its first choice is an object."""
        import openai

        messages, key = prompt.messages, self._client.api_key
        self._check_images(messages)
        self._check()
        most, settings = max_tokens, {**self._defaults, **settings}
        if self._tokens:  # which the limit counts against, as OpenAI's do, however short the reply
            most = min(most, math.ceil(self._longest) or most)
        while True:
            await self._reserve(messages, most)
            sent = {name: value for name, value in settings.items() if name not in self._dropped}
            sent[limit := self._limit] = most
            self.window.calls += 1
            try:
                given = await self._create(self._client, messages, sent)
            except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
                if not self._learns(error, sent if learns else {}, limit):
                    raise RefusedError(f"{self._name}: {_quoted(error, key)}") from None
            except openai.RateLimitError as error:
                pause = error.response.headers.get("retry-after", "")  # seconds, or a date
                raise OverloadedError(
                    f"the endpoint's rate limit: {_quoted(error, key)}",
                    float(pause) if pause.isdecimal() else 1.0,
                ) from None
            except openai.OpenAIError as error:
                await self._suspected(error)
                refused = getattr(error, "status_code", 0) in _REFUSED  # this request alone
                kind = RefusedError if refused else EngineError
                raise kind(f"{self._name}: {_quoted(error, key)}") from error
            else:
                self._replied = True
                text = given.http_response.text
                with suppress(ValueError, RecursionError):
                    reply: dict[str, Any] = json.loads(text)
                    if key in (plain := json.dumps(reply, ensure_ascii=False)):
                        reply = json.loads(_without(key, plain))  # which may have been escaped
                    if isinstance(choice := _at(reply, "choices", 0), dict):
                        if max_tokens > 1:
                            written = _usage(reply).completion_tokens
                            self._longest = max(1.5 * written, 0.99 * self._longest)
                        if choice.get("finish_reason") != "length" or most == max_tokens:
                            return reply
                        most = max_tokens
                        continue
                why = f"its reply has no choices: {_quoted(text, key)}; check remote.base_url"
                raise EngineError(f"{self._name}: {why}")
            finally:
                self.window.calls -= 1

    async def _reserve(self, messages: Sequence[Mapping[str, Any]], most: int) -> None:
        """Wait until the minute's requests and tokens suffice."""
        if self._requests:
            await self._requests.acquire()
        if self._tokens:
            contents = (turn.get("content") or "" for turn in messages)
            texts = (c if isinstance(c, str) else c[0]["text"] for c in contents)
            asked = sum(map(len, texts)) // _CHARACTERS_PER_TOKEN  # and images are not counted
            await self._tokens.acquire(min(asked + most, self._tokens.max_rate))

    async def _create(self, client: AsyncOpenAI, messages: Any, body: dict[str, Any]) -> Any:
        return await client.chat.completions.with_raw_response.create(
            model=self._config.model,
            messages=messages,
            extra_body={**body, **self._config.extra_body},
        )

    def _check(self) -> None:
        if self.outage is not None:
            down_s = time.monotonic() - self._down_since
            raise EndpointDownError(self.outage, down_s, self._is_refusal)

    async def _suspected(self, fault: openai.OpenAIError) -> None:
        """After a failed call; raises EndpointDownError if the failure is the endpoint's."""
        if self.outage is None and _is_down(fault):
            if self._probing is None or self._probing.done():
                self._probing = asyncio.create_task(self._probe())
            await asyncio.shield(self._probing)
        self._check()

    async def _probe(self, after_s: float = 0.0) -> None:
        import openai

        await asyncio.sleep(after_s)
        client = self._client.with_options(max_retries=0, timeout=_PROBE_S)
        try:
            await self._create(client, [{"role": "user", "content": "1"}], {self._limit: 1})
        except openai.OpenAIError as fault:
            if _is_down(fault):
                self._went_down(fault)
                self._probing = asyncio.create_task(self._probe(_PROBE_EVERY_S))
                return
        if self.outage is not None:
            self.outage, down_s = None, time.monotonic() - self._down_since
            logger.warning("%s answers again, after %.0f s", self._name, down_s)

    def _went_down(self, fault: openai.OpenAIError) -> None:
        code = getattr(fault, "status_code", 0)
        if self.outage is None:
            self._down_since = time.monotonic()
        if self.outage is None or code != self._code:  # the text may differ each time
            remedy = _REFUSED.get(code, "start it, or correct remote.base_url")
            quoted = _quoted(str(fault.__cause__ or fault), self._client.api_key)
            self.outage = f"{self._name}: {quoted}; {remedy}"
            self._code, self._is_refusal = code, code in _REFUSED and not self._replied
            logger.warning("%s; probing every %g s", self.outage, _PROBE_EVERY_S)

    def _check_images(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Refuse to make the endpoint fetch an address of the caller's choice."""
        parts = chain(*(t["content"] for t in messages if isinstance(t.get("content"), list)))
        for url in (str(p["image_url"].get("url")) for p in parts if p["type"] == "image_url"):
            linked = _LINK.fullmatch(url)
            host = linked and linked[1].lower()
            if host not in self._config.image_hosts and not url.startswith("data:"):
                raise RefusedError(
                    "messages: image_url: is no data: URL, and its host is not in "
                    "remote.image_hosts; send the image as a data: URL"
                )

    def _learns(self, error: openai.APIStatusError, sent: dict[str, Any], limit: str) -> bool:
        """Whether the endpoint refuses a parameter that later calls can do without."""
        named = (name for name in _NAMED.findall(error.response.text) if name in sent)
        name = error.param or next(named, "")  # not every endpoint fills in `param`
        if name == limit == "max_tokens":
            self._limit = "max_completion_tokens"
        elif name in _DROPPABLE and name in sent:
            if name not in self._dropped:
                logger.warning("%s refuses %s, which is sent no more", self._name, name)
            self._dropped.add(name)
        else:
            return False
        return True


def _http_client(hooks: Any) -> openai.DefaultAioHttpClient:
    """The SDK's, which does not try again for a quarter of a minute to connect."""
    import openai

    class Client(openai.DefaultAioHttpClient):  # httpx's pool is slow
        async def send(self, request: Any, **settings: Any) -> Any:
            try:
                return await super().send(request, **settings)
            except Exception as error:  # of httpx, or in newer SDKs of httpx2
                if type(error).__name__ not in ("ConnectError", "ConnectTimeout"):
                    raise
                raise openai.APIConnectionError(request=request) from error

    return Client(event_hooks=hooks, follow_redirects=False)  # which could lead into our network


def _is_down(fault: openai.OpenAIError) -> bool:
    """Whether the endpoint gives others no reply either; one that takes long may be busy."""
    code = getattr(fault, "status_code", 0)
    return code in _REFUSED or code >= 500 or type(fault).__name__ == "APIConnectionError"


class RemoteKeyError(RuntimeError):
    """The endpoint's API key is not in the configured place."""


def remote_key(config: RemoteConfig) -> str:
    """The endpoint's API key, from the environment or the file that ``config`` names.

    Raises:
        RemoteKeyError: the key is missing; the message names the field and the remedy.
    """
    if config.api_key_file is not None:
        try:
            return read_key(config.api_key_file, config.api_key_env or "OPENAI_API_KEY")
        except ValueError as error:
            raise RemoteKeyError(
                f"remote.api_key_file: {error}; it must be on every node that may run a replica"
            ) from None
    if config.api_key_env is None:
        return "none"  # the endpoint needs no key, but the SDK does
    key = os.environ.get(config.api_key_env, "")
    if not key:
        raise RemoteKeyError(
            f"remote.api_key_env: {config.api_key_env} is not set; set it where "
            "`reward-serve serve` or `ray start` runs, set remote.api_key_file, or set null if the "
            "endpoint needs no key"
        )
    return key


def _at(value: Any, *path: str | int) -> Any:
    """What stands at a path in JSON; None where nothing does."""
    for step in path:
        try:
            value = value[step]
        except (TypeError, LookupError):
            return None
    return value


def _is_cut_off(choice: dict[str, Any]) -> bool:
    """Whether the reply reached its token limit; raises if neither that nor the model ended it."""
    ended = choice.get("finish_reason")
    if ended != "length" and ended not in _FINAL:
        raise UnusableReplyError(
            f"the endpoint ended its reply with finish_reason: {ascii(ended)[:64]}, which is no "
            f"verdict{_why(choice)}"
        )
    return bool(ended == "length")


def _text(choice: dict[str, Any]) -> str:
    """The message's text; that of parts other than text, such as thinking, is left out."""
    content = _at(choice, "message", "content")
    parts = content if isinstance(content, list) else [content]
    texts = (_at(p, "text") if _at(p, "type") in ("text", "output_text") else p for p in parts)
    # JSON may escape half of a character, which this service's own replies cannot carry.
    return "".join(t for t in texts if isinstance(t, str)).encode("utf-8", "replace").decode()


def _why(choice: dict[str, Any]) -> str:
    """What the endpoint says of a reply without a verdict."""
    reason = _at(choice, "message", "refusal") or choice.get("error")
    return f": {_quoted(reason)}" if reason else ""


def _quoted(text: object, key: str = "") -> str:
    return _without(key, ascii(text))[:300]  # which may be long, and is printed by logs


def _without(key: str, text: str) -> str:
    return text if len(key) < 8 else text.replace(key, "[API key]")  # a short one is a word


def _usage(reply: dict[str, Any]) -> Usage:
    used = _at(reply, "usage")
    counts = {
        "prompt_tokens": _at(used, "prompt_tokens"),
        "cached_tokens": _at(used, "prompt_tokens_details", "cached_tokens"),
        "completion_tokens": _at(used, "completion_tokens"),
    }
    return Usage(**{name: n for name, n in counts.items() if isinstance(n, int)})
