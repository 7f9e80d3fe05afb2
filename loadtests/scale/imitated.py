"""Ray Serve and machines, imitated on a virtual clock around the service's own code.

A process is a queue for one core, on which calls take as long as ``costs`` measured.
"""

from __future__ import annotations

import asyncio
import pickle
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import grpc  # type: ignore[import-untyped]
from ray.exceptions import ActorDiedError
from ray.serve._private.autoscaling_state import DeploymentAutoscalingState
from ray.serve._private.common import DeploymentID, ReplicaID, ReplicaMetricReport, TimeStampedValue
from ray.serve._private.config import DeploymentConfig
from ray.serve._private.constants import CONTROL_LOOP_INTERVAL_S
from ray.serve._private.deployment_info import DeploymentInfo
from ray.serve.config import AutoscalingConfig, AutoscalingPolicy
from ray.serve.exceptions import BackPressureError

from loadtests.scale.workload import WaitingReplica
from reward_serve.client.transport import HandleTransport, HttpTransport
from reward_serve.routing import dispatch
from tests import virtual_time

MODEL = "waiting"
MAX_ONGOING = 4 * (32 + 4096)  # calls of a replica, as ``deployment_options`` sets it
MESSAGE_BYTES = 4 * 2**20
NOTICED_S = 0.2  # until routers know that replicas have gone or come
_POLICY = AutoscalingPolicy(policy_function="reward_serve.replica.admission:replicas_for_items")

Costs = Mapping[str, Mapping[str, Mapping[str, float]]]
"""As ``costs.measure`` returns them."""


class _CallsSeen(dict[Any, Any]):
    """What each process has seen of replicas' calls, where ``dispatch`` has what one has."""

    process: Process | None = None

    def __setitem__(self, replica: str, seen: Any) -> None:
        super().__setitem__((self.process, replica), seen)

    def get(self, replica: str, default: Any = None) -> Any:
        return super().get((self.process, replica), default)


_seen = _CallsSeen()


def run_virtual(work: Callable[[], Awaitable[Any]]) -> Any:
    """What ``work`` returns on a virtual clock, which ``time`` and this process's clients share."""

    async def worked() -> Any:
        others = dict.fromkeys(("time", "perf_counter"), time.monotonic)
        with patch.dict(vars(time), others), patch.object(dispatch, "_calls_seen", _seen):
            return await work()

    random.seed(0)
    _seen.clear()
    return virtual_time.run(worked)


class Process:
    """A process, which uses one core at a time; ``cores``: when those of its machine are free."""

    def __init__(self, cores: list[float] | None) -> None:
        self._cores, self._free, self.busy_s = cores, 0.0, 0.0
        self.calls = set[Any]()

    async def work(self, costs: Mapping[str, float], **counts: int) -> None:
        """Use a core for so many calls, items and messages, after earlier work."""
        now, seconds = time.monotonic(), sum(costs[k] * n for k, n in counts.items()) / 1000
        starts = max(now, self._free)
        if self._cores is not None:
            free = [at for at in self._cores if at <= starts]
            core = self._cores.index(max(free) if free else min(self._cores))
            starts = max(starts, self._cores[core])
            self._cores[core] = starts + seconds
        self._free = starts + seconds
        await asyncio.sleep(self._free - now)
        self.busy_s += seconds


class Replica(Process):
    """A replica's process, with its scorer and the calls that it has accepted."""

    def __init__(self, name: str, cores: list[float] | None, scorer: WaitingReplica) -> None:
        super().__init__(cores)
        self.name, self.scorer, self.is_dead = name, scorer, False


class Deployment:
    """Replicas, of which there are soon as many as ``target``; a start takes ``start_s``."""

    def __init__(
        self, app: str, make: Callable[[str], Replica], target: int, start_s: float = 20.0
    ) -> None:
        self.app, self._make, self.target, self._start_s = app, make, target, start_s
        self.replicas: dict[str, Replica] = {}
        self._started = self._starting = 0
        self._start(target)

    def _start(self, count: int) -> None:
        names = [f"{self.app}-{n:04}" for n in range(self._started, self._started + count)]
        self.replicas |= {name: self._make(name) for name in names}
        self._started += count
        dispatch.note_replicas(self.app, MODEL, self.replicas)

    async def settle(self) -> None:
        """Start the replicas that are missing, and stop those that are too many."""
        missing = self.target - len(self.replicas) - self._starting
        for name in [*self.replicas][: max(0, -missing)]:
            del self.replicas[name]  # which still answers
        self._starting += max(0, missing)
        await asyncio.sleep(NOTICED_S)
        self._start(0)
        await asyncio.sleep(self._start_s)
        self._starting -= max(0, missing)
        self._start(max(0, missing))

    async def kill(self, count: int) -> None:
        """Kill replicas, whose calls fail, and start others."""
        for name in [*self.replicas][:count]:
            replica = self.replicas.pop(name)
            replica.is_dead = True
            for call in replica.calls:
                call.cancel()
        await self.settle()

    async def autoscale(self, **config: Any) -> None:
        """Serve's own decisions with our policy, on reports as often as replicas make them."""
        scaling = AutoscalingConfig(policy=_POLICY, **config)
        of, seen = DeploymentID(MODEL, self.app), dict[str, list[TimeStampedValue]]()
        state, settling = DeploymentAutoscalingState(of), set()
        options: Any = DeploymentConfig(autoscaling_config=scaling), None, 0, ""
        state.register(DeploymentInfo(*options), self.target)
        look_back_s, push_s = scaling.look_back_period_s, scaling.metrics_interval_s
        record_at = push_at = time.monotonic()
        while True:
            now, ids = time.monotonic(), {name: ReplicaID(name, of) for name in self.replicas}
            if now >= record_at:
                record_at += min(0.2 * look_back_s, push_s)
                for name, replica in self.replicas.items():
                    value = TimeStampedValue(now, float(replica.scorer.admission.demand()))
                    seen[name] = [
                        v for v in seen.get(name, ()) if v.timestamp >= now - look_back_s
                    ] + [value]
            if now >= push_at:
                push_at += push_s
                for name in ids.keys() & seen.keys():
                    report = ReplicaMetricReport(ids[name], {}, {"items": seen[name]}, now)
                    state.record_request_metrics_for_replica(report)
            state.update_running_replica_ids([*ids.values()])
            target, self.target = self.target, state.get_decision_num_replicas(self.target)
            if target != self.target:
                settling.add(asyncio.create_task(self.settle()))
            await asyncio.sleep(CONTROL_LOOP_INTERVAL_S)


class Call:
    """What ``remote`` returns: answers that are pushed, to be awaited or iterated over."""

    def __init__(self, answers: AsyncGenerator[Any, None], receive: Callable[[Any], Any]) -> None:
        self._receive, self._answers = receive, asyncio.Queue[tuple[Any, Any]]()
        self._task = asyncio.create_task(self._push(answers))
        self.cancel = self._task.cancel

    async def _push(self, answers: AsyncGenerator[Any, None]) -> None:
        try:
            async for answer in answers:
                self._answers.put_nowait((answer, None))
            self._answers.put_nowait((None, StopAsyncIteration()))
        except BaseException as error:
            self._answers.put_nowait((None, error))

    def __aiter__(self) -> Call:
        return self

    async def __anext__(self) -> Any:
        answer, error = await self._answers.get()
        if error is not None:
            raise error
        await self._receive(answer)
        return answer

    def __await__(self) -> Any:
        return self.__anext__().__await__()


class Handle:
    """A process's Serve handle: pickles, chooses as ``GroupRouter`` does, refuses as Serve does."""

    deployment_name = MODEL

    def __init__(self, caller: Process, to: Deployment, costs: Any, session: str = "") -> None:
        self._caller, self._to, self._costs, self._session = caller, to, costs, session

    @property
    def app_name(self) -> str:
        """The application, which is read just before items are placed."""
        _seen.process = self._caller
        return self._to.app

    def options(self, session_id: str = "", **_: Any) -> Handle:
        """The handle for a session."""
        return Handle(self._caller, self._to, self._costs, session_id)

    def __getattr__(self, method: str) -> Any:
        return SimpleNamespace(remote=lambda *of: Call(self._answers(method, of), self._receive))

    async def _receive(self, answer: Sequence[Any]) -> None:
        if isinstance(answer[0], tuple):  # of a stream
            await self._caller.work(self._costs["caller"], message=1)

    async def _answers(self, method: str, arguments: Any) -> AsyncGenerator[Any, None]:
        await self._caller.work(self._costs["caller"], **_counts(arguments[0]))
        if len(content := pickle.dumps(arguments)) > MESSAGE_BYTES:
            error = grpc.RpcError()
            error.code = lambda: grpc.StatusCode.RESOURCE_EXHAUSTED
            raise error
        replica, task = await self._chosen(), asyncio.current_task()
        replica.calls.add(task)
        _seen.process = self._caller
        dispatch.note_calls(replica.name, len(replica.calls))
        try:
            await replica.work(self._costs["replica"], **_counts(arguments[0]))
            scored = getattr(replica.scorer, method)(*pickle.loads(content))
            if method == "score_batch":
                yield await scored
                return
            async for answer in scored:
                await replica.work(self._costs["replica"], message=1)
                yield answer
        except asyncio.CancelledError:
            if replica.is_dead:
                raise ActorDiedError from None
            raise
        finally:
            replica.calls.discard(task)

    async def _chosen(self) -> Replica:
        while not (replicas := self._to.replicas):  # noqa: ASYNC110
            await asyncio.sleep(NOTICED_S)
        known = replicas.get(self._session)
        replica = known or _less_busy([*replicas.values()])
        if len(replica.calls) >= MAX_ONGOING:
            raise BackPressureError(len(replica.calls), MAX_ONGOING)
        return replica


def _less_busy(processes: Sequence[Any]) -> Any:
    two = random.sample(processes, min(2, len(processes)))
    return min(two, key=lambda process: len(process.calls))


def _counts(items: Sequence[Any]) -> dict[str, int]:
    return {"single": 1} if len(items) == 1 else {"stream": 1, "item": len(items)}


class ByHttp(HandleTransport):
    """From a client through its proxy to an ingress replica, whose dispatcher calls replicas."""

    window_s_per_batch = HttpTransport.window_s_per_batch

    def __init__(
        self,
        hops: Mapping[str, Process],
        ingresses: Mapping[Process, dispatch.Dispatcher],
        costs: Mapping[str, Any],
    ) -> None:
        super().__init__("by HTTP")
        self._hops, self._ingresses, self._costs = hops, ingresses, costs

    async def _pass(self, **counts: int) -> None:
        for name, hop in self._hops.items():
            await hop.work(self._costs[name], **counts)

    async def _score(self, requests: Sequence[Any], receive: dispatch.Deliver) -> None:
        counts = _counts(requests)
        message = {"message": 1} if "stream" in counts else {}
        await self._pass(**counts)
        ingress, task = _less_busy([*self._ingresses]), asyncio.current_task()

        async def answers() -> AsyncGenerator[Any, None]:
            await ingress.work(self._costs["ingress"], **counts)
            async for results in self._ingresses[ingress].score_stream(requests):
                await ingress.work(self._costs["ingress"], **message)
                yield results

        ingress.calls.add(task)
        try:
            async for results in Call(answers(), lambda _: self._pass(**message)):
                receive(results)
        finally:
            ingress.calls.discard(task)
