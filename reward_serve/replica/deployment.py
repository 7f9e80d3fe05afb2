"""The Serve deployment that owns one reward model.

Its methods, most of them those of ``Scorer``, are the handle API; they accept and return plain
dicts of the wire contract.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from typing import Any

from pydantic import TypeAdapter

from reward_serve.config import models
from reward_serve.engines.base import Engine
from reward_serve.engines.openai import OpenAIEngine
from reward_serve.engines.vllm import VllmClassifier, VllmEngine
from reward_serve.explanation import Explanation
from reward_serve.replica.admission import Admission
from reward_serve.replica.observers import FailureLog, Metrics, VerdictLog
from reward_serve.replica.scoring import Scorer
from reward_serve.reward_models.base import RewardModel
from reward_serve.reward_models.classifier import Classifier
from reward_serve.reward_models.composite import Ask, Cascade, Composite, length
from reward_serve.reward_models.judge import Judge
from reward_serve.reward_models.rubric import RubricJudge
from reward_serve.reward_models.rule import RuleRewardModel
from reward_serve.reward_models.teacher import Teacher
from reward_serve.schema import Status, failure
from reward_serve.version import __version__

logger = logging.getLogger("ray.serve")

_WATCH_PERIOD_S = 0.5
_EXIT_DELAY_S = 0.5
_FLUSH_PERIOD_S = 1.0


class RewardReplica(Scorer):
    """A replica of one reward model, a ``ModelConfig`` as plain data: a ``Scorer`` for Serve."""

    async def __init__(self, model: dict[str, Any], explain: bool = True) -> None:  # type: ignore[misc]
        began = time.monotonic()
        config: models.ModelConfig = TypeAdapter(models.ModelConfig).validate_python(model)
        self._config = config
        self._model = await _start(config)
        self._start_s = {"model": round(time.monotonic() - began, 2)}
        window = getattr(self._model.engine, "window", None)
        super().__init__(
            config.name,
            self._model,
            Admission(config.max_concurrent_items or 1, config.max_queued_items, window),
            config.max_item_bytes,
            explains=explain,
        )
        await self._first_verdict()
        self._observers = [  # only now: the first verdict is not counted
            Metrics(lambda: self._admission.items, self._model.describe),
            FailureLog(config.name),
        ]
        if config.verdict_log.folder:
            log = VerdictLog(config.name, config.verdict_log)
            self._observers.append(log)
            self._model.report_audits(log.audited)
        self._start_s["total"] = round(time.monotonic() - began, 2)
        self._tasks = [
            asyncio.create_task(self._exit_on_failure()),
            asyncio.create_task(self._flush()),
        ]
        logger.info("reward model %s is ready, in seconds: %s", config.name, self._start_s)

    async def describe(self) -> dict[str, Any]:
        """The model's entry in ``/v1/models``, with the replica's process id and start-up times."""
        return {
            "name": self._config.name,
            **self._model.describe(),
            "teacher": self._model.logprobs is not None,
            "max_concurrent_items": self._config.max_concurrent_items,
            "max_queued_items": self._config.max_queued_items,
            "max_item_bytes": self._config.max_item_bytes,
            "items": self._admission.items,
            "version": __version__,
            "pid": os.getpid(),
            "start_s": self._start_s,
        }

    async def record_autoscaling_stats(self) -> dict[str, float]:
        """The items that callers want of this replica, for ``replicas_for_items``."""
        return {"items": float(self._admission.demand())}

    async def check_health(self) -> None:
        """Called by Serve, which replaces a replica whose event loop does not answer in time."""

    async def _first_verdict(self) -> None:
        """Score one request at start-up, so that callers do not wait for one-time work."""
        if (request := self._config.first_request) is None:
            return
        began = time.monotonic()
        result = await (self.logprobs if "token_ids" in request else self.score)(request)
        if self._model.describe().get("outage"):
            return  # the endpoint may come back, and other models are to serve meanwhile
        refused = self._config.endpoint and result["status"] == "invalid"
        if refused or result["status"] == "error":
            raise RuntimeError(f"the first verdict failed: {result['reason']}")
        self._start_s["first verdict"] = round(time.monotonic() - began, 2)

    async def _exit_on_failure(self) -> None:
        """Exit when the model fails: a replica that fails fast would attract traffic."""
        reason = None
        while reason is None:
            await asyncio.sleep(_WATCH_PERIOD_S)
            reason = await self._model.fatal_error()
        logger.error("reward model %s: %s; this replica exits", self._config.name, reason)
        await asyncio.sleep(_EXIT_DELAY_S)  # so that callers receive their typed errors
        os._exit(1)

    async def _flush(self) -> None:
        while True:
            await asyncio.sleep(_FLUSH_PERIOD_S)
            for observer in self._observers:
                observer.flush()

    def __del__(self) -> None:
        for task in getattr(self, "_tasks", ()):
            task.cancel()
        if hasattr(self, "_model"):
            self._model.close()


def _member(member: models.MemberConfig) -> Ask:
    """The function that sends a composite's or cascade's request to a member, by handle."""
    if (member.model, member.application) == (models.LENGTH, None):
        return length
    from ray import serve

    from reward_serve.client import RewardClient, ServiceUnavailableError

    application = member.application or serve.get_replica_context().app_name
    # One retry covers a lost replica; a permanent failure must not delay the other members.
    client = RewardClient(application, member.model, max_attempts=2)

    async def ask(body: dict[str, Any], explains: bool) -> Explanation:
        if not explains:
            return Explanation(result=await client.ascore(body))
        try:
            return await client.aexplain(body)
        except ServiceUnavailableError as error:
            return Explanation(result=failure(Status.ERROR, str(error), model=member.model))

    return ask


async def _start(config: models.ModelConfig) -> RewardModel:
    """The table of kinds: what a replica starts for each configuration."""
    shares = config.resources.num_cpus or 1, config.resources.num_gpus or 0
    match config:
        case models.RubricModel():
            return RubricJudge(config, await _engine(config, shares))
        case models.JudgeModel():
            return Judge(config, await _engine(config, shares))
        case models.TeacherModel():
            return Teacher(config, await VllmEngine.start(config.engine, *shares))
        case models.ClassifierModel():
            return Classifier(config, await VllmClassifier.start(config.engine, *shares))
        case models.CompositeModel():
            return Composite(config, list(map(_member, config.members)))
        case models.CascadeModel():
            return Cascade(config, list(map(_member, config.members)))
        case models.RuleModel():
            return RuleRewardModel(config)


async def _engine(config: models.JudgeModel, shares: tuple[float, float]) -> Engine:
    return OpenAIEngine(config) if config.remote else await VllmEngine.start(config.engine, *shares)
