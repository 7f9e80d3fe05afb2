"""Sends items to reward models: which model, which of its replicas, in calls of how many bytes.

Each call runs a method of ``replica.deployment.RewardReplica`` in another process, such as
``RewardReplica.score_batch``.

The caller chooses the replicas. The samples of a group share work (the prompt up to the response,
equal answers) if they go to the same replica. A new group goes to its first choice by rendezvous
hashing, which is the same in every process; adding or removing a replica changes the first choice
of only that replica's groups. Loads are bounded, as in consistent hashing with bounded loads
(Mirrokni, Thorup and Zadimoghaddam, 2018): beyond the mean of this process's items in flight, a new
group goes to the least loaded replica. A group stays where it was placed, as its prompt is cached
there, until its replica goes, would exceed 1.5 times that bound, or is seen to have 8 calls more
than the group's second choice. A replica says how many calls it has, of all processes, when it
accepts one.
"""

from __future__ import annotations

import asyncio
import logging
import math
import pickle
import threading
import time
import zlib
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import Context
from dataclasses import dataclass, field
from hashlib import blake2b
from heapq import nlargest
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from reward_serve.explanation import Explanation
from reward_serve.keys import use_ray_token
from reward_serve.logprobs import LogprobsResult, places_asked
from reward_serve.schema import (
    REFUSED,
    GroupResult,
    ScoreResult,
    Status,
    echoes,
    failure,
    group_failure,
    longest_timeout_s,
    size_of_group,
)

if TYPE_CHECKING:
    from ray.serve.handle import DeploymentHandle

logger = logging.getLogger("ray.serve")

REPLICA_GRACE_S = 2.0  # replicas enforce the deadline; this bounds calls that never reach one
MESSAGE_BYTES = 2 * 2**20
"""Maximum bytes of items in one call; a larger item is refused."""

_READY_TIMEOUT_S = 2.0

_MAX_ITEMS = 256  # in one call, whose results have at most 4 MiB

_LARGE = frozenset(["logprobs", "complete"])

_ALWAYS = 8  # items that a replica takes regardless of its load: a typical group
_STAYS = 1.5  # a group leaves its replica at this many times the bound
_SEEN_S = 2.0  # how long a replica's number of calls is believed
_REMEMBERED = 8192
_KEY_CHARS = 512
_KEY_TOKENS = 128

Result = dict[str, Any]
Deliver = Callable[[Sequence[tuple[int, Any]]], object]
"""Is called with results as they come, each with its index in the batch."""
Origin = tuple[object, str | None]
"""Where items come from: the id of the batch that they are a part of, and the API key's name."""
UNKNOWN: Origin = (None, None)


class UnknownModelError(LookupError):
    """No reward model has this name; the message lists the names."""


class NoAnswerError(Exception):
    """No replica answered a call.

    Attributes:
        status: ``timeout``, ``overloaded`` or ``error``; ``invalid`` if a retry cannot help.
        reason: why the call failed.
    """

    def __init__(self, status: Status, reason: str) -> None:
        self.status, self.reason = status, reason

    @property
    def details(self) -> dict[str, Any] | None:
        """The details of the results, by which ``is_answer`` tells them from a replica's own."""
        return {"unanswered": True} if self.status in (Status.TIMEOUT, Status.ERROR) else None


class Dispatcher:
    """Sends items to reward models.

    Args:
        models: the models' handles by name; items without ``model`` are sent to the first.
        aliases: alternative names of the models.
        by_row: a ``ByRowConfig`` as plain data, for items without ``model``.
        grace_s: see ``DeploymentClient``.
        detached: see ``DeploymentClient``.
    """

    def __init__(
        self,
        models: Mapping[str, DeploymentHandle],
        aliases: Mapping[str, str] | None = None,
        by_row: Mapping[str, Any] | None = None,
        *,
        grace_s: float = REPLICA_GRACE_S,
        detached: bool = False,
    ) -> None:
        self._models = {
            name: DeploymentClient(handle, grace_s, detached) for name, handle in models.items()
        }
        self._default = next(iter(models))
        self.aliases: Mapping[str, str] = aliases or {}
        """Alternative names of the models."""
        self.by_row = by_row
        """Which rows go to which models."""
        self.applications = {name: handle.app_name for name, handle in models.items()}
        """Reward model name to Serve application name."""

    def pick(self, name: object) -> str:
        """Resolve a model name or alias; None is the default model.

        Raises:
            UnknownModelError: no model has this name.
        """
        if name is None:
            return self._default
        name = self.aliases.get(name, name) if isinstance(name, str) else name
        if not isinstance(name, str) or name not in self._models:
            raise UnknownModelError(
                f"model: no model is named {ascii(name)[:80]}; choose from "
                f"{', '.join(self._models)}"
            )
        return name

    def _of_row(self, item: Any) -> str | None:
        """The model of an item that names none; None is the default model.

        Raises:
            ValueError: the item's row matches none.
        """
        if self.by_row is None or not isinstance(item, dict):
            return None
        field, models = self.by_row["field"], self.by_row["models"]
        metadata = item.get("metadata")
        value = metadata.get(field) if isinstance(metadata, dict) else None
        if isinstance(value, str):
            begins = [k for k in models if k[-1:] == "*" and value.startswith(k[:-1])]
            if key := value if value in models else max(begins, key=len, default=None):
                return str(models[key])
        if (default := self.by_row["default"]) is None:
            raise ValueError(
                f"metadata.{field}: {value!a:.80} is in no row of server.by_row.models "
                f"({', '.join(models)}); send one of these, or model, or set server.by_row.default"
            )
        return str(default)

    async def score_each(
        self, items: Sequence[Any], deliver: Deliver, origin: Origin = UNKNOWN
    ) -> None:
        """Score each item with the model that it or its row names; deliver final results.

        Args:
            items: score requests as plain data.
            deliver: is called with results as they come.
            origin: has a batch's id if the items are only a part of it.
        """
        parts, refused = self._parts(items)
        if refused:
            deliver([(i, r.model_dump(mode="json") | echoes(items[i])) for i, r in refused.items()])
        scoring = (self._models[m].score_each(part, deliver, origin) for m, part in parts.items())
        await asyncio.gather(*scoring)

    async def score_batch(self, items: Sequence[Any], origin: Origin = UNKNOWN) -> list[Result]:
        """The results of ``score_each``, in order."""
        results: dict[int, Result] = {}
        await self.score_each(items, results.update, origin)
        return [results[index] for index in range(len(items))]

    async def score_stream(
        self, items: Sequence[Any], origin: Origin = UNKNOWN
    ) -> AsyncGenerator[Sequence[tuple[int, Result]], None]:
        """What ``score_each`` delivers."""
        delivered: asyncio.Queue[Any] = asyncio.Queue()
        scoring = asyncio.create_task(self.score_each(items, delivered.put_nowait, origin))
        scoring.add_done_callback(lambda _: delivered.put_nowait(None))
        try:
            while (results := await delivered.get()) is not None:
                yield results
            await scoring
        finally:
            scoring.cancel()

    async def explain(self, body: dict[str, Any], origin: Origin = UNKNOWN) -> Result:
        """The explanation of a request's result, by the model that the request names."""
        answer = await self._ask("explain", body, origin)
        if not isinstance(answer, ScoreResult):
            return answer
        return Explanation(result=answer.model_copy(update=echoes(body))).model_dump(mode="json")

    async def logprobs(self, body: dict[str, Any], origin: Origin = UNKNOWN) -> Result:
        """The log-probabilities of a sequence, by the teacher that the request names."""
        answer = await self._ask("logprobs", body, origin)
        if isinstance(answer, ScoreResult):
            kept = answer.model_dump(include={"status", "reason", "details", "model"})
            return LogprobsResult(**{**kept, **echoes(body)}).plain()
        return answer

    async def score_group(self, body: dict[str, Any], origin: Origin = UNKNOWN) -> Result:
        """The result of a group, by the model that the request names."""
        answer = await self._ask("score_group", body, origin)
        if isinstance(answer, ScoreResult):
            failed = group_failure(answer, size_of_group(body), **echoes(body))
            return failed.model_dump(mode="json")
        return answer

    async def _ask(self, method: str, body: dict[str, Any], origin: Origin) -> Result | ScoreResult:
        """The answer of the model that a request names, or the failure to get one."""
        parts, refused = self._parts([body])
        if refused:
            return refused[0]
        ((model, part),) = parts.items()
        try:
            return await self._models[model].ask(method, part[0], origin)
        except NoAnswerError as error:
            return failure(error.status, error.reason, model=model, details=error.details)

    async def complete(
        self, model: str, body: dict[str, Any], within_s: float, origin: Origin = UNKNOWN
    ) -> Result:
        """The model's chat or text completion.

        Raises:
            NoAnswerError: the model did not answer.
        """
        within_s += REPLICA_GRACE_S
        call = self._models[model].call
        answer: Result = await call("complete", body, within_s=within_s, origin=origin)
        return answer

    async def describe(self) -> list[Result]:
        """Each model's description, and whether it is ready."""
        return await asyncio.gather(*map(self._describe, self._models))

    async def _describe(self, name: str) -> Result:
        try:
            description = await self._models[name].call("describe", within_s=_READY_TIMEOUT_S)
            return {**description, "ready": not description.get("outage")}
        except NoAnswerError:
            return {"name": name, "ready": False}

    def _parts(
        self, items: Sequence[Any]
    ) -> tuple[dict[str, dict[int, Any]], dict[int, ScoreResult]]:
        """Group the items by model: each model's items by index, and the other items' results.

        An alias is replaced by the model's name, which the replicas expect. Items that are not
        objects, or whose model is not a string, go to the default model, which rejects them.
        """
        parts: dict[str, dict[int, Any]] = {}
        refused: dict[int, ScoreResult] = {}
        for index, item in enumerate(items):
            name = item.get("model") if isinstance(item, dict) else None
            name = name if isinstance(name, str) else None
            try:
                model = self.pick(self._of_row(item) if name is None else name)
            except UnknownModelError as error:
                refused[index] = failure(Status.INVALID, str(error), details=REFUSED)
                continue
            except ValueError as error:  # this row, and not all requests
                refused[index] = failure(Status.INVALID, str(error))
                continue
            addressed = item if name in (None, model) else {**item, "model": model}
            parts.setdefault(model, {})[index] = addressed
        return parts, refused


class DeploymentClient:
    """Calls the replicas of one deployment. If a replica does not answer, its items fail.

    Ray's consistent-hash router identifies a waiting call by the id of the Serve request that makes
    it, and would answer only one of several calls with the same id. Each of the calls of a split
    batch is therefore made in a new context, which gives it an id of its own. A single call keeps
    its request's id, under which it is logged.

    Args:
        handle: the Serve handle. The constructor initialises it if it is unused, which must not
            happen in two threads at once.
        grace_s: how long to wait beyond the deadline, which the replica enforces.
        detached: for clients: single calls get a new context too, as a client makes several at
            once, and unanswered items are logged at DEBUG, as the client reports the outage.
    """

    def __init__(
        self, handle: Any, grace_s: float = REPLICA_GRACE_S, detached: bool = False
    ) -> None:
        # Over gRPC a call takes half the time of one through Ray's object store, the default, which
        # suits data with several readers.
        self._handle = handle.options(
            _by_reference=False, request_serialization="pickle", response_serialization="pickle"
        )
        self._large = handle.options(_by_reference=True)  # for answers beyond gRPC's 4 MiB
        self._grace_s = grace_s
        self._detached = detached
        self._placement = Placement()

    async def score_each(
        self, items: Mapping[int, Any], deliver: Deliver, origin: Origin = UNKNOWN
    ) -> None:
        """Score the items of some indices with ``RewardReplica.score_stream``; deliver each."""
        with self._placed(items, origin) as shares:
            await asyncio.gather(*(self._score(share, items, deliver) for share in shares))

    async def ask(self, method: str, request: Any, origin: Origin = UNKNOWN) -> Result:
        """Call ``explain`` or ``score_group`` of the replica that has the request's group.

        Raises:
            NoAnswerError: no replica answered.
        """
        with self._placed({0: request}, origin) as (share,):
            within_s = longest_timeout_s([request]) + self._grace_s
            answer: Result = await self._call(method, share, within_s, request)
        return answer

    async def call(
        self, method: str, *arguments: Any, within_s: float, origin: Origin = UNKNOWN
    ) -> Any:
        """Call a method of any replica; raises like ``ask``."""
        share = Share(None, size=size_of(arguments), origin=origin)
        return await self._call(method, share, within_s, *arguments)

    async def _score(self, share: Share, items: Mapping[int, Any], deliver: Deliver) -> None:
        bodies = [items[index] for index in share.indices]
        left, within_s = dict(enumerate(share.indices)), longest_timeout_s(bodies) + self._grace_s

        def receive(results: Sequence[tuple[int, Result]]) -> None:
            self._placement.done(share, len(results))
            deliver([(left.pop(place), result) for place, result in results])

        try:
            if len(bodies) == 1:  # a call costs less than a stream
                receive([*enumerate(await self._call("score_batch", share, within_s, bodies))])
            else:
                await self._call("score_stream", share, within_s, bodies, receive=receive)
        except NoAnswerError as error:
            failures = self._failures([bodies[place] for place in left], error)
            receive([*zip(left, failures, strict=True)])

    async def _call(
        self, method: str, share: Share, within_s: float, *arguments: Any, receive: Any = None
    ) -> Any:
        """Call the share's replica; what is known of the share's origin is the last argument.

        With ``receive`` the method is streamed until the share is answered. The call is cancelled
        if the time is up or the caller is cancelled.

        Raises:
            NoAnswerError: the call failed or timed out, or is one item that no message carries.
        """
        if share.size > MESSAGE_BYTES:
            raise NoAnswerError(
                Status.INVALID,
                f"request: has {share.size} bytes with its metadata; send at most {MESSAGE_BYTES}",
            )
        if share.origin != UNKNOWN:
            arguments = (*arguments, share.origin)
        streams, replica = receive is not None, share.replica or ""
        handle = self._large if method in _LARGE else self._handle
        remote = getattr(handle.options(stream=streams, session_id=replica), method).remote
        is_single = share.origin[0] is None and not self._detached
        call = remote(*arguments) if is_single else Context().run(remote, *arguments)
        try:
            async with asyncio.timeout(within_s):
                if receive is None:
                    return await call
                async for results in call:
                    receive(results)
                    if not share.unanswered:
                        return None  # the end of the stream would cost as much as another result
            raise NoAnswerError(Status.ERROR, "the replica's answer ended early; retry")
        except BaseException as error:
            call.cancel()
            by_replica = isinstance(error, asyncio.CancelledError) and not cancelled_by_caller()
            if by_replica or isinstance(error, call_errors()):
                raise _no_answer(error) from error
            raise

    @contextmanager
    def _placed(self, items: Mapping[int, Any], origin: Origin) -> Iterator[list[Share]]:
        """The batch split into calls, which are counted as load until the block ends."""
        replicas = known_replicas(self._handle.app_name, self._handle.deployment_name)
        shares = self._placement.shares(items, replicas)
        batch = origin[0] or (uuid4().hex if len(shares) > 1 else None)
        for share in shares:
            share.origin = batch, origin[1]
        try:
            yield shares
        finally:
            for share in shares:
                self._placement.done(share, share.unanswered)

    def _failures(self, items: Iterable[Any], error: NoAnswerError) -> list[Result]:
        model, cause = self._handle.deployment_name, error.__cause__
        fields = {"details": error.details, "model": model}
        failures = [failure(error.status, error.reason, **fields, **echoes(item)) for item in items]
        level = logging.DEBUG if self._detached else logging.WARNING
        logger.log(level, "reward model %s: %d items unanswered: %r", model, len(failures), cause)
        return [result.model_dump(mode="json") for result in failures]


def _no_answer(error: BaseException) -> NoAnswerError:
    from grpc import StatusCode  # type: ignore[import-untyped]
    from ray.serve.exceptions import BackPressureError

    if isinstance(error, TimeoutError):
        return NoAnswerError(Status.TIMEOUT, "no replica answered in time")
    if isinstance(error, BackPressureError):
        reason = "every replica is at its limit of calls; retry after a pause"
        return NoAnswerError(Status.OVERLOADED, reason)
    code = getattr(error, "code", None)  # of a grpc.RpcError
    if callable(code) and code() is StatusCode.RESOURCE_EXHAUSTED:
        return NoAnswerError(Status.INVALID, "the results exceed 4 MiB; send fewer items at once")
    return NoAnswerError(Status.ERROR, f"the replica was lost ({type(error).__name__}); retry")


_known: dict[tuple[str, str], tuple[str, ...]] = {}
_calls_seen: dict[str, tuple[int, float]] = {}


def note_replicas(app: str, deployment: str, replicas: Iterable[str]) -> None:
    """Set the ids of a deployment's replicas, as this process's routers report them."""
    before = known_replicas(app, deployment)
    _known[app, deployment] = now = tuple(replicas)
    for gone in {*before} - {*now}:
        _calls_seen.pop(gone, None)


def note_calls(replica: str, calls: int) -> None:
    """Set the number of a replica's calls, of all processes, as it says when it accepts one."""
    _calls_seen[replica] = calls, time.monotonic()


def calls_seen(replica: str) -> int:
    """The number of a replica's calls, if it was seen lately; else 0."""
    calls, at = _calls_seen.get(replica, (0, 0.0))
    return calls if time.monotonic() - at < _SEEN_S else 0


def known_replicas(app: str, deployment: str) -> tuple[str, ...]:
    """The replica ids of a deployment; empty if Serve places its calls."""
    return _known.get((app, deployment), ())


@dataclass(eq=False)
class Share:
    """The part of a batch that goes to one replica in one call.

    Attributes:
        replica: the replica's id; None if Serve chooses it.
        indices: indices of the items in the batch.
        unanswered: number of items without a result, which are counted as the replica's load, a
            long sequence as several.
        size: bytes of the items, as a list of which they take fewer.
        origin: has a batch's id, which tells the replica that other parts belong to it, unless
            this is the whole batch.
    """

    replica: str | None
    indices: list[int] = field(default_factory=list)
    unanswered: int = 0
    size: int = 0
    origin: Origin = UNKNOWN


class Placement:
    """Places this process's items for one deployment. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loads: Counter[str] = Counter()
        self._homes: dict[int, tuple[str, str]] = {}  # and the other choice; the latest at the end

    def shares(self, items: Mapping[int, object], replicas: Sequence[str]) -> list[Share]:
        """Split the batch into calls; call ``done`` as the items of each are answered."""
        if len(replicas) < 2 or not items:
            return _calls(items, None, items)
        sizes = {index: places_asked(item) for index, item in items.items()}
        groups: dict[int, list[int]] = {}
        for index, item in items.items():
            groups.setdefault(group_key(item), []).append(index)
        parts: dict[str, list[int]] = {}

        def place(indices: list[int], replica: str) -> None:
            self._loads[replica] += sum(sizes[index] for index in indices)
            parts.setdefault(replica, []).extend(indices)

        with self._lock:
            total = sum(self._loads[replica] for replica in replicas) + sum(sizes.values())
            mean = total / len(replicas)
            most = max(_ALWAYS, math.ceil(mean))
            for group, members in groups.items():
                bodies = (items[index] for index in members)
                size = sum(sizes[index] for index in members)
                if any(isinstance(i, Mapping) and i.get("group_size") is not None for i in bodies):
                    # They are judged together, in the replica that every other process chooses.
                    place(members, first_choice(group, replicas))
                elif size <= most or len(members) == 1:
                    place(members, self._home(group, size, replicas, most))
                else:  # too many for one replica
                    for start in range(0, len(members), _ALWAYS):
                        place(members[start : start + _ALWAYS], self._least_loaded(replicas))
            return [share for part in parts.items() for share in _calls(items, *part)]

    def done(self, share: Share, items: int) -> None:
        """Mark some of the share's items as answered."""
        with self._lock:
            share.unanswered -= items
            if share.replica is not None:
                self._loads[share.replica] -= items

    def _home(self, group: int, size: int, replicas: Sequence[str], most: float) -> str:
        home, other = self._homes.pop(group, ("", ""))
        if home in replicas:
            most = _STAYS * most
        else:
            home, other = nlargest(2, replicas, key=_rank(group))
        if self._loads[home] + size > most:
            home = self._least_loaded(replicas)
        elif other in replicas:
            least = max(self._loads[other], calls_seen(other)) + _ALWAYS
            home, other = (other, home) if calls_seen(home) >= least else (home, other)
        self._homes[group] = home, other
        if len(self._homes) > _REMEMBERED:
            del self._homes[next(iter(self._homes))]
        return home

    def _least_loaded(self, replicas: Sequence[str]) -> str:
        return min(replicas, key=self._loads.__getitem__)


def first_choice(group: int, replicas: Sequence[str]) -> str:
    """The group's replica by rendezvous hashing, the same in every process."""
    return max(replicas, key=_rank(group))


def _rank(group: int) -> Callable[[str], bytes]:
    return lambda replica: blake2b(f"{replica} {group}".encode()).digest()


def group_key(item: object) -> int:
    """A hash of the item's group, the same in every process.

    A request without ``group`` is identified by its reference and question, or its first tokens.
    """
    fields = item if isinstance(item, Mapping) else {}
    group, ids = fields.get("group"), fields.get("token_ids")
    key = group if isinstance(group, str) else (fields.get("reference"), fields.get("question"))
    if isinstance(ids, list) and not isinstance(group, str):
        key = repr(ids[:_KEY_TOKENS])
    return zlib.crc32(_text(key).encode("utf-8", "replace"))


def _text(value: object) -> str:
    if isinstance(value, str):
        return value[:_KEY_CHARS]
    if isinstance(value, list | tuple):
        return "\x1f".join(_text(part) for part in value[:8])
    return type(value).__name__  # an integer of 5,000 digits has no text


def _calls(items: Mapping[int, object], replica: str | None, indices: Iterable[int]) -> list[Share]:
    """The calls to one replica, in order, of at most ``MESSAGE_BYTES`` or one larger item each."""
    shares = [Share(replica)]
    for index in indices:
        size = size_of(items[index])
        full = len(shares[-1].indices) == _MAX_ITEMS
        if full or (shares[-1].indices and shares[-1].size + size > MESSAGE_BYTES):
            shares.append(Share(replica))
        shares[-1].indices.append(index)
        shares[-1].unanswered += places_asked(items[index])
        shares[-1].size += size
    return shares


def size_of(value: object) -> int:
    """The bytes of plain data in a message, which Serve pickles; of what it cannot, a call's."""
    try:
        return len(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
    except Exception:  # too deep, say; alone in its call, it fails alone
        return MESSAGE_BYTES


def is_answer(result: ScoreResult | GroupResult | LogprobsResult) -> bool:
    """Whether a result shows that its model's replicas answer."""
    return not (result.details or {}).get("unanswered")


def call_errors() -> tuple[type[BaseException], ...]:
    """The exceptions of a call whose replica is gone, refuses it or does not answer in time."""
    import grpc
    from ray.exceptions import RayError
    from ray.serve.exceptions import RayServeException

    return TimeoutError, RayError, RayServeException, grpc.RpcError


def cancelled_by_caller() -> bool:
    """Whether a CancelledError comes from cancelling this task, not from the called replica."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def handle_of(app: str, deployment: str | None = None) -> Any:
    """The Serve handle of an application's ingress, or of a deployment, which may not exist yet.

    Raises:
        ConnectionError: this process is not in a Ray cluster, and none was found. Serve itself
            would start one, in which nothing is deployed.
        ImportError: Ray is not installed.
    """
    import ray
    from ray import serve

    if not ray.is_initialized():
        use_ray_token()
        ray.init(address="auto", namespace="serve")
    if deployment is None:
        return serve.get_app_handle(app)
    return serve.get_deployment_handle(deployment, app, _check_exists=False)
