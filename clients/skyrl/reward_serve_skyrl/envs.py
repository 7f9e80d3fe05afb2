"""A single-turn environment that scores each response with the service.

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
from skyrl_gym.envs.registration import register, registry

from reward_serve.client import connect, metrics_of
from reward_serve.client.outcomes import components_of
from reward_serve.client.rows import check_first_results, request_of
from reward_serve.schema import ScoreResult, Status

logger = logging.getLogger(__name__)

JUDGE = "gsm8k_judge"


class GSM8kJudgeEnv(BaseTextEnv):  # type: ignore[misc]  # skyrl_gym is untyped
    """A single-turn environment, rewarded by a ``reward_serve`` service.

    A failed judge is not a wrong answer: by default the rule verifier is used instead
    (``on_failure``). If the sample is still undecided, its metric ``judge_undecided`` is 1 and
    ``DecidedOnly`` leaves it out of training. SkyRL requires a reward, so it is 0.0.

    Args:
        env_config: the environment's section of the configuration.
        extras: the row's columns; ``reward_spec.ground_truth`` is the gold answer, if any.

    Raises:
        ValueError: a setting is invalid.
    """

    def __new__(cls, env_config: Any = None, extras: Any = None) -> Any:
        """With ``tools``, an ``AgentJudgeEnv``."""
        if cls is GSM8kJudgeEnv and getattr(env_config, "tools", None):
            from reward_serve_skyrl.agents import AgentJudgeEnv  # it needs transformers

            cls = AgentJudgeEnv
        return super().__new__(cls)

    def __init__(self, env_config: Any = None, extras: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self.extras = extras or {}
        self.metrics: dict[str, float] = {}
        settings, self._common = settings_of(env_config)
        if settings.get("on_failure") == "raise":
            raise ValueError(
                "environment.skyrl_gym.gsm8k_judge.on_failure=raise: an exception in an "
                "environment ends SkyRL's process; use none, rule or a number"
            )
        if "group_size" in self._common and settings.get("on_failure", "rule") == "rule":
            raise ValueError(
                "environment.skyrl_gym.gsm8k_judge.on_failure=rule with group_size: a rule's 0 or "
                "1 is on another scale than a place in the group; use none"
            )
        self._client = connect(**{"on_failure": "rule", **settings})

    def step(self, action: str) -> BaseTextEnvStepOutput:
        """Score the response and end the episode."""
        return BaseTextEnvStepOutput(
            observations=[], reward=self.reward(action), done=True, metadata={}
        )

    def reward(self, response: str) -> float:
        """The score of the service or its fallback; 0.0 if undecided (see the metrics).

        Raises:
            RefusedRowError: the service refuses the run's first row.
        """
        began = time.perf_counter()
        try:
            result = self._client.score(self.request(response))
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
        if result.score is None:
            logger.info("undecided: %s: %s", result.status.value, result.reason)
            return 0.0
        return result.score

    def get_metrics(self) -> dict[str, float]:
        """Metrics of this episode's request, and the score of each component that has one."""
        return self.metrics

    @staticmethod
    def aggregate_metrics(metrics: list[dict[str, float]]) -> dict[str, float]:
        """Means over the episodes that have the metric, and the longest wait.

        SkyRL's fully asynchronous trainer adds up all metrics that are not named a mean, average,
        minimum or maximum.
        """
        seen = [one for one in metrics if one]  # an interrupted episode has no metrics
        if not seen:
            return {}
        names = dict.fromkeys(name for one in seen for name in one)
        means = {f"{n}_mean": fmean(one[n] for one in seen if n in one) for n in names}
        if waits := [one["judge_wall_ms"] for one in seen if "judge_wall_ms" in one]:
            means["judge_wall_ms_max"] = max(waits)
        return means

    def request(self, response: str) -> dict[str, Any]:
        """The request that scores a response to this row."""
        info = self.extras.get("extra_info") or {}
        gold = (self.extras.get("reward_spec") or {}).get("ground_truth")
        row = request_of(response, gold, info.get("question"), info.get("rubric"), info)
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
    others = ("max_undecided", "tools", "reward")  # read by the trainer and AgentJudgeEnv
    fields = dict(env_config or {}).items()
    settings = {name: value for name, value in fields if value is not None and name not in others}
    common = {name: settings.pop(name, None) for name in ("template", "options", "group_size")}
    return settings, {name: value for name, value in common.items() if value}
