import threading
from pathlib import Path

import pytest

from examples.grpo.endpoint import Endpoint, EndpointError
from examples.grpo.policy import Policy
from examples.grpo.samples import Group, Sample
from examples.tests.grpo.fake_endpoint import FakeEndpoint
from tests.fake_service import free_port


def test_an_endpoint_that_answers_nothing_is_gone_before_its_client_gives_up() -> None:
    endpoint = Endpoint(f"http://127.0.0.1:{free_port()}", gone_after_s=0.3, poll_s=0.1)

    with pytest.raises(EndpointError, match="no answer for"):
        Policy(endpoint, "fake")
    ended = Endpoint(endpoint.url, ended=lambda: True, poll_s=0.05)
    with pytest.raises(EndpointError, match="engine ended"):
        ended.wait(lambda: threading.Event().wait(20))


def test_a_slow_endpoint_is_waited_for_up_to_a_limit(tmp_path: Path) -> None:
    never = threading.Event()
    with FakeEndpoint(tmp_path) as fake:
        endpoint = Endpoint(fake.url, gone_after_s=0.2, limit_s=1.0, poll_s=0.05)

        assert endpoint.wait(lambda: never.wait(0.5)) is False
        with pytest.raises(ZeroDivisionError):
            endpoint.wait(lambda: 1 / 0)
        with pytest.raises(EndpointError, match="took more than 1 s"):
            endpoint.wait(lambda: never.wait(20))


def test_a_policy_goes_on_from_its_state_at_another_endpoint(tmp_path: Path) -> None:
    group = Group(0, "", 1, [1, 2], 0, [Sample([3], [-1.0], "", 0)], [1.0])
    with FakeEndpoint(tmp_path) as fake:
        policy = Policy(Endpoint(fake.url), "fake")
        assert policy.train([group], 1e-4) == {"skyrl.ai/grad_norm": 1.0}
        state = policy.save_state("step-1")

    with FakeEndpoint(tmp_path) as fake:
        policy = Policy(Endpoint(fake.url), "fake", state)
        policy.train([group], 1e-4)
        policy.save_state("step-2")
        policy.delete(state)
        policy.delete(state)  # one that is gone is no error

    assert [file.read_text() for file in tmp_path.rglob("*.tar.gz")] == ["2"]
