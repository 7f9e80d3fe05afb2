"""An OpenAI-compatible endpoint as an ``Engine``."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any

from reward_serve.config.engine import RemoteConfig
from reward_serve.engines.base import (
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

_CHARACTERS_PER_TOKEN = 3
_REASONING = re.compile(r"(?:.*/)?(?:gpt-5|o[134])(?![a-z0-9]|-chat)")
_QUOTED = re.compile(r"""['"`](\w+)['"`]""")
_FINAL = ("stop", "eos_token", "stop_sequence")  # the latter two are TGI's
_LINK = re.compile(r"https?://([A-Za-z0-9.-]+)(?::\d+)?(?:[/?#][^\\\s]*)?")
_NO_KEY = "none"
_DROPPABLE = frozenset(["temperature", "top_p", "seed"])


class OpenAIEngine(FrozenModel):
    """A client of a chat-completions endpoint; an unreachable one may recover, so it is never dead.

    Args:
        config: the ``remote`` section of the deployments file.
        client: the endpoint's client; by default created from the configuration.

    Raises:
        RemoteKeyError: the API key was not found.
    """

    def __init__(self, config: RemoteConfig, client: AsyncOpenAI | None = None) -> None:
        from aiolimiter import AsyncLimiter
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient

        self.tokenizer = None
        self.max_model_len = config.max_model_len
        self._config = config
        self._client = client or AsyncOpenAI(
            api_key=remote_key(config),
            base_url=config.base_url,
            max_retries=config.max_retries,
            timeout=config.timeout_s,
            http_client=DefaultAsyncHttpxClient(follow_redirects=False),  # into our network
        )
        reasoning = _REASONING.match(config.model) is not None
        self._limit = "max_completion_tokens" if reasoning else "max_tokens"
        self._dropped = {"temperature", "top_p", "seed"} if reasoning else set[str]()
        limits = (config.requests_per_minute, config.tokens_per_minute)
        self._requests, self._tokens = (AsyncLimiter(n, 60) if n else None for n in limits)

    def describe(self) -> dict[str, str]:
        """Model and endpoint, for fingerprints; the endpoint does not report its weights."""
        url = self._client.base_url
        return {
            "weights": self._config.model,
            "endpoint": f"{url.scheme}://{url.netloc.decode()}{url.path}",
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
        found = dict.fromkeys(labels, 0.0)
        try:
            for token in choice["logprobs"]["content"][0]["top_logprobs"]:
                if (label := token["token"].strip()) in found:  # "1" and " 1" are one label
                    found[label] += math.exp(min(token["logprob"], 0.0))
        except (AttributeError, LookupError, TypeError):
            raise EngineError(
                f"remote.model: {self._config.model} returns no logprobs; set judge.mode: generate"
            ) from None
        logs = {label: math.log(p) if p else -math.inf for label, p in found.items()}
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

        messages: Any = prompt.messages
        key = self._client.api_key
        self._check_images(messages)
        if self._requests:
            await self._requests.acquire()
        if self._tokens:
            shown = (turn.get("content") or "" for turn in messages)
            texts = (each if isinstance(each, str) else each[0]["text"] for each in shown)
            asked = sum(map(len, texts)) // _CHARACTERS_PER_TOKEN  # and images are not counted
            await self._tokens.acquire(min(asked + max_tokens, self._tokens.max_rate))
        while True:
            sent = {name: value for name, value in settings.items() if name not in self._dropped}
            sent[limit := self._limit] = max_tokens
            try:
                given = await self._client.chat.completions.with_raw_response.create(
                    model=self._config.model,
                    messages=messages,
                    extra_body={**sent, **self._config.extra_body},
                )
            except openai.BadRequestError as error:
                if not self._learns(error, sent if learns else {}, limit):
                    raise RefusedError(f"the endpoint: {_quoted(error, key)}") from None
            except openai.RateLimitError as error:
                pause = error.response.headers.get("retry-after", "")  # seconds, or a date
                raise OverloadedError(
                    f"the endpoint's rate limit: {_quoted(error, key)}",
                    float(pause) if pause.isdecimal() else 1.0,
                ) from None
            except openai.OpenAIError as error:
                raise EngineError(f"the endpoint: {_quoted(error, key)}") from error
            else:
                text = _without(key, given.http_response.text)
                with suppress(ValueError, RecursionError):
                    reply: dict[str, Any] = json.loads(text)
                    if isinstance(_at(reply, "choices", 0), dict):
                        return reply
                said = _quoted(text)
                raise EngineError(
                    f"the endpoint's reply has no choices: {said}; check remote.base_url"
                )

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

    def _learns(self, error: openai.BadRequestError, sent: dict[str, Any], limit: str) -> bool:
        """Whether the endpoint refuses a parameter that later calls can do without."""
        quoted = _QUOTED.search(error.message)  # not every endpoint fills in `param`
        name = error.param or (quoted[1] if quoted else "")
        if name == limit == "max_tokens":
            self._limit = "max_completion_tokens"
        elif name in _DROPPABLE and name in sent:
            self._dropped.add(name)
        else:
            return False
        return True


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
        return _NO_KEY  # the endpoint needs no key, but the SDK does
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
    said = _at(choice, "message", "refusal") or choice.get("error")
    return f": {_quoted(said)}" if said else ""


def _quoted(said: object, key: str = _NO_KEY) -> str:
    return _without(key, ascii(said))[:300]  # which may be long, and is printed by logs


def _without(key: str, text: str) -> str:
    return text if key == _NO_KEY else text.replace(key, "[API key]")


def _usage(reply: dict[str, Any]) -> Usage:
    used = _at(reply, "usage")
    counts = {
        "prompt_tokens": _at(used, "prompt_tokens"),
        "cached_tokens": _at(used, "prompt_tokens_details", "cached_tokens"),
        "completion_tokens": _at(used, "completion_tokens"),
    }
    return Usage(**{name: n for name, n in counts.items() if isinstance(n, int)})
