from __future__ import annotations

from random import Random

from loadtests.load.corpus import Rollouts
from loadtests.load.long_rows import LONGEST_CHARS, MEDIAN_CHARS, length, long_rows, rollout
from reward_serve_answers import verify_any


def test_lengths_are_log_normal_with_a_maximum() -> None:
    rng = Random(0)
    lengths = sorted(length(rng) for _ in range(4001))

    assert 0.95 < lengths[2000] / MEDIAN_CHARS < 1.05
    assert 0.02 < sum(each == LONGEST_CHARS for each in lengths) / 4001 < 0.06
    assert lengths[-1] == LONGEST_CHARS
    assert lengths[0] < MEDIAN_CHARS / 8


def test_a_rollout_has_its_length_within_a_step_and_ends_in_its_answer() -> None:
    for characters in (100, 5_000, LONGEST_CHARS):
        text = rollout(Random(1), 57, characters)
        assert characters - 100 < len(text) <= characters
        assert text.endswith("\n#### 57")


def test_a_rule_decides_every_sample_as_labelled() -> None:
    samples = Rollouts(long_rows(Random(0), 8, 4), Random(0), "bcd", 60.0).group(100)

    for sample in samples:
        verdict = verify_any(sample.body["response"], [sample.body["reference"]])
        assert verdict.outcome == ("right" if sample.correct else "wrong")
    assert 20 < sum(bool(sample.correct) for sample in samples) < 80


def test_the_same_seed_writes_the_same_rows() -> None:
    assert long_rows(Random(3), 2, 2) == long_rows(Random(3), 2, 2)
