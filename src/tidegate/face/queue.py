"""Durable jobs on SQLite, or on PostgreSQL by changing the URL."""

from __future__ import annotations

import asyncio
import inspect
import random
import threading
import typing
import uuid
from collections.abc import Callable, Hashable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

from tidegate.core.backoff import Backoff
from tidegate.core.checks import valid_name, whole
from tidegate.core.codes import CORE, CodeBook
from tidegate.core.duration import Duration
from tidegate.core.job import DEFAULT_ATTEMPTS, Job, JobEvent
from tidegate.core.serial import decoder, encode
from tidegate.face.db import Db
from tidegate.face.job_function import Enqueued, JobFunction, intake_of
from tidegate.face.target import Target
from tidegate.machine.lifecycle import JOB_BACKOFF, KindPolicy
from tidegate.runtime.clock import SYSTEM, Clock
from tidegate.runtime.job_gates import JobGates
from tidegate.runtime.job_kinds import JobKind
from tidegate.runtime.job_target import TargetRules
from tidegate.runtime.stopping import Watchdog, on_signals
from tidegate.runtime.threads import Inline, RealThreads, Threads
from tidegate.runtime.wake import Wake
from tidegate.runtime.worker import Worker
from tidegate.runtime.worker_policy import Tally, WorkerPolicy
from tidegate.store import people, tallies, watching
from tidegate.store.migrate import core_migrations, migrate
from tidegate.store.opening import open_store
from tidegate.store.tx import Store, Tx

A = TypeVar("A")
R = TypeVar("R")
T = TypeVar("T")

_MOST_ARGS = 1_000_000


@dataclass(frozen=True, slots=True)
class Drained:
    """What one cycle of `drain` did."""

    done: int
    again: int
    failed: int
    held: int  # a gate is shut: before the claim, or one inside the handler
    remaining: int  # not final: held, waiting for a time or a parent, or put in meanwhile


class Queue:
    """Jobs that survive a crash: leases, dedupe, dependencies, and claims that pass the gates of their targets.

    q = Queue("sqlite:///jobs.db")                  # or postgresql://...

    @q.job(queue="mail", attempts=5)
    async def send(to: str) -> None: ...

    send.enqueue("ada@example.org")
    q.run_worker()
    """

    def __init__(
        self,
        url: str,
        *,
        driver: str | None = None,
        clock: Clock = SYSTEM,
        inline: bool = False,
        most_args: int = _MOST_ARGS,
        retention: Mapping[str, Mapping[Any, float]] | None = None,
        dice: Callable[[], float] = random.random,
    ) -> None:
        self.clock = clock
        self.store: Store = open_store(url, now=clock.now, driver=driver, virtual=clock is not SYSTEM)
        migrate(self.store, core_migrations())
        self.db = Db(self.store)
        self._kinds: dict[str, JobKind] = {}
        self._targets: dict[str, TargetRules] = {}
        self._wakes: list[Wake] = []
        self._lock = threading.Lock()
        self._inline = inline
        self._most_args = most_args
        self._retention = retention or {}
        self._dice = dice
        self._store_id = self._identity()

    # -- declaring -----------------------------------------------------------------------------------------------

    def job(
        self,
        *,
        queue: str = "default",
        name: str | None = None,
        target: Target | None = None,
        key: Callable[[Any], Hashable] | None = None,
        unique: Callable[[Any], Hashable] | None = None,
        while_: AbstractSet[str] | None = None,
        attempts: int = DEFAULT_ATTEMPTS,
        per_code: Mapping[str, int] | None = None,
        backoff: Backoff | None = None,
        verify: Callable[..., Any] | None = None,
        process: bool = False,
        expires: Duration | None = None,
        cancellable: bool = True,
    ) -> Callable[[Callable[..., Any]], JobFunction[Any, Any]]:
        """Declares a kind of job. The handler takes the arguments, and a `Context` if it wants one."""
        policy = KindPolicy(
            attempts=whole(attempts, field="attempts", most=1000),
            per_code={code: whole(n, field=f"per_code[{code!r}]") for code, n in (per_code or {}).items()},
            backoff=backoff or JOB_BACKOFF,
        )
        put = intake_of(key, unique, while_, expires, self._most_args)

        def declare(fn: Callable[..., Any]) -> JobFunction[Any, Any]:
            label = name or f"{queue}.{fn.__name__}"
            if label in self._kinds:
                raise ValueError(f"name: there is a kind {label!r} already")
            arguments, wants_context = _signature(fn)
            kind = JobKind(
                name=valid_name(label, field="name"), queue=valid_name(queue, field="queue"), handler=fn,
                decode=decoder(arguments), encode_result=_encode_result, takes_context=wants_context,
                colour="process" if process else "async" if inspect.iscoroutinefunction(fn) else "thread",
                policy=policy, target="" if target is None else target.name, verify=verify, cancellable=cancellable,
            )  # fmt: skip
            self._kinds[label] = kind
            if target is not None:
                self._targets[target.name] = target.for_jobs()
            return JobFunction(self, kind, put)

        return declare

    def code_book(self, kind: JobKind) -> CodeBook:
        rules = self._targets.get(kind.target)
        return CORE if rules is None or rules.pack is None else rules.pack.book

    # -- putting in ----------------------------------------------------------------------------------------------

    def put(self, work: Callable[[Tx], T], connection: Any = None) -> T:
        """Runs *work* in a transaction of its own, or on the user's open connection; wakes the workers."""
        if connection is not None:
            return work(self.store.on(connection))
        result = self.store.write(work)
        for wake in self._wakes:
            wake.news()
        watching.tell(self.store)
        return result

    # -- asking and acting ---------------------------------------------------------------------------------------

    def get(self, job: Enqueued | int) -> Job:
        """The job as it stands; KeyError when there is none."""
        found = self.store.read(lambda tx: people.get(tx, _id(job)))
        if found is None:
            raise KeyError(f"there is no job {_id(job)}")
        return found

    def events(self, job: Enqueued | int) -> list[JobEvent]:
        """What happened to it, oldest first."""
        return self.store.read(lambda tx: people.events(tx, _id(job)))

    def retry(self, job: Enqueued | int, by: str = "person") -> bool:
        """Queues a failed job again: attempts restart, history stays. False when it has not failed."""
        return self.put(lambda tx: people.retry(tx, _id(job), by))

    def cancel(self, job: Enqueued | int, by: str = "person") -> str | None:
        """'cancelled', or 'asked' when it runs and its handler was told, or None when there is nothing to cancel."""
        kind = self._kinds.get(self.get(job).kind)
        if kind is not None and not kind.cancellable:
            raise ValueError(f"jobs of the kind {kind.name!r} cannot be cancelled")
        return self.put(lambda tx: people.cancel(tx, _id(job), by))

    def forget(self, job: Enqueued | int) -> bool:
        """Removes a final job with its history, and frees its unique."""
        return self.put(lambda tx: people.forget(tx, _id(job)))

    # -- working -------------------------------------------------------------------------------------------------

    async def arun_worker(
        self,
        concurrency: int = 20,
        *,
        queues: AbstractSet[str] | None = None,
        stop: asyncio.Event | None = None,
        **numbers: Any,
    ) -> Tally:
        """Works until *stop* is set, or the task is cancelled."""
        stop = stop or asyncio.Event()
        worker, wake, threads = self._worker(concurrency, queues, numbers)
        try:
            await worker.run(stop)
        finally:
            self._wakes.remove(wake)
            threads.close()
        return worker.tally

    def run_worker(self, concurrency: int = 20, *, queues: AbstractSet[str] | None = None, **numbers: Any) -> Tally:
        """Works until SIGTERM or SIGINT; a second signal ends the process at once."""
        watchdog = Watchdog(WorkerPolicy(concurrency=concurrency, **numbers).longest_stop)

        async def main() -> Tally:
            stop = asyncio.Event()
            with on_signals(stop, watchdog):
                return await self.arun_worker(concurrency, queues=queues, stop=stop, **numbers)

        try:
            return asyncio.run(main())
        finally:
            watchdog.disarm()

    async def adrain(self, queue: str | None = None, *, concurrency: int = 20) -> Drained:
        """One cycle: every job that is there and may go now has one turn; then it returns what it did.

        What is put in meanwhile, and what is to be tried again, is for the next cycle.
        """
        names = None if queue is None else {queue}
        worker, wake, threads = self._worker(concurrency, names, {})
        try:
            done = await worker.drain()
        finally:
            self._wakes.remove(wake)
            threads.close()
        shut, remaining = self.store.read(lambda tx: _left(tx, worker.queues, worker.newest or 0))
        return Drained(done.done, done.again, done.failed, done.held + shut, remaining)

    def drain(self, queue: str | None = None, *, concurrency: int = 20) -> Drained:
        """As `adrain`, for a program without a loop."""
        return asyncio.run(self.adrain(queue, concurrency=concurrency))

    def _worker(
        self, concurrency: int, queues: AbstractSet[str] | None, numbers: dict[str, Any]
    ) -> tuple[Worker, Wake, Threads]:
        whole(concurrency, field="concurrency", most=10_000)
        if not self._kinds:
            raise ValueError("there is no job declared on this queue, so nothing to work on")
        known = frozenset(kind.queue for kind in self._kinds.values())
        threads: Threads = Inline() if self._inline else RealThreads(concurrency)
        wake = Wake(None if self._inline else watching.watcher(self.store))
        self._wakes.append(wake)
        worker = Worker(
            self.store, self._kinds, JobGates(self._targets, self._dice), clock=self.clock, threads=threads, wake=wake,
            policy=WorkerPolicy(concurrency=concurrency, retention=self._retention, **numbers),
            queues=known if queues is None else frozenset(queues), store_id=self._store_id, dice=self._dice,
        )  # fmt: skip
        return worker, wake, threads

    def _identity(self) -> str:
        def work(tx: Tx) -> str:
            tx.all("store_put", {"name": "id", "value": uuid.uuid4().hex[:12]})
            return str(tx.all("store_value", {"name": "id"})[0][0])

        return self.store.write(work)

    def close(self) -> None:
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()


def _id(job: Enqueued | int) -> int:
    return job if isinstance(job, int) else job.id


def _encode_result(result: Any) -> str | None:
    return None if result is None else encode(result, what="result", most=_MOST_ARGS)


def _signature(fn: Callable[..., Any]) -> tuple[object, bool]:
    """The type of the arguments, and whether the handler wants a context."""
    parameters = [p for p in inspect.signature(fn).parameters.values() if p.default is inspect.Parameter.empty]
    if not 1 <= len(parameters) <= 2:
        raise TypeError(f"{fn.__qualname__}: a handler takes its arguments, and a Context if it wants one")
    hints: dict[str, Any] = {}
    with suppress(NameError):  # a type that only a type checker imports: the value stays as JSON gives it
        hints = typing.get_type_hints(fn)
    return hints.get(parameters[0].name, Any), len(parameters) == 2


def _left(tx: Tx, queues: frozenset[str], newest: int) -> tuple[int, int]:
    """How many jobs of a cycle a shut gate has left where they were, and how many are not final in all."""
    totals = tallies.read(tx)
    ready = sum(totals.get((queue, "ready"), 0) - _came_later(tx, queue, newest) for queue in queues)
    open_ = ("blocked", "waiting", "ready", "running")
    return ready, sum(totals.get((queue, stage), 0) for queue in queues for stage in open_)


def _came_later(tx: Tx, queue: str, newest: int) -> int:
    return int(tx.all("ready_after", {"queue": queue, "newest": newest})[0][0])
