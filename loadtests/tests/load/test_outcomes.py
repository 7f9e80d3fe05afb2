from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loadtests.load.checking import Checked, check
from loadtests.load.corpus import Body, Sample
from loadtests.load.outcomes import AskBatch, Outcomes, tolerated
from loadtests.tests.load.rows import reply, sample
from reward_serve.schema import ScoreResult, Status


def loaded(replies: dict[int, dict[str, Any]], **settings: Any) -> tuple[Outcomes, list[Sample]]:
    """Outcomes of one reply for each number, a second apart."""
    outcomes, samples = Outcomes(**settings), [sample(number) for number in replies]
    outcomes.ask(samples, 0.0)
    for at, (asked, changed) in enumerate(zip(samples, replies.values(), strict=True), 1):
        outcomes.record(
            asked, check(asked, reply(asked, **changed)), 100.0 * at, float(at), "/v1/score"
        )
    return outcomes, samples


def without_load(**results: Any) -> AskBatch:
    def ask(bodies: Sequence[Body]) -> list[ScoreResult | None]:
        assert all(body["options"] == {"cache": False} for body in bodies)
        return [ScoreResult(status=Status.OK, **{"score": 1.0, **results}) for _ in bodies]

    return ask


def no_failure(entry: str, why: str) -> None:
    raise AssertionError(f"{entry}: {why}")


def test_answers_that_agree_with_those_without_load_are_right() -> None:
    outcomes, _ = loaded({1: {}, 2: {}, 3: {}, 4: {}})
    outcomes.close()
    outcomes.compare_without_load(without_load(), no_failure)
    summary = outcomes.summary()

    assert (summary["asked"], summary["right"], outcomes.failures(0.0)) == (4, 4, [])
    assert (summary["p50_ms"], summary["answers_per_s"]) == (250.0, 1.0)
    assert (summary["sources"], summary["agreement_with_labels"]) == ({"judge": 4}, 1.0)


def test_an_answer_that_differs_from_the_one_without_load_is_wrong() -> None:
    outcomes, _ = loaded({1: {}, 2: {"score": 0.0}})
    found: list[tuple[str, str]] = []
    outcomes.compare_without_load(without_load(), lambda entry, why: found.append((entry, why)))

    assert (outcomes.right, outcomes.wrong) == (1, 1)
    assert found == [("/v1/score", "wrong: score 0 under load, 1 without load")]
    assert outcomes.failures(1.0) == ["1 wrong"]


def test_a_wrong_label_does_not_fail_the_run() -> None:
    outcomes, _ = loaded({1: {"score": 0.0}})
    outcomes.compare_without_load(without_load(score=0.0), no_failure)

    assert outcomes.failures(0.0) == []
    assert outcomes.summary()["agreement_with_labels"] == 0.0


def test_answers_within_the_margin_are_not_compared() -> None:
    outcomes, _ = loaded({1: {"score": 0.0}})
    outcomes.compare_without_load(without_load(probabilities={"1": 0.51, "0": 0.49}), no_failure)

    assert (outcomes.too_close, outcomes.right, outcomes.failures(0.0)) == (1, 0, [])


def test_each_input_is_sent_once_without_load() -> None:
    outcomes, asked = Outcomes(), sample(1)
    outcomes.ask([asked] * 3, 0.0)
    for _ in range(3):
        outcomes.record(asked, check(asked, reply(asked)), 1.0, 1.0, "/v1/score")
    bodies: list[Body] = []

    def ask(some: Sequence[Body]) -> Sequence[ScoreResult | None]:
        bodies.extend(some)
        return without_load()(some)

    outcomes.compare_without_load(ask, no_failure)
    assert (len(bodies), outcomes.right) == (1, 3)


def test_an_answer_that_cannot_be_checked_fails_the_run() -> None:
    outcomes, _ = loaded({1: {}})
    attempts: list[int] = []

    def silent(bodies: Sequence[Body]) -> list[ScoreResult | None]:
        attempts.append(len(bodies))
        return [None] * len(bodies)

    outcomes.compare_without_load(silent, no_failure)
    assert len(attempts) > 1
    assert outcomes.failures(1.0) == ["1 answers could not be checked"]


def test_a_sample_without_a_reply_at_the_end_is_lost() -> None:
    outcomes, samples = loaded({1: {}})
    outcomes.ask(samples * 2, 1.0)
    outcomes.close()

    assert outcomes.lost == 2
    assert outcomes.summary()["reasons"] == {"lost: no answer when the run ended": 2}
    assert "2 lost" in outcomes.failures(1.0)


def test_more_absent_scores_than_allowed_fail_the_run() -> None:
    shed = {"status": "overloaded", "score": None}
    outcomes, _ = loaded({1: {}, 2: {}, 3: {}, 4: shed})
    outcomes.close()

    assert outcomes.summary()["absent"] == {"overloaded": 1}
    assert outcomes.failures(0.0) == ["1 absent, 25.0% of all requests"]
    assert outcomes.failures(0.25) == []
    assert (outcomes.wrong, outcomes.lost) == (0, 0)


def test_a_spike_tolerates_shed_load_and_nothing_else() -> None:
    shed, failed = ({"status": status, "score": None} for status in ("overloaded", "timeout"))

    assert tolerated("steady") == tolerated("grpo_burst") == frozenset()
    assert loaded({1: {}, 2: shed}, tolerated=tolerated("spike"))[0].failures(0.0) == []
    assert loaded({1: {}, 2: failed}, tolerated=tolerated("spike"))[0].failures(0.0) != []


def test_a_run_without_requests_fails() -> None:
    assert Outcomes().failures(1.0) == ["no request was sent"]
    assert Outcomes().summary()["answers_per_s"] is None


def test_a_lost_reply_has_no_latency() -> None:
    outcomes, asked = Outcomes(), sample()
    outcomes.ask([asked], 0.0)
    outcomes.record(asked, Checked("lost", "late"), 1.0, 1.0, "/v1/score")
    outcomes.close()

    assert (outcomes.lost, outcomes.summary()["p50_ms"]) == (1, None)
