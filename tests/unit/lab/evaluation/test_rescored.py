import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest

from reward_serve.schema import ScoreResult, Status, failure
from reward_serve_lab.evaluation.rescored import (
    RescoredFile,
    RescoreError,
    Rollout,
    compare,
    read_rollouts,
    sampled,
)
from tests.rows import rows
from tests.unit.lab.fakes import judged, written

RESPONSE = {"response": "#### 18", "reference": "18"}
LOGGED = {
    "time": 1.8e9, "request": "00ff", "model": "judge", "run": "r", "step": 3, "sample": "7/0",
    "group": "train/7", "response_characters": 7, "score": 1.0, "status": "ok", "source": "judge",
    "fingerprint": "old", "response_tail": "#### 18", "reference": "18", "question": None,
}  # fmt: skip
ASKED = {"role": "user", "content": "9 + 9?"}
SAID = {"role": "assistant", "content": "#### 18"}
HOSTILE = ["{", "[]", "null", "7", '{"response": ', '{"score": NaN}', "[" * 5000, "1" * 5000]


def read(folder: Path, *lines: Any, score: str | None = None) -> list[Rollout]:
    return read_rollouts(written(folder, *lines), score)[0]


@pytest.mark.parametrize(
    ("line", "request_", "score"),
    [
        ({**RESPONSE, "question": "9 + 9?", "score": 1}, {**RESPONSE, "question": "9 + 9?"}, 1),
        (LOGGED, RESPONSE, 1),
        (
            {"input": "9 + 9?", "output": "#### 18", "gts": "18", "score": 0.0, "step": 3},
            {**RESPONSE, "question": "9 + 9?"},
            0,
        ),
        (
            {
                "input_prompt": "9 + 9?", "output_response": "#### 18", "score": [0.0, 0.0, 1.0],
                "env_extras": {"reward_spec": {"method": "rule", "ground_truth": ["18", "18.0"]}},
            },
            {"question": "9 + 9?", "response": "#### 18", "reference": ["18", "18.0"]},
            1,
        ),
        (
            {"step": 3, "prompt": "9 + 9?", "completion": "#### 18", "reward": 0.5},
            {"question": "9 + 9?", "response": "#### 18"},
            0.5,
        ),
        ({"messages": [ASKED, SAID], "tools": []}, {"messages": [ASKED, SAID], "tools": []}, None),
    ],
    ids=["ours", "log", "verl", "SkyRL", "TRL", "messages"],
)  # fmt: skip
def test_a_row_is_read_by_the_names_of_who_wrote_it(
    tmp_path: Path, line: dict[str, Any], request_: dict[str, Any], score: float | None
) -> None:
    (rollout,) = read(tmp_path, line)
    assert (rollout.request, rollout.score) == (request_, score)


def test_trls_conversations_are_one_conversation(tmp_path: Path) -> None:
    line = {"prompt": [{**ASKED, "tool_calls": None}], "completion": [SAID], "judge": 0.0}
    (rollout,) = read(tmp_path, line, score="judge")
    assert rollout.request["messages"] == [{**ASKED, "tool_calls": None}, SAID]
    assert rollout.score == 0.0


def test_a_row_that_an_adapter_filled_is_absent(tmp_path: Path) -> None:
    """verl's dumps have the metrics of our adapter: a fallback is no verdict."""
    lines = [{**RESPONSE, "score": 0.0, name: 1.0} for name in ("fallback", "undecided")]
    rollouts = read(tmp_path, *lines, {**RESPONSE, "score": 0.0, "fallback": 0.0})
    assert [rollout.score for rollout in rollouts] == [None, None, 0.0]
    assert rollouts[0].line["before"]["status"] == "absent"


def test_of_a_log_verdicts_are_read_and_cut_responses_marked(tmp_path: Path) -> None:
    cut = {**LOGGED, "response_characters": 900}
    gone = {**LOGGED, "score": None, "status": "cancelled", "fingerprint": None}
    others = [{**LOGGED, "status": "audit"}, {**LOGGED, "source": "teacher", "tokens": 3}]
    rollouts = read(tmp_path, LOGGED, LOGGED, cut, *others, gone)
    assert [rollout.is_cut for rollout in rollouts] == [False, False, True, False]
    assert rollouts[1].key == f"{rollouts[0].key}-2"
    assert len({rollout.key for rollout in rollouts}) == 4
    names = ("time", "run", "step", "sample", "group", "request", "model")
    assert rollouts[0].line == {
        "key": rollouts[0].key,
        **{name: LOGGED[name] for name in names},
        "before": {"score": 1.0, "status": "ok", "fingerprint": "old"},
    }
    assert rollouts[3].line["before"]["status"] == "cancelled"


def test_a_redacted_log_is_refused_with_the_remedy(tmp_path: Path) -> None:
    redacted = {name: LOGGED[name] for name in ("status", "score", "response_characters")}
    with pytest.raises(RescoreError, match=r"redacted .* give the trainer's own rollouts"):
        read(tmp_path, redacted)


@pytest.mark.parametrize("line", [*HOSTILE, '{"response": 1e999, "score": "\\ud800"}'])
def test_a_hostile_line_is_a_fault_or_for_the_service_to_refuse(tmp_path: Path, line: str) -> None:
    rollouts, faults = read_rollouts(written(tmp_path, RESPONSE, line))
    assert len(rollouts) + len(faults) == 2
    assert all(f"{tmp_path}/lines.jsonl:2: " in fault for fault in faults)
    if line in HOSTILE:
        with pytest.raises(RescoreError, match=r"no rows with a response; .*:1: "):
            read(tmp_path, line)


def test_wrong_types_raise_nothing_else(tmp_path: Path) -> None:
    for name in (*LOGGED, "messages", "tools", "env_extras", "prompt", "completion", "gts"):
        for value in (None, True, -7, 10**400, 1.5, "text", [], [[1]], ["\ud800"], {}, {"a": 1}):
            line = {**LOGGED, "response_tail": "#### 18", name: value}
            if (name, value) == ("response_tail", None):
                continue  # as in a redacted log
            rollouts, faults = read_rollouts(written(tmp_path, RESPONSE, line))
            assert len(rollouts) + len(faults) == 2
            compare(rollouts, {})


def test_a_folder_of_a_log_or_of_dumps_is_read_and_not_its_results(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    for name in ("1.jsonl", "2.jsonl", "rescored-x.jsonl"):
        (tmp_path / name).write_text(json.dumps({**RESPONSE, "step": 1}) + "\n", encoding="utf-8")
    sql = "select 2 as step, 'x' as prompt, [{'role': 'assistant', 'content': 'y'}] as completion"
    sql += ", 'nan'::double as score, '18' as ground_truth"
    duckdb.execute(f"copy ({sql}) to '{tmp_path}/3.parquet'")
    rollouts, faults = read_rollouts(tmp_path)
    assert [rollout.line["step"] for rollout in rollouts] == [1, 1, 2]
    assert (rollouts[2].score, rollouts[2].request["reference"], faults) == (None, "18", [])
    (tmp_path / "verdicts-judge-1.jsonl.1").write_text(json.dumps(LOGGED), encoding="utf-8")
    assert [rollout.line["request"] for rollout in read_rollouts(tmp_path)[0]] == ["00ff"]


def test_a_sample_has_whole_groups_and_is_the_same_in_another_order(tmp_path: Path) -> None:
    lines = [{**RESPONSE, "group": f"g{n % 50}", "sample": n} for n in range(400)]
    rollouts = read(tmp_path, *lines)
    some = sampled(rollouts, 60)
    assert 60 <= len(some) < 68
    groups = {rollout.group for rollout in some}
    assert len(some) == sum(rollout.group in groups for rollout in rollouts)
    assert {*map(_key, sampled(rollouts[::-1], 60))} == {*map(_key, some)}
    assert {*map(_key, some)} <= {*map(_key, sampled(rollouts, 0.25))}
    assert (len(sampled(rollouts, 9e9)), sampled([], 3)) == (400, [])


def _key(rollout: Rollout) -> str:
    return rollout.key


def results(*scores: float | None) -> list[ScoreResult]:
    cut = failure(Status.TRUNCATED, "no verdict")
    return [cut if score is None else judged(score, fingerprint="new") for score in scores]


@pytest.fixture
def rollouts(tmp_path: Path) -> list[Rollout]:
    return read(tmp_path, *({**LOGGED, "sample": str(n)} for n in range(4)))


def test_answers_are_kept_and_a_cut_line_is_not(tmp_path: Path, rollouts: list[Rollout]) -> None:
    path = tmp_path / "out.jsonl"
    lost = [failure(Status.TIMEOUT, "late"), failure(Status.INVALID, "question: send it")]
    with path.open("a+b") as file:
        RescoredFile(file, "judge@1", rollouts).append(rollouts, [*results(0.9, None), *lost])
    whole = path.read_bytes()
    path.write_bytes(whole + whole[: len(whole) // 3])
    with path.open("a+b") as file:
        again = RescoredFile(file, "judge@1", rollouts)
    assert [*again.lines] == [rollouts[0].key, rollouts[1].key]
    assert path.read_bytes() == whole
    first, cut = map(json.loads, whole.splitlines())
    assert first == {
        **rollouts[0].line, "status": "ok", "score": 1.0, "source": "judge", "reason": None,
        "fingerprint": "new", "by": "judge@1",
    }  # fmt: skip
    assert (cut["status"], cut["score"]) == ("truncated", None)


def test_a_file_of_another_kind_judge_or_input_is_refused_and_left_as_it_is(
    tmp_path: Path, rollouts: list[Rollout]
) -> None:
    path = tmp_path / "out.jsonl"
    with path.open("a+b") as file, path.open("a+b") as second:
        RescoredFile(file, "judge@1", rollouts).append(rollouts[:2], results(0.9, 0.1))
        with pytest.raises(RescoreError, match=r"out.jsonl: another process is writing it"):
            RescoredFile(second, "judge@1", rollouts)
    before = path.read_bytes()
    for by, some, why in (
        ("judge@2", rollouts, "scores are by judge@1, and this judge is judge@2; give another"),
        ("judge@1", rollouts[1:], "1 of its rows are not in the input; give another --out"),
    ):
        with path.open("a+b") as file, pytest.raises(RescoreError, match=why):
            RescoredFile(file, by, some)
    assert path.read_bytes() == before
    log = written(tmp_path, LOGGED)
    with (
        log.open("a+b") as file,
        pytest.raises(RescoreError, match=r"line 1: key: .*; give another"),
    ):
        RescoredFile(file, "judge@1", rollouts)
    assert json.loads(log.read_bytes()) == LOGGED


def compared(folder: Path, before: Sequence[Any], after: Sequence[Any]) -> dict[str, Any]:
    """The figures of groups' scores, each a row of both tables; `...` is not scored again."""
    lines = [
        {**LOGGED, "group": f"g{place}", "sample": number, "score": score}
        for place, group in enumerate(before)
        for number, score in enumerate(group)
    ]
    rollouts = read(folder, *lines)
    again = [score for group in after for score in group]
    asked = [(rollout, new) for rollout, new in zip(rollouts, again, strict=True) if new is not ...]
    with TemporaryFile() as out:
        file = RescoredFile(out, "judge@1", rollouts)
        file.append([rollout for rollout, _ in asked], results(*(new for _, new in asked)))
        return compare(rollouts, file.lines)


def test_verdicts_are_compared_by_agreement_and_mcnemars_exact_test(tmp_path: Path) -> None:
    before = [1.0] * 20 + [0.0] * 10 + [None] * 3
    after = [0.9] * 18 + [0.1] * 2 + [0.9] * 9 + [None] + [0.9, 0.1, None]
    figures = compared(tmp_path, [before], [after])
    assert (figures["n"], figures["both_decided"], figures["agreement"]) == (33, 29, 18 / 29)
    low, high = figures["agreement_interval"]
    assert (round(low, 3), round(high, 3)) == (0.440, 0.773)
    assert figures["mcnemar_p"] == pytest.approx(2 * (1 + 11 + 55) / 2**11)
    assert figures["moves"] == {
        "right to right": 18, "right to wrong": 2, "right to absent": 0,
        "wrong to right": 9, "wrong to wrong": 0, "wrong to absent": 1,
        "absent to right": 1, "absent to wrong": 1, "absent to absent": 1,
    }  # fmt: skip
    kinds = {kind: len(samples) for kind, samples in figures["samples"].items()}
    assert kinds == {kind: n for kind, n in figures["moves"].items() if n and kind in kinds}
    flip = figures["samples"]["right to wrong"][0]
    columns = ("name", "before", "after", "response")
    expected = ("run r, step 3, sample 18, group g0", 1.0, 0.0, "#### 18")
    assert tuple(flip[name] for name in columns) == expected
    assert figures["fingerprints"] == {"before": {"old": 33}, "after": {"new": 31, "unknown": 2}}


def test_judges_that_agree_throughout_have_no_difference_to_test(tmp_path: Path) -> None:
    figures = compared(tmp_path, [[1.0, 0.0]], [[0.9, 0.1]])
    assert (figures["agreement"], figures["mcnemar_p"], figures["samples"]) == (1.0, 1.0, {})
    assert compared(tmp_path, [[None]], [[0.9]])["agreement"] is None


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [*rows(__file__, "gradients"), ([1.0, None], [..., 0.1], {"gain_gradient": 1, "mixed": 1})],
)
def test_what_becomes_of_a_groups_gradient(
    tmp_path: Path, before: list[Any], after: list[Any], expected: dict[str, int]
) -> None:
    figures = compared(tmp_path, [before, [1.0]], [after, [0.1]])["groups"]
    none = dict.fromkeys(("mixed", "lose_gradient", "gain_gradient", "signs"), 0)
    assert figures == {**none, "n": 1, "rows": len(before), **expected}


def test_without_a_group_samples_of_one_prompt_and_step_are_one(tmp_path: Path) -> None:
    dumped = [
        {"input": prompt, "output": str(n), "score": n, "step": step}
        for step in (1, 2)
        for prompt in ("a", "b")
        for n in range(3)
    ]
    groups = {rollout.group for rollout in read(tmp_path, *dumped)}
    assert len(groups) == 4 and None not in groups
    assert read(tmp_path, RESPONSE)[0].group is None
