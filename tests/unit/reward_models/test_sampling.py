from __future__ import annotations

from reward_serve.reward_models.audit import chosen, request_hash
from reward_serve.schema import ScoreRequest


def test_equal_questions_share_a_hash_as_data_and_as_requests() -> None:
    asked = {"response": "18", "reference": ["18", "19"], "id": "a", "timeout_s": 3.0}

    assert request_hash(asked) == request_hash(ScoreRequest.model_validate(asked))
    assert request_hash(asked) == request_hash({**asked, "id": "b"})
    for other in ({"response": "19"}, {"reference": "18"}, {"question": "?"}, {"template": "x"}):
        assert request_hash(asked) != request_hash({**asked, **other})


def test_a_long_response_is_hashed_by_its_end_and_length() -> None:
    text = "x" * 3_000_000
    assert request_hash({"response": text}) != request_hash({"response": text + "x"})
    assert request_hash({"response": text + "18"}) != request_hash({"response": text + "19"})


def test_any_request_has_a_hash() -> None:
    odd: tuple[object, ...] = (
        None,
        [1],
        "text",
        {},
        {"response": "\ud800"},
        {"response": [10**5000]},
    )
    hashes = {request_hash(each) for each in odd}
    assert all(len(one) == 16 for one in hashes)


def test_a_sample_has_its_share() -> None:
    numbers = [request_hash({"response": str(n)}) for n in range(5000)]

    assert 0.08 < sum(chosen(one, 0.1) for one in numbers) / 5000 < 0.12
    assert not any(chosen(one, 0.0) for one in numbers)
    assert all(chosen(one, 1.0) for one in numbers)
