from dataclasses import replace
from typing import Any

from reward_serve_lab.logs.query import Filters, ask
from reward_serve_lab.logs.steps import MAX_STEPS, Step, by_step, runs, teacher_by_step
from reward_serve_lab.logs.table import VerdictTable
from tests.service.lab.ui.logs import append, of_teacher, verdict


def read(table: VerdictTable, *lines: dict[str, Any]) -> None:
    append(table.paths[0] / "verdicts-judge-1.jsonl", *lines)
    table.read_all()


def sample(
    group: str | None, score: float | None, source: str | None, **fields: Any
) -> dict[str, Any]:
    status = "ok" if score is not None else "timeout"
    keys = {"run": "grpo", "step": 3, "group": group, "score": score, "source": source}
    return verdict(1, **{**keys, "status": status, "response_characters": 10, **fields})


def audit(by_model: float, **fields: Any) -> dict[str, Any]:
    scores = {"status": "audit", "source": "rule", "by_rules": 1.0, "by_model": by_model}
    return verdict(1, **{"run": "grpo", "step": 3, "score": None, **scores, **fields})


def test_a_step_has_its_rewards_sources_groups_lengths_and_audits(table: VerdictTable) -> None:
    read(
        table,
        *(sample("mixed", score, "rule") for score in (0.0, 1.0)),
        *(sample("equal", 1.0, source) for source in ("judge", "cache")),
        *(sample("one decided", score, None) for score in (1.0, None)),
        *(sample("all absent", None, None) for _ in range(2)),
        sample("one of it in the log", 0.0, "remote", response_characters=100),
        *(audit(by_model) for by_model in (1.0, 0.9, 0.8, 0.2)),
        sample("mixed", 0.0, "rule", run="another", step=1),
        sample("mixed", 0.0, "rule", model="another", step=2),
        audit(0.0, run="another"),
    )
    (step,) = by_step(table, "grpo", "judge")
    reward, p90 = round(step.reward or 0, 3), round(step.p90_characters)
    assert replace(step, reward=reward, p90_characters=p90) == Step(
        number=3.0,
        verdicts=9,
        reward=0.667,
        decided={"rule": 2, "judge": 1, "cache": 1, "other": 2, "absent": 3},
        characters=20.0,
        p90_characters=28,
        groups=4,
        flat=0.75,
        audits=4,
        disagreed=0.25,
    )


def test_a_run_without_groups_audits_and_rewards_has_steps(table: VerdictTable) -> None:
    read(table, *(sample(None, None, None, run=None, step=n) for n in (10, 9, 9.5)))
    steps = by_step(table, None, "judge")
    assert [step.number for step in steps] == [9, 9.5, 10]
    first = steps[0]
    assert (first.reward, first.groups, first.flat, first.audits) == (None, None, None, None)


def test_runs_are_those_with_steps_newest_first(table: VerdictTable) -> None:
    read(
        table,
        sample("a", 1.0, "rule", run="old", time=1.0),
        sample("a", 1.0, "rule", run=None, time=2.0),
        sample("a", 1.0, "rule", run="new", time=3.0),
        sample("a", 1.0, "rule", run="new", time=2.5, model="other"),
        sample("a", 1.0, "rule", run="none", time=4.0, step=None),
    )
    assert runs(table) == [("new", "judge"), ("new", "other"), (None, "judge"), ("old", "judge")]


def test_of_a_long_run_the_newest_steps_are_listed(table: VerdictTable) -> None:
    read(table, *(sample("a", 1.0, "rule", step=step) for step in range(MAX_STEPS + 5)))
    steps = by_step(table, "grpo", "judge")
    assert (steps[0].number, steps[-1].number) == (5, MAX_STEPS + 4)


def test_a_steps_verdicts_and_a_signs_verdicts_are_found(table: VerdictTable) -> None:
    read(table, *(sample("a", 1.0, "rule", step=step) for step in (1, 2, 2)))
    read(table, sample("a", 1.0, "rule", step=2, model="other"))
    assert ask(table, Filters(run="grpo", model="judge", step=2), 0).total == 2
    ids = tuple(row.id for row in ask(table, Filters(step=2), 0).rows)[:2]
    assert {row.id for row in ask(table, Filters(ids=ids), 0).rows} == set(ids)


def test_a_teachers_sequences_are_summed_up_and_are_no_verdicts(table: VerdictTable) -> None:
    verdicts = [sample("a", score, "rule") for score in (0.0, 1.0)]
    read(table, *verdicts, audit(1.0))
    before = by_step(table, "grpo", "judge")
    read(
        table,
        *(of_teacher(1, tokens, mean) for tokens, mean in ((30, -0.5), (10, -1.5), (None, None))),
        of_teacher(2, None, None, step=4),
        of_teacher(3, 7, -2.0, run=None),
        of_teacher(4, 7, -2.0, model="other"),
    )
    assert by_step(table, "grpo", "judge") == before
    assert teacher_by_step(table, "grpo", "judge") == [(3, 3, 1, 40, -0.75), (4, 1, 1, 0, None)]
    assert teacher_by_step(table, None, "judge") == [(3, 1, 0, 7, -2.0)]
    assert ask(table, Filters(source="teacher", status="timeout"), 0).total == 2
    assert table.progress.unreadable == 0
