from pathlib import Path
from typing import Any

import pytest

from examples.grpo import rollout
from examples.grpo.data_server import DataServer, read_data
from examples.grpo.endpoint import Endpoint
from examples.grpo.policy import Policy
from examples.grpo.rollout import RolloutWorker
from examples.grpo.samples import Group, Sample
from examples.tests.grpo.fake_endpoint import FakeEndpoint
from tests.fake_service import FakeService


class Letters:
    """A tokenizer of bytes."""

    eos_token_id = 2

    def apply_chat_template(self, conversation: Any, **_: Any) -> list[int]:
        return list(conversation[-1]["content"].encode())

    def decode(self, tokens: list[int], **_: Any) -> str:
        return "".join(chr(token) for token in tokens)


@pytest.fixture(autouse=True)
def no_tokenizer(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = type("Fake", (), {"from_pretrained": staticmethod(lambda _: Letters())})
    monkeypatch.setattr(rollout, "AutoTokenizer", fake)


def test_a_judge_that_is_gone_leaves_samples_undecided() -> None:
    with FakeService() as service:
        judge = {"app": None, "url": service.url, "timeout_s": 1.0}
        worker = RolloutWorker("http://127.0.0.1:1", "any", "judge", judge)
        assert rewards(worker) == [1.0, 0.0]
    assert rewards(worker) == [None, None]


def rewards(worker: RolloutWorker) -> list[float | None]:
    texts = ("#### 24", "#### 25")
    group = Group(0, "What?", 24, [1], 0, [Sample([1], [0.0], text, 0) for text in texts])
    return [sample.reward for group in worker.judge([group], 0) for sample in group.samples]


def test_samples_come_in_groups_in_order(tmp_path: Path) -> None:
    with FakeEndpoint(tmp_path) as fake:
        weights = Policy(Endpoint(fake.url), "fake").save_for_sampler("step-0")
        worker = RolloutWorker(fake.url, "any", "rule")
        items = DataServer(0, read_data("")).batch(0, 2)

        sampled = worker.sample(items, weights, 0, [0, 4], 4, 40)

    assert [group.problem for group in sampled] == [index for index, _ in items]
    assert [[sample.seed for sample in group.samples] for group in sampled] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
    ]
    assert all(len(s.tokens) == len(s.logprobs) > 0 for g in sampled for s in g.samples)
