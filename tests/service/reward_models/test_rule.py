"""Rules by every verifier, with their child processes."""

import asyncio
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from reward_serve.config.base import ConfigError
from reward_serve.config.models import RuleModel, VerifierName
from reward_serve.replica.deployment import RewardReplica
from reward_serve.reward_models.base import InvalidRequestError, Trace
from reward_serve.reward_models.rule import RuleRewardModel
from reward_serve.schema import ScoreRequest, Status
from tests.rows import rows
from tests.sandboxed import needs_sandbox

Rule = Callable[..., RuleRewardModel]
OWN = "tests.own_functions"


@pytest.fixture(scope="module")
def rule() -> Iterator[Rule]:
    """Makes the model of a verifier, or of a pattern or a function; once each."""
    made: dict[str, RuleRewardModel] = {}

    def model(verifier: str = "gsm8k", **settings: Any) -> RuleRewardModel:
        key = f"{verifier} {settings}"
        if key not in made:
            config = {"name": "r", "kind": "rule", "rule": {"verifier": verifier, **settings}}
            made[key] = RuleRewardModel(RuleModel.model_validate(config))
        return made[key]

    yield model
    for loaded in made.values():
        loaded.close()


CALL = '{"name": "add", "arguments": {"a": 1}}'
PATTERN = {"regex": r"A: (\S+)|B: (\S+)"}
NO_COMMA = '{"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]}'
# Verifier, response, reference, score, rule, the words of the response that were compared.
TABLE: list[tuple[str, str, Any, float | None, str, str | None]] = [
    ("gsm8k", "9 * 2 = 18\n#### 18\n", "#### 18", 1.0, "marker_matches", "18"),
    ("gsm8k", "The answer is 17.", "18", 0.0, "marker_differs", "17"),
    ("gsm8k", " \n", "18", 0.0, "empty_response", None),
    ("gsm8k", "#### 18", ["17", "18"], 1.0, "marker_matches", "18"),
    ("gsm8k", "#### 17", ["19", "18"], 0.0, "marker_differs", "17"),
    ("gsm8k", "She makes 18", ["17", "18"], None, "no_marker", None),
    ("gsm8k", "#### 17 to 18", "18", None, "marker_not_understood", "17 to 18"),
    ("gsm8k", "It is Paris", "Paris", None, "reference_not_numeric", None),
    ("gsm8k_strict", "#### 18", "18", 1.0, "marker_matches", "18"),
    ("gsm8k_strict", "The answer is 18.", "18", 0.0, "no_strict_marker", None),
    ("gsm8k_strict_first", "#### 17\n#### 18", "18", 0.0, "marker_differs", "#### 17"),
    ("gsm8k_strict_last", "x" * 400 + "#### 19 and #### 18", "18", 1.0, "", "#### 18"),
    ("numeric", "It is 18.", "18", 1.0, "", "18."),
    ("numeric", "none", "18", 0.0, "", None),
    ("exact", "<think>hm</think>18", "18", 1.0, "", "18"),
    ("exact", "17", "18", 0.0, "", "17"),
    ("choice", "(B)", "B", 1.0, "", "(B)"),
    ("choice", "A", "B", 0.0, "", "A"),
    ("regex", "A: 17\nA: 18\nB", "18", 1.0, "match_equals", "A: 18"),
    ("regex", "B: $1,800.00", "#### 1800", 1.0, "match_equals", "B: $1,800.00"),
    ("regex", "A: 18%", "18", 0.0, "match_differs", "A: 18%"),
    ("regex", "A: paris", "Paris", 0.0, "match_differs", "A: paris"),
    ("regex", "18", "18", 0.0, "no_match", None),
    ("tool_call", CALL, [CALL.replace("1", "2"), CALL], 1.0, "calls_equal", None),
    ("tool_call", "[add(a=1)]", CALL, None, "other_syntax", None),
    ("json_schema", '{"a": 18}', '{"required": ["a"]}', 1.0, "schema_fits", '{"a": 18}'),
    ("json_schema", f'"{"a" * 40}!"', '{"pattern": "^(a+)+$"}', None, "too_slow", None),
    ("json_schema", "[" * 9999, "true", None, "not_computed", None),
    ("code", "print(5)", '{"inputs": [""], "outputs": ["5"]}', 1.0, "tests_pass", None),
    ("code", "<think>print(5)", '{"inputs": []}', None, "unfinished_thinking", None),
    ("constraints", "<think>a, b</think>Yes.", NO_COMMA, 1.0, "constraints", None),
    ("constraints", "Yes, sir.", NO_COMMA, 0.0, "constraints", None),
    ("constraints", "<think>Yes", NO_COMMA, None, "unfinished_thinking", None),
    ("math", r"$\frac{1}{2}$", "0.5", 1.0, "", r"$\frac{1}{2}$"),
    ("math", r"So $\frac{1}{2}$", "0.5", None, "no_marker", None),
    ("math", r"\boxed{\frac{\sqrt{3}}{3}}", r"$\frac{1}{\sqrt{3}}$", 1.0, "", None),
    ("math", r"$(1, 2)$", r"\( (1,2) \)", 1.0, "", None),
    ("math", r"first $17$, then \boxed{18}", "18", 1.0, "", "18"),
    ("math", "<think>17</think> 18", "#### 18", 1.0, "", "18"),
    ("math", r"Of $(10^9)!$, $9^{9^9}$ and \boxed{1500}", "1500", 1.0, "", "1500"),
    ("math", r"\boxed{-18}", "18", 0.0, "", "-18"),
    ("math", "I cannot tell", "18", None, "no_marker", None),
    ("math", "I cannot tell", r"\sqrt{2}", None, "no_marker", None),
    ("math", "", r"\sqrt{2}", 0.0, "empty_response", None),
    ("math", "(1, 2)", "(1, 2)", 1.0, "text_matches", "(1, 2)"),
    ("math", "The answer is sqrt(2)", r"\sqrt{2}", None, "answer_not_read", "sqrt(2)"),
    ("math", r"\boxed{9^{9^{9^{9}}}}", "18", None, "answer_not_read", None),
    ("math", r"\boxed{\sin(((2^{999})^{999})^{99})}", r"\sqrt{2}", None, "too_slow", None),
    ("math", r"\boxed{2\sqrt{2}}", r"\sqrt{2}", 0.0, "math_differs", r"2\sqrt{2}"),
    *(
        ("math", rf"\boxed{{{first}}}. No, wait: it is {cut}", "18", None, "cut_off", None)
        for first in ("17", "18")
        for cut in (r"\boxed{1", r"\boxed{\frac{1}{2}", r"\boxed", "the answer is")
    ),
]


@pytest.mark.parametrize(("verifier", "response", "reference", "score", "why", "words"), TABLE)
async def test_what_a_verifier_proves_is_the_score_and_what_it_cannot_is_no_zero(
    rule: Rule,
    verifier: str,
    response: str,
    reference: Any,
    score: float | None,
    why: str,
    words: str | None,
) -> None:
    settings = {"pattern": PATTERN[verifier]} if verifier in PATTERN else {}
    model, trace = rule(verifier, **settings), Trace()
    verdict = await model.score(ScoreRequest(response=response, reference=reference), trace)
    assert verdict.score == score
    abstains = score is None
    assert verdict.status is (Status.UNPARSEABLE if abstains else Status.OK)
    assert (verdict.source, verdict.label) == (
        (None, None) if abstains else ("rule", "right" if score else "wrong")
    )
    broken = next((p.reason for p in (verdict.components or {}).values() if not p.score), None)
    assert abstains or (verdict.reason is None) == (broken is None)
    assert not abstains or verdict.reason == f"the verifier abstains: {why}"
    assert verdict.fingerprint == model.describe()["fingerprint"]
    assert f"verifier={verifier};" in (verdict.fingerprint or "")
    assert trace.rule is not None
    assert (trace.rule.score, trace.rule.rule) == (score, why or trace.rule.rule)
    if words is not None:
        assert trace.rule.span is not None
        assert response[trace.rule.span.start : trace.rule.span.end] == words


def test_every_verifier_is_tested_and_documented() -> None:
    names = list(get_args(VerifierName))
    assert {*names} == {row[0] for row in TABLE} | {"function"}
    page = Path(__file__).parents[3] / "docs/reference/judge.md"
    rows = page.read_text(encoding="utf-8").partition("| `rule.verifier` |")[2].partition("\n\n")[0]
    cells = [row.split("|")[1] for row in rows.splitlines()[2:]]
    assert re.findall(r"`(\w+)`", " ".join(cells)) == names


PLACES = range(1, 1 + len(os.sched_getaffinity(0)))
TESTS = json.dumps({"inputs": ["1", "2", "3"], "outputs": ["1", "2", "x"]})


@needs_sandbox
@pytest.mark.parametrize(("aggregate", "score"), [("all", 0.0), ("share", 2 / 3)])
async def test_each_test_of_a_program_is_a_component_and_the_first_that_fails_the_reason(
    rule: Rule, aggregate: str, score: float
) -> None:
    model = rule("code", code={"aggregate": aggregate})
    request = ScoreRequest(response="print(input())", reference=[TESTS, TESTS.replace("1", "0")])
    result = await model.score(request)
    assert (result.score, result.reason) == (score, "test_3: gave '3\\n' for 'x'")
    parts = {name: part.score for name, part in (result.components or {}).items()}
    assert parts == {"test_1": 1.0, "test_2": 1.0, "test_3": 0.0}
    blank = await model.score(ScoreRequest(response="```\n```", reference=TESTS))
    assert (blank.score, blank.reason) == (0.0, "test_1: no program")


@needs_sandbox
async def test_programs_whose_callers_have_gone_leave_their_places(rule: Rule) -> None:
    model, quick = rule("code"), ScoreRequest(response="1", reference=TESTS)
    assert (await model.score(quick)).score == 0.0
    asleep = [
        ScoreRequest(response=f"import time; time.sleep({n}9)", reference=TESTS) for n in PLACES
    ]
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await asyncio.gather(*map(model.score, asleep))
    async with asyncio.timeout(8):
        assert (await model.score(quick)).score == 0.0


async def test_a_server_for_programs_that_is_gone_is_an_error(rule: Rule) -> None:
    model = rule("code", code={"sandbox_url": "http://127.0.0.1:9/run_code", "language": "cpp"})
    result = await model.score(ScoreRequest(response="x", reference=TESTS))
    assert (result.score, result.status) == (None, Status.ERROR)
    assert "http://127.0.0.1:9/run_code failed" in (result.reason or "")


async def test_a_replica_whose_sandbox_does_not_run_is_not_ready() -> None:
    code = {"sandbox_url": "http://127.0.0.1:9/run_code"}
    model = {"name": "r", "kind": "rule", "rule": {"verifier": "code", "code": code}}
    with pytest.raises(RuntimeError, match="the first verdict failed: SandboxError"):
        await RewardReplica.__init__(RewardReplica.__new__(RewardReplica), model)


@pytest.mark.parametrize(("verifier", "reference", "message"), rows(__file__, "unusable"))
async def test_a_reference_that_the_verifier_cannot_use_is_refused(
    rule: Rule, verifier: str, reference: Any, message: str
) -> None:
    with pytest.raises(InvalidRequestError, match=f"reference: {message}"):
        await rule(verifier).score(ScoreRequest(response="#### 18", reference=reference))


async def test_each_constraint_is_a_component_and_their_share_is_the_score(rule: Rule) -> None:
    names = ["punctuation:no_comma", "length_constraints:number_words"]
    kwargs = [{}, {"num_words": 3, "relation": "at least"}]
    model = rule("constraints", constraints={"aggregate": "share", "loose": True})
    reference = json.dumps({"instruction_id_list": names, "kwargs": kwargs})
    result = await model.score(ScoreRequest(response="Sure, so:\none two", reference=reference))
    parts = {name: (part.score, part.reason) for name, part in (result.components or {}).items()}
    assert parts == {names[0]: (1.0, "0 commas"), names[1]: (1.0, "4 words")}
    assert (result.score, result.source) == (1.0, "rule")
    asked = "Write one two three four five"
    repeated = ScoreRequest(response=asked[6:], question=asked, reference=reference)
    refused = await model.score(repeated)
    assert (refused.score, refused.label) == (0.0, "wrong")
    half = await rule("constraints", constraints={"aggregate": "share"}).score(
        ScoreRequest(response="one two", reference=reference)
    )
    assert (half.score, half.label, half.status) == (0.5, None, Status.OK)


async def test_a_hostile_response_costs_a_bounded_time_and_no_score(rule: Rule) -> None:
    model = rule("regex", pattern=r"(?:A+)+: (\d+)")
    for response, score in (("A" * 100, None), ("A: 18", 1.0)):
        verdict = await model.score(ScoreRequest(response=response, reference="18"))
        assert verdict.score == score


HOSTILE = {
    "factorials": r"\boxed{{(10^9+{0})!}}",
    "powers": r"\boxed{{((10^{{9999}})^{{9999}})^{{9{0}}}}}",
    "sines": r"\boxed{{\sin(((2^{{999}})^{{999}})^{{9{0}}})}}",
}


@pytest.mark.parametrize("sort", HOSTILE)
async def test_ordinary_formulas_do_not_wait_for_hostile_ones(rule: Rule, sort: str) -> None:
    async def score(response: str, reference: str) -> float | None:
        asked = ScoreRequest(response=response, reference=reference)
        return (await rule("math").score(asked)).score

    formulas = [HOSTILE[sort].format(i) for i in range(1, 21)]
    hostile = [asyncio.create_task(score(formula, "18")) for formula in formulas]
    await asyncio.sleep(0)
    ordinary = [rf"\boxed{{\frac{{{2 * i}}}{{{3 * i}}}}}" for i in range(1, 31)]
    scores = await asyncio.gather(*(score(formula, r"\frac{2}{3}") for formula in ordinary))
    assert scores == [1.0] * 30
    assert sort == "factorials" or sum(task.done() for task in hostile) < 20
    for task in hostile:
        task.cancel()


@pytest.mark.parametrize(("name", "response", "score", "message"), rows(__file__, "functions"))
async def test_a_function_of_ones_own_scores_or_there_is_no_score(
    rule: Rule, name: str, response: str, score: float | None, message: str | None
) -> None:
    model = rule("function", function=f"{OWN}:{name}")
    references = ["a", "b"] if name == "is_it" else None
    asked = ScoreRequest(response=response, reference=references, metadata={"points": 3})
    async with asyncio.timeout(30):
        verdict = await model.score(asked)
    failed = Status.UNPARSEABLE if response == "none" else Status.INVALID  # again each time
    assert (verdict.score, verdict.status) == (score, failed if message else Status.OK)
    assert (message or "") in (verdict.reason or "")


async def test_a_function_of_ones_own_reads_the_turns_with_their_calls(rule: Rule) -> None:
    model = rule("function", function=f"{OWN}:calls_each_tool")
    asked = {
        "messages": [{"role": "assistant", "tool_calls": [json.loads(CALL)]}],
        "tools": [{"name": "add"}, {"name": "now"}],
    }
    assert (await model.score(ScoreRequest.model_validate(asked))).score == 0.5


@pytest.mark.parametrize(("path", "message"), rows(__file__, "paths"))
def test_a_faulty_path_has_a_field_and_remedy(rule: Rule, path: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"rule.function: '{path}'.*{message}"):
        rule("function", function=path)


def test_changed_code_is_another_fingerprint(
    rule: Rule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    sources = set()
    for name, value in (("own_first", 1.0), ("own_second", 0.25)):
        code = f"def f(response, reference, request):\n    return {value}\n"
        (tmp_path / f"{name}.py").write_text(code, encoding="utf-8")
        model = rule("function", function=f"{name}:f")
        sources.add(model.describe()["fingerprint"].partition(";source=")[2])
        del sys.modules[name]
    assert len(sources) == 2
