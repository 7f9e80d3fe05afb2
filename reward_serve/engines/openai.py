"""An OpenAI-compatible endpoint as an ``Engine``."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
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
_FINAL = frozenset(["stop", "eos_token", "stop_sequence"])  # the latter two are TGI's
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
        from openai import AsyncOpenAI

        self.tokenizer = None
        self.max_model_len = config.max_model_len
        self._config = config
        self._client = client or AsyncOpenAI(
            api_key=remote_key(config),
            base_url=config.base_url,
            max_retries=config.max_retries,
            timeout=config.timeout_s,
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
        _is_cut_off(reply)
        logprobs = reply.choices[0].logprobs
        if logprobs is None or not logprobs.content:
            raise EngineError(
                f"remote.model: {self._config.model} returns no logprobs; set judge.mode: generate"
            )
        found = dict.fromkeys(labels, 0.0)
        for token in logprobs.content[0].top_logprobs:
            label = token.token.strip()
            if label in found:  # "1" and " 1" are one label
                found[label] += math.exp(token.logprob)
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
        # JSON may escape half of a character, which this service's own replies cannot carry.
        text = (reply.choices[0].message.content or "").encode("utf-8", "replace").decode()
        return TextOutput(text, _is_cut_off(reply), _usage(reply))

    async def chat(self, body: Mapping[str, Any], max_tokens: int) -> dict[str, Any]:
        """The endpoint's answer, with its own model in place of the request's."""
        settings = {name: value for name, value in body.items() if name != "messages"}
        prompt = Prompt(body["messages"])
        # What is refused may be this caller's value, and scores are asked for with ours.
        reply = await self._ask(prompt, max_tokens=max_tokens, learns=False, **settings)
        answer: dict[str, Any] = reply.model_dump(mode="json")
        return answer

    async def _ask(
        self, prompt: Prompt, *, max_tokens: int, learns: bool = True, **settings: Any
    ) -> Any:
        import openai

        messages: Any = prompt.messages
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
                reply = await self._client.chat.completions.create(
                    model=self._config.model,
                    messages=messages,
                    extra_body={**sent, **self._config.extra_body},
                )
            except openai.BadRequestError as error:
                if not self._learns(error, sent if learns else {}, limit):
                    raise RefusedError(f"the endpoint: {_shortened(error)}") from None
            except openai.RateLimitError as error:
                pause = error.response.headers.get("retry-after", "")  # seconds, or a date
                raise OverloadedError(
                    f"the endpoint's rate limit: {_shortened(error)}",
                    float(pause) if pause.isdecimal() else 1.0,
                ) from None
            except (openai.OpenAIError, ValueError) as error:  # a reply that is not JSON
                raise EngineError(f"the endpoint: {_shortened(error)}") from error
            else:
                if not getattr(reply, "choices", None):  # the SDK returns a web page as text
                    raise EngineError("the endpoint's reply has no choices; check remote.base_url")
                return reply

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
        return "none"  # the endpoint needs no key, but the SDK does
    key = os.environ.get(config.api_key_env, "")
    if not key:
        raise RemoteKeyError(
            f"remote.api_key_env: {config.api_key_env} is not set; set it where "
            "`reward-serve serve` or `ray start` runs, set remote.api_key_file, or set null if the "
            "endpoint needs no key"
        )
    return key


def _is_cut_off(reply: Any) -> bool:
    """Whether the reply reached its token limit.

    Raises:
        UnusableReplyError: it ended for another reason than the limit or the model's own end.
    """
    ended = reply.choices[0].finish_reason
    if ended != "length" and ended not in _FINAL:
        raise UnusableReplyError(
            f"the endpoint ended its reply with finish_reason: {ascii(ended)[:64]}, which is no "
            "verdict"
        )
    return bool(ended == "length")


def _shortened(error: Exception) -> str:
    """The text of an SDK error, which may include a long response body."""
    return f"{type(error).__name__}: {ascii(str(error))[1:-1][:300]}"


def _usage(reply: Any) -> Usage:
    used = reply.usage
    if used is None:
        return Usage()
    details = getattr(used, "prompt_tokens_details", None)
    return Usage(
        prompt_tokens=used.prompt_tokens or 0,
        cached_tokens=getattr(details, "cached_tokens", None) or 0,
        completion_tokens=used.completion_tokens or 0,
    )
