"""Reward functions for TRL's GRPOTrainer, scored by a ``reward_serve`` service.

GRPOTrainer(..., reward_funcs=[judge_reward(url="http://127.0.0.1:8000")])

With ``log_completions=True``, TRL's table shows the judge's status, source, label and probability.
If the trainer has tools, the judge is sent the conversation with their schemas.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from reward_serve.client import Client, connect, metrics_of
from reward_serve.client.outcomes import components_of, turns_of
from reward_serve.client.rows import check_first_results, conversation_of, request_of
from reward_serve.schema import ScoreResult

__all__ = ["RewardFunction", "judge_components", "judge_reward"]

_AVERAGES_NONE = "GRPOWithReplayBufferTrainer"
_TRLS = frozenset(
    ["completion_ids", "environments", "log_extra", "log_metric", "prompts", "trainer_state"]
)
"""Arguments that TRL adds to the data set's columns."""


def judge_reward(
    *,
    reference: str | None = "answer",
    question: str | None = "question",
    rubric: str | None = None,
    name: str = "judge_reward",
    group_size: int | None = None,
    template: str | None = None,
    tools: Sequence[Any] | None = None,
    turns: bool = False,
    **settings: Any,
) -> RewardFunction:
    """An async reward function; TRL runs it concurrently with other reward functions.

    Args:
        reference: the data set's column of gold answers or solutions; None if it has none.
        question: its column of questions, if it has one.
        rubric: its column of rubrics: criteria, or the name of a rubric of the deployment.
        name: the reward's name in TRL's logs.
        group_size: ``GRPOConfig.num_generations``, to judge the completions of each prompt against
            each other, by their last turns.
        template: the name of a judging template; default: the deployment's.
        tools: the tools, as functions or schemas; default: those of ``GRPOTrainer``. AsyncGRPO
            shows its tools to no reward function: pass them here.
        turns: score each assistant turn too. TRL takes one reward a sample, so that the turns'
            scores are logged, and reach the reward by a template that averages them.
        **settings: settings of ``reward_serve.client.connect``; ``on_failure`` defaults to
            ``none``, and TRL leaves out samples whose reward is None.

    Raises:
        TypeError, ValueError: a setting is unknown or invalid.

    The function raises ``RefusedRowError`` if the service refuses all samples, as for a wrong key,
    or all of the run's first, for example without a gold answer, ``KeyError`` if the data set has
    no column ``reference``, and ``ValueError`` if a batch does not consist of whole groups.
    """
    judged = _Judged(reference, question, rubric, group_size, template, tools, turns, **settings)
    return RewardFunction(name, judged, _score)


def judge_components(
    *names: str,
    reference: str | None = None,
    question: str | None = "question",
    rubric: str | None = None,
    **settings: Any,
) -> list[RewardFunction]:
    """A reward function for each component of the results, from one request.

    With ``GRPOConfig(multi_objective_aggregation="normalize_then_sum")`` each component has a
    baseline of its own (GDPO). A component is None for a sample that lacks it, and TRL leaves the
    sample out of this component's baseline alone.

    Args:
        *names: names of criteria, of a composite's members, or of turns (``turn_1``).
        reference: as in ``judge_reward``, but none by default.
        question: as in ``judge_reward``.
        rubric: as in ``judge_reward``.
        **settings: as in ``judge_reward``, with its ``template``, ``tools`` and ``turns``;
            ``on_failure`` does not affect components.
    """
    judged = _Judged(reference, question, rubric, None, **settings)
    return [RewardFunction(name, judged, partial(_component, name)) for name in names]


class RewardFunction:
    """A reward function for TRL, which a spawned rollout worker can unpickle.

    Args:
        name: its name in TRL's logs.
        judged: the batch's results, shared by the functions that are read from one request.
        read: one reward of a result; None for a sample without one.
    """

    def __init__(
        self, name: str, judged: _Judged, read: Callable[[ScoreResult], float | None]
    ) -> None:
        self.__name__ = name
        self._judged, self._read = judged, read
        self.critiques: list[str | None] = []
        """The judge's critiques of the last batch, for templates that ask for them."""

    async def __call__(
        self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any
    ) -> list[float | None]:
        """The reward of each completion; None where the verdict failed.

        Raises:
            TypeError: the trainer averages None away.
        """
        if any(base.__name__ == _AVERAGES_NONE for base in type(_trainer(columns)).__mro__):
            raise TypeError(
                f"{_AVERAGES_NONE} counts a reward of None as 0; use GRPOTrainer, or set on_failure"
            )
        results = await self._judged.results(completions, {"prompts": prompts, **columns})
        self.critiques = [result.critique for result in results]
        return [self._read(result) for result in results]


def _score(result: ScoreResult) -> float | None:
    return result.score


def _component(name: str, result: ScoreResult) -> float | None:
    return components_of(result).get(name)


def _trainer(columns: Mapping[str, Any]) -> Any:
    """GRPOTrainer, whose method is an argument of reward functions; None in AsyncGRPO's worker."""
    return getattr(columns.get("log_metric"), "__self__", None)


class _Judged:
    """Scores each batch once, for all reward functions."""

    def __init__(
        self,
        reference: str | None,
        question: str | None,
        rubric: str | None,
        group_size: int | None,
        template: str | None = None,
        tools: Sequence[Any] | None = None,
        turns: bool = False,
        **settings: Any,
    ) -> None:
        if (rubric or turns) and group_size:
            raise ValueError("group_size: groups are judged by no rubric, and not by turn")
        self._reference, self._question, self._rubric = reference, question, rubric
        self._group_size, self._turns = group_size, turns
        common = {"template": template, "turns": turns}
        self._common = {name: value for name, value in common.items() if value}
        self._step, self._samples = ("", 0), 0  # samples of this step, in all processes
        self._tools = _schemas(tools or ())  # a spawned worker might not find the functions
        self._settings = {"on_failure": "none", **settings}
        self._connect()

    def _connect(self) -> None:
        self._client: Client = connect(**self._settings)
        self._batch: Sequence[Any] | None = None
        self._pending: asyncio.Future[list[ScoreResult]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Settings alone: the copy in another process has connections of its own."""
        ours = ("_client", "_batch", "_pending")
        return {name: value for name, value in vars(self).items() if name not in ours}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._connect()

    async def results(
        self, completions: Sequence[Any], columns: Mapping[str, Any]
    ) -> list[ScoreResult]:
        """The batch's results; TRL passes the same list to every reward function."""
        if self._pending is None or self._batch is not completions:
            self._batch = completions
            self._pending = asyncio.ensure_future(self._score(completions, columns))
        return await self._pending

    async def _score(
        self, completions: Sequence[Any], columns: Mapping[str, Any]
    ) -> list[ScoreResult]:
        absent = [None] * len(completions)
        golds = _column(columns, self._reference, "reference") if self._reference else absent
        rubrics = _column(columns, self._rubric, "rubric") if self._rubric else absent
        questions = columns.get(self._question) if self._question else None
        sources = [{"data_source": cell} for cell in columns.get("data_source") or absent]
        rows = zip(completions, golds, questions or absent, rubrics, sources, strict=True)
        requests = [request_of(_text(completion), *cells) for completion, *cells in rows]
        tools = self._tools or _schemas(getattr(_trainer(columns), "tools", None) or ())
        if (tools or self._turns) and self._group_size is None:
            episodes = zip(requests, columns["prompts"], completions, strict=True)
            requests = [
                conversation_of(
                    request, [*_turns(prompt, "user"), *_turns(text, "assistant")], tools
                )
                for request, prompt, text in episodes
            ]
        pairs = zip(requests, self._keys(columns, len(requests)), strict=True)
        requests = [
            {**request, **self._common, **key, **_merged("metadata", request, key)}
            for request, key in pairs
        ]
        if self._group_size is None:
            results = await self._client.ascore_batch(requests)
        else:
            groups = _groups(requests, columns["prompts"], self._group_size)
            scored = await asyncio.gather(*map(self._client.ascore_group, groups))
            results = [result for group in scored for result in group.results]
        _log(columns, results, self._turns)
        check_first_results(self._client, results)
        return results

    def _keys(self, columns: Mapping[str, Any], size: int) -> list[dict[str, Any]]:
        """Each sample's ``group`` and ``metadata``, by its place among the samples of the step."""
        state, trainer = columns.get("trainer_state"), _trainer(columns)
        if state is None or trainer is None:  # AsyncGRPO's worker has neither
            return [{} if state is None else {"metadata": {"step": state.global_step}}] * size
        run = trainer.args.run_name or Path(trainer.args.output_dir).name
        group_size, ranks, step = trainer.num_generations, trainer.accelerator, state.global_step
        if not trainer.model.training:
            run, group_size = f"{run}/eval", trainer.num_generations_eval
        if self._step != (run, step):
            self._step, self._samples = (run, step), 0
        first = self._samples + ranks.process_index * size
        self._samples += ranks.num_processes * size
        keys = []
        for prompt, place in (divmod(at, group_size) for at in range(first, first + size)):
            group = f"{step}-{prompt}"
            sample = {"run": run, "step": step, "sample": f"{group}-{place}"}
            keys.append({"group": group, "metadata": sample})
        return keys


def _merged(name: str, *fields: Mapping[str, Any]) -> dict[str, Any]:
    mapping = {key: value for of in fields for key, value in of.get(name, {}).items()}
    return {name: mapping} if mapping else {}


def _column(columns: Mapping[str, Any], name: str, argument: str) -> Any:
    if name not in columns:
        raise KeyError(
            f"the data set has no column {name!r}; its columns besides the prompt: "
            f"{sorted(columns.keys() - _TRLS)}; pass the right one, or None: "
            f"judge_reward({argument}=...)"
        )
    return columns[name]


def _groups(
    requests: Sequence[dict[str, Any]], prompts: Sequence[Any], size: int
) -> list[dict[str, Any]]:
    """Merge the requests of each prompt, which are adjacent in TRL's batch, into a group request.

    Raises:
        ValueError: the batch does not consist of whole groups.
    """
    groups = []
    for start in range(0, len(requests), size):
        group, of_prompts = requests[start : start + size], prompts[start : start + size]
        if len(group) < size or any(prompt != of_prompts[0] for prompt in of_prompts):
            raise ValueError(
                f"group_size={size}: the batch of {len(requests)} completions does not consist of "
                "groups of this size; set it to GRPOConfig.num_generations, and make each "
                "process's batch a multiple of it"
            )
        asked: dict[str, Any] = {"responses": [request["response"] for request in group]}
        shared = ("template", "question", "group", "metadata")
        asked |= {name: group[0][name] for name in shared if name in group[0]}
        if "reference" in group[0]:
            asked["reference"] = "\n\nor\n\n".join(group[0]["reference"])
        if "question" not in asked and isinstance(of_prompts[0], str):
            asked["question"] = of_prompts[0]
        elif "question" not in asked:
            names = ("role", "content")
            turns = _turns(of_prompts[0], "user")
            asked["messages"] = [{name: turn.get(name) for name in names} for turn in turns]
        groups.append(asked)
    return groups


def _schemas(tools: Sequence[Any]) -> list[dict[str, Any]]:
    """The tools' schemas, which transformers reads from functions for the policy's prompt too."""
    from transformers.utils import get_json_schema

    return [get_json_schema(tool) if callable(tool) else dict(tool) for tool in tools]


def _turns(content: Any, role: str) -> list[Mapping[str, Any]]:
    """The turns of a prompt or completion; a plain text is one."""
    turns = [{"role": role, "content": content}] if isinstance(content, str) else content
    return [{**turn, "content": _content(turn)} if "content" in turn else turn for turn in turns]


def _text(completion: Any) -> str:
    """A plain completion, or the assistant's last turn of a conversation."""
    if isinstance(completion, str):
        return completion
    turns = [turn for turn in completion if turn.get("role", "assistant") == "assistant"]
    return str(_content(turns[-1]) or "") if turns else ""


def _content(turn: Mapping[str, Any]) -> Any:
    """A turn's content; of TRL's parts, which vision models have, the text.

    Raises:
        ValueError: a part is an image.
    """
    parts = turn.get("content")
    if not isinstance(parts, list):
        return parts
    if others := {part.get("type") for part in parts} - {"text"}:
        raise ValueError(
            f"content: the {turn.get('role', 'assistant')}'s turn has a part of type "
            f"{', '.join(map(repr, others))}, and the judge is sent text; say in a text part what "
            "it shows, or name a column: judge_reward(question=...)"
        )
    return "".join(part["text"] for part in parts)


def _log(columns: Mapping[str, Any], results: Sequence[ScoreResult], turns: bool) -> None:
    """Log metrics, and columns of TRL's completions table."""
    log_metric, log_extra = columns.get("log_metric"), columns.get("log_extra")
    if callable(log_metric) and results:
        metrics = [metrics_of(result) for result in results]
        for key in ("ok", "fallback"):
            log_metric(f"judge/{key}", fmean(sample[key] for sample in metrics))
    if callable(log_extra):
        for column in ("status", "source", "label"):
            log_extra(f"judge_{column}", [getattr(result, column) for result in results])
        of_labels = [(result.probabilities or {}).get(result.label or "") for result in results]
        log_extra("judge_probability", of_labels)
        if turns:
            log_extra("judge_turns", [json.dumps(turns_of(result)) for result in results])
