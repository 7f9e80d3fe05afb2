from __future__ import annotations

from dataclasses import replace

from examples.grpo.faults import inject
from examples.grpo.samples import Group, Sample
from examples.grpo.settings import Settings

ABSENT = Settings(failing=0.2)


def groups() -> list[Group]:
    return [
        Group(problem, "", 1, [], 0, [Sample([], [], "", n, 1.0, 1.0) for n in range(8)])
        for problem in range(200)
    ]


def failed(settings: Settings) -> list[tuple[int, int]]:
    made = groups()
    count = inject(made, settings, 3)
    found = [(g.problem, s.seed) for g in made for s in g.samples if s.reward != 1.0]
    assert len(found) == count
    return found


def test_one_verdict_in_five_fails_and_the_same_ones_either_way() -> None:
    assert 250 < len(failed(ABSENT)) < 390
    assert failed(ABSENT) == failed(replace(ABSENT, failed_as="zero"))


def test_a_failure_is_absent_or_zero_and_the_verdict_is_kept() -> None:
    for settings, reward in ((ABSENT, None), (replace(ABSENT, failed_as="zero"), 0.0)):
        made = groups()
        inject(made, settings, 3)
        samples = [sample for group in made for sample in group.samples]

        assert {sample.reward for sample in samples} == {1.0, reward}
        assert {sample.verdict for sample in samples} == {1.0}


def test_nothing_fails_where_nothing_is_to_fail() -> None:
    assert failed(Settings()) == []
