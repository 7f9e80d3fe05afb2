"""An environment that scores a response, or a conversation with tools, with the service.

``step`` blocks until the judge answers. The generator steps environments in threads, so other
trajectories are generated meanwhile.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from statistics import fmean
from typing import Any

from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput
from skyrl_gym.envs.registration import load_env_creator, register, registry

from reward_serve.client import ScoringError, connect, metrics_of
from reward_serve.client.outcomes import components_of
from reward_serve.client.rows import check_first_results, conversation_of, request_of
from reward_serve.schema import ScoreResult, Status, probability_right
from reward_serve_skyrl.agents import answer, assistant_turn, schemas_of

logger = logging.getLogger(__name__)

JUDGE = "gsm8k_judge"
CUT_OFF = {"judge_undecided": 1.0, "judge_failed_cut_off": 1.0}
"""The metrics of an episode that was cut off before it was scored."""


class GSM8kJudgeEnv(BaseTextEnv):  # type: ignore[misc]  # skyrl_gym is untyped
    """An environment rewarded by a ``reward_serve`` service: of one turn, or with tools of several.

    A failed judge is not a wrong answer: by default (``on_failure``) the rule verifier stands for a
    comparison's. If the sample is still undecided, its metric ``judge_undecided`` is 1 and
    ``DecidedOnly`` leaves it out of training. SkyRL requires a reward, so it is 0.0.

    With tools, a turn without a call is the last, and so is one without a verdict. An episode that
    SkyRL cuts off before it is scored, or within a call, is undecided.

    Args:
        env_config: the environment's section of the configuration.
        extras: the row's columns; ``reward_spec.ground_truth`` is the gold answer, if any,
            ``judge_metadata`` the request's ``run``, ``step`` and ``sample``, and ``judge_group``
            its group if ``extra_info`` has no ``index``.

    Raises:
        ValueError: a setting is invalid.
    """

    def __init__(self, env_config: Any = None, extras: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self.extras = extras or {}
        self.metrics: dict[str, Any] = {}
        self.messages: list[dict[str, Any]] = []
        self.max_turns = self.extras.get("max_turns", 1)
        section: Any = env_config or {}
        section = section if isinstance(section, Mapping) else asdict(section)
        self._when, self._value = section.get("reward", "end"), 0.0
        self._tools, self._has_critique = None, section.get("critique")
        if tools := section.get("tools"):
            self._tools = load_env_creator(tools)()
            self._schemas = schemas_of(self._tools)
            self.metrics = {**CUT_OFF}
        settings, self._common = settings_of(section)
        if settings.get("on_failure") == "raise":
            raise ValueError(
                "environment.skyrl_gym.gsm8k_judge.on_failure=raise: an exception in an "
                "environment ends SkyRL's process; use none, rule or a number"
            )
        if "group_size" in self._common and settings.get("on_failure") == "rule":
            raise ValueError(
                "environment.skyrl_gym.gsm8k_judge.on_failure=rule with group_size: a rule's 0 or "
                "1 is on another scale than a place in the group; use none"
            )
        by_default = None if self._when == "end" else "none"  # rules score no turns
        self._client = connect(**{"on_failure": by_default, **settings})

    def init(self, prompt: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Begin the conversation; the policy's chat template shows it the tools."""
        self.messages = [*prompt]
        return prompt, {}

    def step(self, action: str) -> BaseTextEnvStepOutput:
        """Run the turn's calls, and score the response or the conversation if it is due."""
        self.turns += 1
        answers, reward = [], 0.0
        if self._tools:
            if (turn := assistant_turn(action)) is None:
                self.metrics = {**CUT_OFF}
                return BaseTextEnvStepOutput(observations=[], reward=0.0, done=True, metadata={})
            calls = turn["tool_calls"] if self.turns < self.max_turns else []
            answers = [answer(self._tools, **call) for call in calls]
            self.messages += [turn, *answers]
        done = not answers
        if done or self._when != "end":
            reward = value = self.reward(action)
            done = done or self.metrics["judge_undecided"] == 1
            if self._when == "differences":
                reward, self._value = value - self._value, value
        return BaseTextEnvStepOutput(observations=answers, reward=reward, done=done, metadata={})

    def reward(self, response: str) -> float:
        """The score, or for differences the probability of 1; 0.0 if undecided (see the metrics).

        Raises:
            RefusedRowError: the service refuses all rows.
        """
        began = time.perf_counter()
        try:
            result = self._client.score(self.request(response))
        except ScoringError as error:
            result = error.result
        except Exception as error:  # SkyRL ends the process on any exception of an environment
            logger.exception("scoring failed; the sample is undecided")
            result = ScoreResult(status=Status.ERROR, reason=f"{type(error).__name__}: {error}")
        check_first_results(self._client, [result])
        metrics = {
            "wall_ms": 1000 * (time.perf_counter() - began),
            "latency_ms": result.latency_ms,
            **metrics_of(result),
        }
        parts = {f"component_{name}": score for name, score in components_of(result).items()}
        self.metrics = {f"judge_{name}": value for name, value in {**metrics, **parts}.items()}
        self.metrics |= {"judge_critique": result.critique or ""} if self._has_critique else {}
        if result.score is None:
            logger.info("undecided: %s: %s", result.status.value, result.reason)
            return 0.0
        value = probability_right(result) if self._when == "differences" else None
        return result.score if value is None else value

    def get_metrics(self) -> dict[str, Any]:
        """Metrics of this episode's request, the components' scores and, if set, the critique."""
        return self.metrics

    @staticmethod
    def aggregate_metrics(metrics: list[dict[str, Any]]) -> dict[str, float]:
        """Means over the episodes that have the metric, and the longest wait.

        SkyRL's fully asynchronous trainer adds up all metrics that are not named a mean, average,
        minimum or maximum.
        """
        seen = [episode for episode in metrics if episode]  # an interrupted episode has no metrics
        if not seen:
            return {}
        names = dict.fromkeys(n for episode in seen for n in episode if n != "judge_critique")
        means = {f"{n}_mean": fmean(episode[n] for episode in seen if n in episode) for n in names}
        if waits := [episode["judge_wall_ms"] for episode in seen if "judge_wall_ms" in episode]:
            means["judge_wall_ms_max"] = max(waits)
        return means

    def request(self, response: str) -> dict[str, Any]:
        """The request that scores a response to this row, or after a turn the conversation."""
        info = self.extras.get("extra_info") or {}
        gold = (self.extras.get("reward_spec") or {}).get("ground_truth")
        keys = {**self.extras, **info}
        row = request_of(response, gold, info.get("question"), info.get("rubric"), keys)
        if self._tools and self.turns:
            row = conversation_of(row, self.messages, self._schemas)
        elif self._tools:
            row["tools"] = self._schemas
        return {**self._common, **row}


def register_envs() -> None:
    """Register ``gsm8k_judge`` in this process, unless it is registered.

    Call it in the process that runs the generator, inside ``skyrl_entrypoint``.
    """
    if JUDGE not in registry:
        register(id=JUDGE, entry_point="reward_serve_skyrl.envs:GSM8kJudgeEnv")


def settings_of(env_config: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split the environment's section of the configuration.

    Returns:
        Settings of ``reward_serve.client.connect``, and fields of every request.
    """
    if is_dataclass(env_config) and not isinstance(env_config, type):
        env_config = asdict(env_config)
    others = ("max_undecided", "tools", "reward", "critique")  # not of the client
    fields = dict(env_config or {}).items()
    settings = {name: value for name, value in fields if value is not None and name not in others}
    common = {name: settings.pop(name, None) for name in ("template", "options", "group_size")}
    return settings, {name: value for name, value in common.items() if value}
