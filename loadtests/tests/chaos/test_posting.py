from __future__ import annotations

import json
from itertools import islice

import pytest

from loadtests.chaos.load import Tally
from loadtests.chaos.posting import Poster
from loadtests.chaos.questions import Questions, marked
from loadtests.tests.load.rows import reply as result_of
from loadtests.tests.load.rows import sample
from reward_serve.schema import Status
from tests.fake_service import FakeService, Reply


async def test_singles_and_batches_return_results_and_count_codes() -> None:
    questions = list(islice(Questions(marked, "run", 5.0), 20))
    with FakeService() as service:
        async with Poster(service.url) as poster:
            tally = Tally()
            await tally.send("batch", poster.batch, questions)
            await tally.send("single", poster.single, questions[:1])
            (refused,) = await poster.single([{"id": "no response"}])
    assert (tally.asked, tally.count("right")) == (21, 21)
    assert refused.status is Status.INVALID
    assert poster.codes == {200: 2, 422: 1}


async def test_results_of_a_stream_are_in_request_order() -> None:
    samples = [sample(number) for number in range(3)]
    lines = [{"index": n, **result_of(samples[n])} for n in (2, 0, 1)]
    with FakeService() as service:
        body = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        service.replies["/v1/score/batch"] = Reply(body)
        async with Poster(service.url) as poster:
            results = await poster.streamed([each.body for each in samples])
    assert [each.id for each in results] == ["id-0", "id-1", "id-2"]


async def test_a_reply_without_results_raises_and_counts_its_code() -> None:
    with FakeService() as service:
        service.replies["/v1/score/batch"] = Reply({"detail": "gone"}, 500)
        async with Poster(service.url) as poster:
            with pytest.raises((KeyError, ValueError)):
                await poster.batch([sample().body])
            with pytest.raises((KeyError, ValueError)):
                await poster.streamed([sample().body])
            assert await poster.code([sample().body]) == 500
    assert poster.codes == {500: 3}
