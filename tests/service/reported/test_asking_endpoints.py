"""What was reported of asking an endpoint: replies without a verdict, and its rate."""

import asyncio
import time
from typing import Any

import httpx
import pytest
from openai import AsyncOpenAI

from loadtests.endpoints import endpoint, reset
from reward_serve.config.models import RubricModel
from reward_serve.engines.base import Prompt, Sampling, TextOutput
from reward_serve.engines.openai import OpenAIEngine, Window
from reward_serve.replica.admission import Admission
from reward_serve.replica.scoring import Scorer
from reward_serve.reward_models.rubric import RubricJudge
from tests.service.engines.test_openai import ASKED, Endpoint, completion, remote
from tests.unit.reward_models.test_judge import FakeEngine, judge, request
from tests.virtual_time import in_virtual_time

SILENT = completion("There is no way to tell.")
RIGHT = completion("They agree.\nVERDICT: 1")


@pytest.mark.parametrize(
    ("reply", "lacks"),
    [
        (SILENT, "does not match"),
        (completion(""), "no text"),
        (completion(None), "no text"),
        (completion("VERDICT: 1", finish_reason="content_filter"), "content_filter"),
    ],
)
async def test_a_reply_without_a_verdict_is_asked_for_once_more(reply: Any, lacks: str) -> None:
    endpoint = Endpoint(reply, RIGHT)
    result = await endpoint.scorer(mode="generate").score(ASKED)
    assert (result["score"], result["details"]["attempts"]) == (1.0, 2)
    assert lacks in result["details"]["first_reply"]
    first, second = endpoint.asked
    assert (first["seed"], first["temperature"]) == (0, 0.0)
    assert (second["seed"], second["temperature"]) == (1, 0.7)
    assert first["messages"] == second["messages"]


async def test_attempts_end() -> None:
    for settings, calls in (({}, 2), ({"attempts": 1}, 1), ({"attempts": 3}, 3)):
        endpoint = Endpoint(SILENT)
        result = await endpoint.scorer(mode="generate", **settings).score(ASKED)
        assert (result["status"], len(endpoint.asked)) == ("unparseable", calls)
        assert (result["details"] or {}).get("attempts", 1) == calls
        assert result["usage"]["completion_tokens"] == calls


async def test_a_late_reply_leaves_no_time_for_another() -> None:
    def late(_: Any) -> Any:
        time.sleep(0.6)
        return SILENT

    endpoint = Endpoint(late)
    result = await endpoint.scorer(mode="generate").score({**ASKED, "timeout_s": 1.0})
    assert (result["status"], len(endpoint.asked)) == ("unparseable", 1)


@pytest.mark.parametrize(
    ("mode", "reply"),
    [
        ("label", completion(logprobs={"Sure": -0.1})),
        ("generate", completion("VERDICT: 1", finish_reason="length")),
    ],
)
async def test_labels_and_a_text_that_was_cut_off_are_asked_for_once(mode: str, reply: Any) -> None:
    endpoint = Endpoint(reply)
    assert (await endpoint.scorer(mode=mode).score(ASKED))["score"] is None
    assert len(endpoint.asked) == 1


async def test_an_engine_of_our_own_is_asked_again_only_if_it_samples() -> None:
    for settings, seeds in (
        ({"attempts": 3}, [0]),
        ({"attempts": 3, "temperature": 0.5}, [0, 1, 2]),
        ({"temperature": 0.5}, [0]),
    ):
        engine = FakeEngine(text=lambda _: ("There is no way to tell.", False))
        await judge(engine, mode="generate", **settings).score(request())
        assert [sampling.sample for sampling in engine.settings] == seeds


async def test_a_rubric_keeps_the_fuller_of_two_replies() -> None:
    criteria = [{"name": name, "text": f"Is it {name}?"} for name in "ab"]
    config = {"name": "rubric", "kind": "rubric", "remote": {"model": "m"}}
    config["rubric"] = {"rubrics": {"own": criteria}, "default": "own", "min_answered": 0.5}
    half, both = completion('{"a": "yes"}'), completion('{"a": "yes", "b": "no"}')
    for replies, answered in (((half, both), 2), ((half, SILENT), 1), ((SILENT, half), 1)):
        endpoint = Endpoint(*replies)
        judge = RubricJudge(RubricModel.model_validate(config), endpoint.engine())
        result = await Scorer("rubric", judge, Admission(8, 8)).score(
            {"response": "r", "question": "q"}
        )
        assert result["score"] is not None, result["reason"]
        assert (result["details"]["criteria_answered"], len(endpoint.asked)) == (answered, 2)
        assert result["details"]["attempts"] == 2


class Busy:
    """A stand-in for an endpoint, and for ``openai``, which retries after a second.

    Args:
        at_once: requests that it works on at once.
        refuses: whether it answers 429 to others, or lets them wait.
        reply_s: how long it works on each.
    """

    def __init__(self, at_once: int, refuses: bool, reply_s: float = 1.0) -> None:
        self._reply_s = reply_s
        self._free, self._refuses = asyncio.Semaphore(at_once), refuses
        self.calls = self.refused = 0
        self.away_until = 0.0
        self.most: list[int] = []

    async def _status(self) -> int:
        self.calls += 1
        if time.monotonic() < self.away_until or (self._refuses and self._free.locked()):
            self.refused += 1
            return 429
        async with self._free:
            await asyncio.sleep(self._reply_s)
        return 200

    async def seconds(self, items: int, most: int = 256) -> float:
        """The time in which a replica has these verdicts."""
        window, began = Window(most), time.monotonic()
        admission = Admission(most, items, window)

        async def item() -> None:
            async with admission.place():
                window.calls += 1
                self.most.append(window.calls)
                status = 0
                while status != 200:
                    request = httpx.Request("POST", "http://endpoint")
                    await window.asked(request)
                    status = await self._status()
                    await window.replied(httpx.Response(status, request=request))
                    await asyncio.sleep(status == 429)
                window.calls -= 1

        await asyncio.gather(*(item() for _ in range(items)))
        return time.monotonic() - began


@pytest.mark.parametrize(("most", "seconds"), [(256, 21), (40, 103)])
@in_virtual_time
async def test_an_endpoint_is_asked_what_it_takes_in_the_setting(most: int, seconds: int) -> None:
    busy = Busy(10**6, refuses=True)
    assert await busy.seconds(4096, most) <= seconds  # 32 at once take 128
    assert max(busy.most) == most


@pytest.mark.parametrize("reply_s", [1.0, 0.05])
@in_virtual_time
async def test_an_endpoint_that_refuses_is_asked_little_more_than_it_takes(reply_s: float) -> None:
    busy = Busy(16, refuses=True, reply_s=reply_s)
    assert await busy.seconds(4096) < 1.4 * 4096 / 16 * reply_s
    assert busy.refused < 0.1 * busy.calls


@in_virtual_time
async def test_an_endpoint_that_slows_is_not_asked_for_more() -> None:
    busy = Busy(64, refuses=False)
    assert await busy.seconds(8192) < 1.1 * 8192 / 64
    assert max(busy.most[1024:]) < 3 * 64


@in_virtual_time
async def test_an_endpoint_that_refused_everything_is_soon_asked_what_it_takes() -> None:
    busy = Busy(10**6, refuses=True, reply_s=0.05)
    busy.away_until = time.monotonic() + 10
    assert await busy.seconds(1024) < 10 + 1


async def test_refusals_of_single_calls_are_not_for_their_number() -> None:
    window = Window(256)
    for status, times in ((429, 32 + 8 + 8 + 5), (200, 3 + 4 * 8)):
        for _ in range(times):
            window.calls = int(window.size)
            await window.asked(request := httpx.Request("POST", "http://endpoint"))
            await window.replied(httpx.Response(status, request=request))
    assert window.size == 16


async def test_the_window_learns_from_a_real_endpoints_refusals() -> None:
    with endpoint() as url:
        reset(url, at_once=12)
        engine = OpenAIEngine(remote(base_url=f"{url}/v1", api_key_env=None, max_retries=0))
        calls = [engine.generate(Prompt(()), Sampling(8)) for _ in range(32)]
        outputs = await asyncio.gather(*calls, return_exceptions=True)
        await engine._client.close()
    answered = sum(isinstance(output, TextOutput) for output in outputs)
    assert answered < 32 and engine.window.calls == 0
    assert engine.window.size == pytest.approx(answered)


async def test_replicas_share_a_minutes_tokens_and_a_reply_counts_what_replies_took() -> None:
    model = remote(tokens_per_minute=4000, api_key_env=None)
    model.autoscaling.max_replicas = 4
    answers = Endpoint(RIGHT)
    http: Any = httpx.AsyncClient(transport=httpx.MockTransport(answers))
    engine = OpenAIEngine(model, AsyncOpenAI(api_key="none", http_client=http))

    async def ask(times: int) -> None:
        for _ in range(times):
            await engine.generate(Prompt(()), Sampling(800))  # each takes one token

    await asyncio.wait_for(ask(100), 10)  # of 1,000 tokens
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(ask(200), 1)
