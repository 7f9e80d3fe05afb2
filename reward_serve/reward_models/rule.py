"""Kind ``rule``: scores with a verifier, without a model. If it abstains, there is no score."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import itertools
import json
import logging
import math
import numbers
import pkgutil
import platform
import traceback
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from typing import Any

from reward_serve.child_process import ChildProcess
from reward_serve.config.base import ConfigError
from reward_serve.config.models import RuleConfig, RuleModel
from reward_serve.engines.base import OverloadedError
from reward_serve.off_loop import grading_cost, off_loop
from reward_serve.reward_models.base import (
    InvalidRequestError,
    RewardModel,
    Trace,
    best_match,
    gathered,
    result_of,
    timed,
)
from reward_serve.reward_models.turns import scored_states, with_turns
from reward_serve.schema import Component, ScoreRequest, ScoreResult, Status, failure
from reward_serve_answers import (
    TEXT_VERIFIERS,
    VERSION,
    Grade,
    UndecidedError,
    UnusableReferenceError,
    VerifierError,
    grade_choice,
)
from reward_serve_answers.calls import grade_calls
from reward_serve_answers.gsm8k import FORMULA, final_formula
from reward_serve_answers.thinking import Visible, has_tag, read_thinking
from reward_serve_answers.values import ABSTAINED, RIGHT, WRONG, gold_answer, not_latex
from reward_serve_answers.verifiers import grade_match

logger = logging.getLogger(__name__)

_MOST_COMPONENTS = 64
_REAL_TIME = 3  # of tests, in their time limits: reward_serve_checkers.sandbox.WALL
_SPARE_S = 15.0  # beside a program's tests
LIMIT_S = 1.0  # CPU time limit of a comparison of formulas, or of a search for a pattern


@dataclass(frozen=True)
class Verifier:
    """Grades a response by each reference, "" if the request has none.

    ``verify`` raises ``UnusableReferenceError``, or ``VerifierError`` if it fails.
    """

    fingerprint: str  # everything that affects its grades
    verify: Callable[[ScoreRequest, Sequence[str]], Awaitable[list[Grade]]]
    needs_reference: bool = True  # else a request without one is invalid
    reads_answers: bool = True  # only a turn's text, and no calls of tools
    child: ChildProcess | None = None  # the processes in which it runs, if it does


def make_verifier(config: RuleConfig) -> Verifier:
    """The configured verifier; raises ``ConfigError`` if ``rule.function`` cannot be imported."""
    makers: dict[str, Callable[[RuleConfig], Verifier]] = {
        "math": _math,
        "regex": _pattern,
        "tool_call": _calls,
        "json_schema": _schema,
        "code": _code,
        "function": lambda config: own_function(config.function or ""),
    }
    return makers.get(config.verifier, _text)(config)


def _text(config: RuleConfig) -> Verifier:
    """A verifier of ``reward_serve_answers`` that takes microseconds; in a thread if it is long."""
    name = config.verifier

    async def verify(request: ScoreRequest, references: Sequence[str]) -> list[Grade]:
        grade: Callable[[str, str], Grade]
        if name == "choice":
            asked = (turn.text for turn in request.conversation if turn.role == "user")
            grade = partial(grade_choice, question="\n".join(asked))
        else:
            grade = TEXT_VERIFIERS[name]
        cost, response = grading_cost(request), request.judged
        return [await off_loop(cost, grade, response, reference) for reference in references]

    return Verifier(f"verifier={name};version={VERSION}", verify)


def _math(_: RuleConfig) -> Verifier:
    """Compares final answers that are not plain numbers by ``formulas``, in child processes."""
    child = ChildProcess("reward_serve_answers.formulas:compare", LIMIT_S)

    async def verify(request: ScoreRequest, references: Sequence[str]) -> list[Grade]:
        cost, response = grading_cost(request), request.judged
        grades = [await off_loop(cost, final_formula, response, gold) for gold in references]
        calls = {
            place: (grade.answer, gold_answer(references[place]))
            for place, grade in enumerate(grades)
            if grade.rule == FORMULA and grade.answer is not None
        }
        values = await child.call(*calls.values())
        for place, value in zip(calls, values, strict=True):
            grades[place] = _grade(value, calls[place][0], not_latex(references[place]))
        return grades

    library = installed_version("math-verify")
    fingerprint = f"verifier=math;version={VERSION};math_verify={library}"
    return Verifier(fingerprint, verify, child=child)


def _pattern(config: RuleConfig) -> Verifier:
    """Compares the pattern's last match: its first participating group, or else the whole match.

    Numbers are compared by value, other texts as ``exact`` does. Thinking is searched only by a
    pattern that contains its tag.
    """
    pattern = config.pattern.pattern if config.pattern else ""
    reads_tags = has_tag(pattern)
    child = ChildProcess("reward_serve_answers.verifiers:last_match", LIMIT_S)

    async def verify(request: ScoreRequest, references: Sequence[str]) -> list[Grade]:
        for reference in references:
            gold_answer(reference)
        visible = read_thinking(request.judged)
        if reads_tags:
            visible = Visible(request.judged, request.judged)
        (match,) = await child.call((pattern, visible.text))
        if isinstance(match, UndecidedError):
            return [Grade(ABSTAINED, match.rule)]
        if match is None:
            return [visible.settled(Grade(WRONG, "no_match"))]
        answer, start, end = match
        before, cost = max(0, request.judged.rfind(visible.text)), grading_cost(request)
        grades = [await off_loop(cost, grade_match, answer, gold) for gold in references]
        span = (before + start, before + end)
        return [visible.settled(replace(grade, span=span)) for grade in grades]

    digest = hashlib.sha256(pattern.encode()).hexdigest()[:12]
    fingerprint = f"verifier=regex;version={VERSION};pattern={digest}"
    return Verifier(fingerprint, verify, child=child)


@dataclass(frozen=True)
class TestedGrade(Grade):
    """A grade by several tests: a component for each, and why the first failed."""

    components: dict[str, Component] = field(default_factory=dict)
    reason: str | None = None


def _code(config: RuleConfig) -> Verifier:
    """Runs the response's program against its tests, in child processes with sandboxes."""
    try:
        library = installed_version("reward-serve-checkers")
    except PackageNotFoundError:
        raise ConfigError(
            "rule.verifier: code needs reward-serve-checkers; pip install 'reward-serve[checkers]'"
        ) from None
    code = config.code
    limits = code.model_dump(include={"test_s", "total_s", "memory_mib"})
    options = {"language": code.language, "url": code.sandbox_url}
    settings = json.dumps({**options, "all_needed": code.aggregate == "all", "limits": limits})
    wait_s = _REAL_TIME * code.total_s + _SPARE_S
    child = ChildProcess("reward_serve_checkers.programs:report", wait_s, wait_s)

    async def verify(request: ScoreRequest, references: Sequence[str]) -> list[Grade]:
        visible = read_thinking(request.judged)
        if not visible.ended:
            return [visible.settled(Grade(WRONG, "")) for _ in references]
        calls = [(visible.rest, reference, settings) for reference in references]
        reports = await child.call(*calls)
        return [visible.settled(_tested(report, code.aggregate)) for report in reports]

    digest = hashlib.sha256(settings.encode()).hexdigest()[:12]
    python = platform.python_version()
    fingerprint = f"verifier=code;version={library};python={python};settings={digest}"
    return Verifier(fingerprint, verify, child=child)


def _tested(report: Any, aggregate: str) -> Grade:
    """The grade of a report's tests."""
    if isinstance(report, UndecidedError):
        return Grade(ABSTAINED, report.rule)
    if "unusable" in report:
        raise UnusableReferenceError(report["unusable"])
    if "busy" in report:
        raise OverloadedError(report["busy"], retry_after_s=1.0)
    if "failed" in report:
        raise VerifierError(report["failed"])
    parts = {
        f"test_{number}": Component(score=float(passed), status=Status.OK, reason=reason or None)
        for number, (passed, reason) in enumerate(report["outcomes"], 1)
    }
    passed = sum(part.score or 0 for part in parts.values())
    failed = next(
        (f"{name}: {part.reason}" for name, part in parts.items() if not part.score), None
    )
    score = passed / report["tests"] if aggregate == "share" else float(failed is None)
    shown = dict(itertools.islice(parts.items(), _MOST_COMPONENTS))
    return TestedGrade(score, "tests_fail" if failed else "tests_pass", None, None, shown, failed)


def _grade(value: Any, answer: str | None, fault: str) -> Grade:
    """The grade of a child's value: a score, a rule and perhaps an answer; or why it has none."""
    if isinstance(value, UndecidedError):
        return Grade(ABSTAINED, value.rule)
    grade = Grade(*value)
    if grade.rule == "reference_not_read":
        raise UnusableReferenceError(grade.answer or fault)
    return grade if grade.answer else replace(grade, answer=answer)


def _calls(config: RuleConfig) -> Verifier:
    """Compares the calls of the last assistant turn with the expected ones."""

    async def verify(request: ScoreRequest, references: Sequence[str]) -> list[Grade]:
        turn = next(turn for turn in reversed(request.conversation) if turn.role == "assistant")
        calls = [(call.function.name, call.function.arguments) for call in turn.tool_calls or ()]
        grade = partial(grade_calls, ordered=config.ordered)
        called, tools, cost = calls or turn.text, request.tools or (), grading_cost(request)
        return [await off_loop(cost, grade, called, gold, tools) for gold in references]

    fingerprint = f"verifier=tool_call;version={VERSION};ordered={config.ordered}"
    return Verifier(fingerprint, verify, reads_answers=False)


def _schema(_: RuleConfig) -> Verifier:
    """Validates the JSON of the last assistant turn by the reference, in child processes."""
    child = ChildProcess("reward_serve_answers.schemas:compare", LIMIT_S)

    async def verify(request: ScoreRequest, references: Sequence[str]) -> list[Grade]:
        calls = [(request.judged, reference) for reference in references]
        values = await child.call(*calls)
        return [_grade(value, None, "") for value in values]

    library = installed_version("jsonschema")
    fingerprint = f"verifier=json_schema;version={VERSION};jsonschema={library}"
    return Verifier(fingerprint, verify, child=child)


def own_function(path: str) -> Verifier:
    """Scores with ``(response: str, reference: str, request: dict) -> float | bool | None``.

    None abstains. A plain function runs in a thread, a coroutine function on the event loop. An
    exception, or a return value that is not a finite number, is a bug, which a retry repeats: the
    result is ``invalid``. The function is called once for each reference, or once with "" if the
    request has none.

    Args:
        path: ``package.module:name``, imported at once.

    Raises:
        ConfigError: the function cannot be imported, or has another signature.
    """
    function, failures = _imported(path), itertools.count(1)
    file = getattr(inspect.getmodule(function), "__file__", None)

    def called(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except StopIteration as error:  # which a future cannot carry
            raise RuntimeError(f"StopIteration: {error}") from error

    async def verify(request: ScoreRequest, references: Sequence[str]) -> list[Grade]:
        return await gathered(graded(request, reference) for reference in references)

    async def graded(request: ScoreRequest, reference: str) -> Grade:
        arguments = (request.judged, reference, request.model_dump(mode="json"))
        try:
            if inspect.iscoroutinefunction(function):
                value = await function(*arguments)
            else:
                value = await asyncio.to_thread(called, *arguments)
        except (Exception, SystemExit) as error:  # a sample must not end the replica
            failed = next(failures)
            if failed & (failed - 1) == 0:  # the 1st, 2nd, 4th, 8th...
                logger.exception("rule.function %s failed, %d so far", path, failed)
            frames = reversed(traceback.extract_tb(error.__traceback__))
            at = next((f" (line {f.lineno})" for f in frames if f.filename == file), "")
            reason = f"rule.function {path}: {type(error).__name__}: {error}{at}"
            raise VerifierError(reason) from error
        if value is None:
            return Grade(ABSTAINED, "function_abstains")
        if not isinstance(value, numbers.Real) or not math.isfinite(value):
            text = f"{value!r:.40} ({type(value).__name__})"
            raise VerifierError(
                f"rule.function {path}: returned {text}; return a finite number, a bool, or None "
                "to abstain"
            )
        return Grade(float(value), "function")

    fingerprint = f"verifier=function;function={path};source={_digest(function)}"
    return Verifier(fingerprint, verify, needs_reference=False, reads_answers=False)


def _imported(path: str) -> Callable[..., Any]:
    try:
        function: Callable[..., Any] = pkgutil.resolve_name(path)
    except Exception as error:  # importing a user's module may raise anything
        remedy = (
            "write package.module:name, without .py, and where the replica runs put the module's "
            "folder on PYTHONPATH before Ray starts, install it, or add it to resources.runtime_env"
            if isinstance(error, ModuleNotFoundError) and path.startswith(error.name or ":")
            else "correct the module, or write the name of a function that it has"
        )
        raise ConfigError(
            f"rule.function: {path!r} cannot be imported ({type(error).__name__}: {error}); "
            f"{remedy}"
        ) from error
    try:
        inspect.signature(function).bind("", "", {})
    except TypeError as error:
        raise ConfigError(
            f"rule.function: {path!r} cannot be called with (response, reference, request): "
            f"{error}; change its signature"
        ) from None
    return function


def _digest(function: Callable[..., Any]) -> str:
    """A digest of the module's source, so that code changes change the fingerprint."""
    try:
        source = inspect.getsource(inspect.getmodule(function) or function)
    except (OSError, TypeError):
        return "unknown"
    return hashlib.sha256(source.encode()).hexdigest()[:12]


class RuleRewardModel(RewardModel):
    """Scores with one verifier; raises like ``make_verifier``."""

    scores_turns = True

    def __init__(self, config: RuleModel) -> None:
        self._name = config.rule.verifier
        self.reads_rubric = config.reads_rubric
        self._verifier = make_verifier(config.rule)

    async def score(self, request: ScoreRequest, trace: Trace | None = None) -> ScoreResult:
        """The score by the best of several references; ``unparseable`` if the verifier abstains."""
        if request.turns:
            reads_answers = self._verifier.reads_answers
            return with_turns(await scored_states(request, self._score, trace, reads_answers))
        return await self._score(request, trace)

    async def _score(self, request: ScoreRequest, trace: Trace | None = None) -> ScoreResult:
        references = request.references or [""]
        if not request.references and self._verifier.needs_reference:
            raise InvalidRequestError(
                "reference: is missing, but the rule needs one; send the gold answer"
            )
        fingerprint = self._verifier.fingerprint
        try:
            with timed(trace, "rules"):
                await asyncio.sleep(0)  # a batch's items take a step together, 10% faster
                grades = await self._verifier.verify(request, list(dict.fromkeys(references)))
        except UnusableReferenceError as error:
            raise InvalidRequestError(f"reference: {error}") from None
        except VerifierError as error:
            status = Status.INVALID if self._name == "function" else Status.ERROR
            return failure(status, str(error), fingerprint=fingerprint)
        results = [result_of(grade, fingerprint) for grade in grades]
        for place, grade in enumerate(grades):
            if isinstance(grade, TestedGrade):
                parts = {"components": grade.components, "reason": grade.reason}
                results[place] = results[place].model_copy(update=parts)
        result = best_match(results, highest=RIGHT)
        if trace is not None:
            chosen = next(grade for grade in grades if grade.score == result.score)
            trace.graded(chosen, request)
        return result

    def describe(self) -> dict[str, Any]:
        """Kind, verifier and fingerprint."""
        fingerprint = self._verifier.fingerprint
        return {"kind": "rule", "verifier": self._name, "fingerprint": fingerprint}

    def close(self) -> None:
        """Kill the verifier's processes."""
        if self._verifier.child is not None:
            self._verifier.child.close()
