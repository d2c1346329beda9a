"""The queue: declares jobs, inserts them and opens the database (SQLite or PostgreSQL, by URL)."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import datetime
from types import TracebackType
from typing import Any, Concatenate, Literal, ParamSpec, Self, TypeVar, overload

from tidegate import validation
from tidegate.children import protocol
from tidegate.children.pool import Limits
from tidegate.clock import SYSTEM, Clock
from tidegate.db import Db, DbTx, Source
from tidegate.durations import Duration, seconds
from tidegate.errors import StoreBusy, StoreError
from tidegate.faults.codes import CORE, CodeBook
from tidegate.faults.fault import Fault, Level, Reach, Reason
from tidegate.faults.origin import ErrorOrigin, read_origin
from tidegate.faults.rule import Pack
from tidegate.guard.backoff import Backoff
from tidegate.guard.policy import TargetRules
from tidegate.guard.profiles import Tuning, tuning_of
from tidegate.guard.target import Target
from tidegate.jobs import insert
from tidegate.jobs.context import Context
from tidegate.jobs.declare import (
    AsyncDone,
    AsyncValue,
    JobDecorator,
    JobOptions,
    Key,
    KeywordContext0,
    KeywordContext1,
    KeywordContext2,
    KeywordContext3,
    retention_of,
)
from tidegate.jobs.function import Call, JobFunction, JobKind
from tidegate.jobs.gates import FAIL_FAST
from tidegate.jobs.in_flight import THIS_PROCESS, InFlightAttempts
from tidegate.jobs.insert import InsertBatcher, InsertResult
from tidegate.jobs.job import DEFAULT_ATTEMPTS, DEFAULT_CRASHES, Job, NewJob
from tidegate.jobs.outcome import FREE_TRIALS, JOB_BACKOFF, WORKER_LOST, Done
from tidegate.jobs.producer import WakeSignal
from tidegate.jobs.scheduler import Schedule, zone_of
from tidegate.jobs.worker_runner import WorkerRunner
from tidegate.logs import logger
from tidegate.serialization import MAX_BYTES
from tidegate.store.base import Store, Tx, now_of
from tidegate.store.clock import SteadyClock
from tidegate.store.migrate import Migration, core_migrations, migrate
from tidegate.store.open import check_listen_url, check_url, identify, open_store
from tidegate.store.sql import Dialect
from tidegate.validation import valid_name, whole

P = ParamSpec("P")
A = TypeVar("A")
R = TypeVar("R")
T = TypeVar("T")

_log = logger("tidegate.queue")

_OPENINGS = 3  # attempts to open a database that restarts meanwhile


class Queue(WorkerRunner):
    """A durable job queue with leases, unique jobs, dependencies and gates per target.

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
        queues: Iterable[str] = (),
        retention: Mapping[str, Mapping[str, Duration]] | None = None,
        max_args: int = MAX_BYTES,
        listen_url: str | None = None,
        driver: str | None = None,
        inline: bool = False,
        clock: Clock = SYSTEM,
        tuning: Tuning | None = None,
    ) -> None:
        """Checks the options. The first use opens the database, so importing a module that declares jobs does not.

        *queues*: queues that no declared job names, for `options(queue=...)`. Workers serve them, too.
        *retention*: how long final jobs are kept, by queue and state: {"mail": {"done": "1d"}}. "*" means all other
        queues. The default is 7 days for done jobs and 30 days for failed and cancelled ones.
        *max_args*: the maximum size of a job's arguments, in bytes of JSON.
        *listen_url*: a direct connection to PostgreSQL where *url* goes through a pooler. Without it, workers poll.
        *driver*: the SQLite library, "apsw" or "sqlite3".
        *inline*: run without threads, for virtual time. *tuning*: values that only tests and Tidegate change.
        """
        check_url(url, driver)
        validation.clock(clock)
        validation.flag(inline, field="inline")
        if listen_url is not None:
            check_listen_url(listen_url, url)
        self.url = url
        self._given_clock = clock
        self.clock = SteadyClock(clock)
        self.inline = inline
        self.max_args = whole(max_args, field="max_args", maximum=100_000_000)
        self._driver = driver
        self._listen_url = listen_url
        self._retention = retention_of(retention)
        self._rng = tuning_of(tuning).rng
        self._dbs: dict[str, Db] = {}
        self._dbs_given: dict[str, tuple[str | None, Source | None, Source | None]] = {}
        self._kinds: dict[str, JobKind] = {}
        self._more_queues = _queue_names(queues)
        self._targets: dict[str, TargetRules] = {}
        self._declared: dict[str, Target] = {}
        self._schedules: dict[str, Schedule] = {}
        self._wakes: list[WakeSignal] = []
        self._background_tasks: list[Callable[[], Coroutine[Any, Any, None]]] = []
        self._batch_only_queues: set[str] = set()
        self._in_flight = InFlightAttempts() if inline else THIS_PROCESS
        self._lock = threading.Lock()
        self._store: Store | None = None
        self._process = 0  # the pid that opened the store
        self._store_id = ""
        self._batcher: InsertBatcher
        self._closed = False

    @property
    def store(self) -> Store:
        """The database, opened and migrated on first use."""
        if self._store is None:
            with self._lock:
                if self._closed:
                    raise StoreError("the queue is closed")
                if self._store is None:
                    self._store, self._process = self._opened(), os.getpid()
        if self._process != os.getpid():
            # Two processes on one connection would read each other's responses.
            raise StoreError("the queue was used before a fork; use it in the child only, or make another one there")
        return self._store

    def db(
        self,
        app: str,
        package: str | None = None,
        *,
        statements: Source | None = None,
        migrations: Source | None = None,
    ) -> Db:
        """Returns the tables and statements of an application in this database; see `Db`.

        Later calls for the same application return the same object.
        """
        given = (package, statements, migrations)
        if app in self._dbs and given in ((None, None, None), self._dbs_given[app]):
            return self._dbs[app]
        if app in self._dbs:
            raise ValueError(f"app: {app!r} has its statements already; ask for q.db({app!r})")
        db = Db(
            lambda: self.store, app, package, statements=statements, migrations=migrations, written=self.notify_workers
        )
        with self._lock:
            self._dbs[app], self._dbs_given[app] = db, given
            if self._store is not None:
                db.attach(self._store)
        return db

    # -- declaring -----------------------------------------------------------------------------------------------

    # The overloads of `JobDecorator`, for a decorator without parentheses.
    @overload
    def job(self, fn: Callable[Concatenate[Context, P], AsyncDone[R]], /) -> JobFunction[P, R]: ...
    @overload
    def job(self, fn: Callable[Concatenate[Context, P], AsyncValue[R]], /) -> JobFunction[P, R]: ...
    @overload
    def job(self, fn: Callable[Concatenate[Context, P], Done[R]], /) -> JobFunction[P, R]: ...
    @overload
    def job(self, fn: Callable[Concatenate[Context, P], R | Done[R]], /) -> JobFunction[P, R]: ...
    @overload
    def job(self, fn: Callable[Concatenate[A, Context, P], AsyncDone[R]], /) -> JobFunction[Concatenate[A, P], R]: ...
    @overload
    def job(self, fn: Callable[Concatenate[A, Context, P], AsyncValue[R]], /) -> JobFunction[Concatenate[A, P], R]: ...
    @overload
    def job(self, fn: Callable[Concatenate[A, Context, P], Done[R]], /) -> JobFunction[Concatenate[A, P], R]: ...
    @overload
    def job(self, fn: Callable[Concatenate[A, Context, P], R | Done[R]], /) -> JobFunction[Concatenate[A, P], R]: ...
    @overload
    def job(self, fn: KeywordContext0[AsyncDone[R]], /) -> JobFunction[..., R]: ...
    @overload
    def job(self, fn: KeywordContext0[AsyncValue[R]], /) -> JobFunction[..., R]: ...
    @overload
    def job(self, fn: KeywordContext0[Done[R]], /) -> JobFunction[..., R]: ...
    @overload
    def job(self, fn: KeywordContext0[R | Done[R]], /) -> JobFunction[..., R]: ...
    @overload
    def job(self, fn: KeywordContext1[AsyncDone[R]], /) -> JobFunction[..., R]: ...
    @overload
    def job(self, fn: KeywordContext1[AsyncValue[R]], /) -> JobFunction[..., R]: ...
    @overload
    def job(self, fn: KeywordContext1[Done[R]], /) -> JobFunction[..., R]: ...
    @overload
    def job(self, fn: KeywordContext1[R | Done[R]], /) -> JobFunction[..., R]: ...
    @overload
    def job(self, fn: KeywordContext2[AsyncDone[R]], /) -> JobFunction[..., R]: ...
    @overload
    def job(self, fn: KeywordContext2[AsyncValue[R]], /) -> JobFunction[..., R]: ...
    @overload
    def job(self, fn: KeywordContext2[Done[R]], /) -> JobFunction[..., R]: ...
    @overload
    def job(self, fn: KeywordContext2[R | Done[R]], /) -> JobFunction[..., R]: ...
    @overload
    def job(self, fn: KeywordContext3[AsyncDone[R]], /) -> JobFunction[..., R]: ...
    @overload
    def job(self, fn: KeywordContext3[AsyncValue[R]], /) -> JobFunction[..., R]: ...
    @overload
    def job(self, fn: KeywordContext3[Done[R]], /) -> JobFunction[..., R]: ...
    @overload
    def job(self, fn: KeywordContext3[R | Done[R]], /) -> JobFunction[..., R]: ...
    @overload
    def job(self, fn: Callable[P, AsyncDone[R]], /) -> JobFunction[P, R]: ...
    @overload
    def job(self, fn: Callable[P, AsyncValue[R]], /) -> JobFunction[P, R]: ...
    @overload
    def job(self, fn: Callable[P, Done[R]], /) -> JobFunction[P, R]: ...
    @overload
    def job(self, fn: Callable[P, R | Done[R]], /) -> JobFunction[P, R]: ...
    @overload
    def job(
        self,
        fn: None = None,
        /,
        *,
        queue: str = ...,
        name: str | None = ...,
        aliases: Sequence[str] = ...,
        target: Target | None = ...,
        key: Key | None = ...,
        unique: Key | bool | None = ...,
        while_: AbstractSet[str] | None = ...,
        attempts: int = ...,
        per_code: Mapping[str, int] | None = ...,
        backoff: Backoff | Literal[False] | None = ...,
        free_trials: Duration = ...,
        verify: Callable[..., Any] | None = ...,
        process: bool | Limits = ...,
        expires: Duration | None = ...,
        cancellable: bool = ...,
        fail_fast_code: str = ...,
        lost_code: str = ...,
        max_crashes: int = ...,
    ) -> JobDecorator: ...
    def job(
        self,
        fn: Callable[..., Any] | None = None,
        /,
        *,
        queue: str = "default",
        name: str | None = None,
        aliases: Sequence[str] = (),
        target: Target | None = None,
        key: Key | None = None,
        unique: Key | bool | None = None,
        while_: AbstractSet[str] | None = None,
        attempts: int = DEFAULT_ATTEMPTS,
        per_code: Mapping[str, int] | None = None,
        backoff: Backoff | Literal[False] | None = JOB_BACKOFF,
        free_trials: Duration = FREE_TRIALS,
        verify: Callable[..., Any] | None = None,
        process: bool | Limits = False,
        expires: Duration | None = None,
        cancellable: bool = True,
        fail_fast_code: str = FAIL_FAST,
        lost_code: str = WORKER_LOST,
        max_crashes: int = DEFAULT_CRASHES,
    ) -> Any:
        """Declares a function as a job. A parameter annotated with `Context` receives the attempt's context.

        @q.job(attempts=5)
        async def send(to: str, subject: str = "hello", *, urgent: bool = False) -> Receipt: ...

        *name*: the kind in the database. Keep it when you rename the function. *aliases*: other kind names under which
        jobs are stored. *target*: the service that the job calls. A claim passes its gates. *key*: the part of the
        target. *unique*: what makes two jobs duplicates while one is in a state of *while_* (queued and running by
        default). *key* and *unique* are a parameter's name, a tuple of names, or a function that takes some of the
        arguments by name. `unique=True` means all arguments. A function that returns None makes the job not unique.
        *attempts*: the maximum, with lower limits by code in *per_code* and *backoff* between attempts (off: no wait).
        *free_trials*: how long into an outage a failed trial call of a half-open breaker costs no attempt. *verify*:
        runs before every attempt but the first and returns the result of an earlier attempt, or None. It takes
        arguments as *key* does. *process*: run in a child process, with these limits. *expires*: fail the job if it is
        still queued after this duration. *fail_fast_code*: the code of a job that is not tried because its target fails
        fast. *lost_code*: the code of a job that fails because its workers crashed. *max_crashes*: how many worker
        crashes while the job ran alone make it fail.
        """
        options = JobOptions(
            queue=queue,
            name=name,
            aliases=aliases,
            target=target,
            key=key,
            unique=unique,
            while_=while_,
            attempts=attempts,
            per_code=per_code or {},
            backoff=backoff,
            free_trials=free_trials,
            verify=verify,
            process=process,
            expires=expires,
            cancellable=cancellable,
            fail_fast_code=fail_fast_code,
            lost_code=lost_code,
            max_crashes=max_crashes,
        )
        options.policy()
        if fn is not None:
            return self._declared_job(options, fn, sys._getframe(1).f_locals)

        # Types that are declared inside a function can be resolved only with its locals.
        return lambda fn: self._declared_job(options, fn, sys._getframe(1).f_locals)

    def _declared_job(
        self, options: JobOptions, fn: Callable[..., Any], scope: Mapping[str, object]
    ) -> JobFunction[..., Any]:
        declared = options.declared(self, fn, scope)
        self._add(declared.kind, options.target, options.aliases)
        return declared

    def _add(self, kind: JobKind, target: Target | None, aliases: Sequence[str]) -> None:
        if kind.name in self._kinds:
            raise ValueError(f"name: there is a kind {kind.name!r} already; give this one another name")
        for alias in aliases:
            if alias in self._kinds or alias == kind.name:
                raise ValueError(f"aliases: there is a kind {alias!r} already; leave it out")
        if target is not None:
            if self._declared.setdefault(target.name, target) is not target:
                raise ValueError(f"target: there is another Target {target.name!r} on this queue; share one")
            self._targets[target.name] = replace(target.for_jobs(), declared_in=getattr(kind.handler, "__module__", ""))
        self._kinds.update(dict.fromkeys((kind.name, *aliases), kind))

    def known_queue(self, queue: str) -> str:
        """Validates a queue that `options(queue=...)` names. The workers of this process serve it from now on."""
        if queue not in self._more_queues and queue not in self.queues():
            self._more_queues.add(valid_name(queue, field="queue"))
            _log.warning("queue_not_declared queue=%s", queue)  # workers of other processes do not serve it
        return queue

    def pack_of(self, kind: JobKind) -> Pack | None:
        """The rule pack of the kind's target, if it has one."""
        rules = self._targets.get(kind.target)
        return None if rules is None else rules.rule_pack

    def code_book(self, kind: JobKind) -> CodeBook:
        pack = self.pack_of(kind)
        return CORE if pack is None else pack.code_book

    def fault_of_job(self, job: Job) -> tuple[Fault, ErrorOrigin]:
        """The fault that made *job* fail, and the origin of an exception without a known meaning."""
        kind, code = self._kinds.get(job.kind), job.error_code or "unexpected"
        known = (CORE if kind is None else self.code_book(kind)).get(code)
        message, status, detail = job.error_message or "", job.last_status or 0, job.last_message or ""
        if known is not None:
            general, _, rest = message.partition(f"{known.message} ")
            origin = read_origin(rest) if not general and rest else ErrorOrigin()
            return replace(known.fault("job", status=status, detail=detail), message=message or known.message), origin
        fault = Fault(  # a code that the handler chose
            code=code,
            reason=Reason.ITEM,
            reach=Reach.ITEM,
            level=Level.WARN,
            message=message,
            advice="",
            rule="job",
            status=status,
            detail=detail,
        )
        return fault, ErrorOrigin()

    def schedule(
        self,
        expression: str,
        job: JobFunction[..., Any],
        args: Call | Callable[[datetime], Call] = (),
        *,
        name: str | None = None,
        zone: str = "UTC",
    ) -> None:
        """Inserts a job at each tick of a cron expression ("0 * * * *"), once over all workers, while one runs.

        q.schedule("0 * * * *", send, ("ada@example.org",))

        *args*: the arguments of the call as a tuple or a dict by name, or a function of the tick's time. If no worker
        ran at several ticks, the next worker inserts one job for all of them. *name* distinguishes two schedules of one
        kind and expression. A changed name is a new schedule.
        """
        if not isinstance(job, JobFunction):
            raise TypeError(f"job must be a function declared with @q.job, got {job!r:.60}; declare it first")
        made = Schedule(
            name=valid_name(name or f"{job.kind.name} {expression}".strip(), field="name"),
            expression=expression,
            zone=zone_of(zone),
            make=job.scheduled(args),
        )
        if made.name in self._schedules:
            raise ValueError(f"name: there is a schedule {made.name!r} already; give this one another name")
        self._schedules[made.name] = made

    # -- inserting -----------------------------------------------------------------------------------------------

    def run_in_transaction(self, work: Callable[[Tx], T], connection: Any = None) -> T:
        """Runs *work* in a new transaction and wakes the workers, or runs it on the caller's open *connection*."""
        if connection is None:
            result = self.store.write(work)
            self.notify_workers()
            return result
        if isinstance(connection, DbTx):
            connection.took_in = True
            return work(connection.tx)
        return work(self.store.join_transaction(connection))

    def insert(self, job: NewJob, connection: Any = None) -> InsertResult:
        """Inserts *job*, or finds its duplicate; see `run_in_transaction` for *connection*."""
        if connection is None and job.alone and self.store.dialect is Dialect.POSTGRES:
            result = self._batcher.put(job)
            self.notify_workers()
            return result
        return self.run_in_transaction(lambda tx: insert.enqueue_one(tx, job), connection)

    async def ainsert(self, job: NewJob, connection: Any = None) -> InsertResult:
        """As `insert`, without blocking the loop.

        On the caller's own SQLite connection it blocks: only the thread that opened the connection may use it.
        """
        if connection is not None and self.store.dialect is Dialect.SQLITE:
            return self.insert(job, connection)
        return await self.run_blocking(lambda: self.insert(job, connection))

    async def arun_in_transaction(self, work: Callable[[Tx], T], connection: Any = None) -> T:
        """As `run_in_transaction`, without blocking the loop; see `ainsert` for the exception."""
        if connection is not None and self.store.dialect is Dialect.SQLITE:
            return self.run_in_transaction(work, connection)
        return await self.run_blocking(lambda: self.run_in_transaction(work, connection))

    def older_than(self, age: Duration) -> float:
        """The UNIX time before which every row is at least *age* old, for deleting old rows.

        db.all("prune", before=q.older_than("30d"))

        A step of the clock does not count as elapsed time. Returns 0 while the elapsed time is unknown: for ten minutes
        after a start on a clock that is ahead of the last heartbeat.
        """
        wanted = seconds(age, field="age")
        if self.store.dialect is Dialect.SQLITE:
            return self.clock.older_than(wanted)
        return min(self.clock.older_than(wanted), self.store.write(lambda tx: _older_than(self.store, tx, wanted)))

    def notify_workers(self) -> None:
        """Wakes the workers of this process and of others: there may be new jobs."""
        for wake in self._wakes:
            wake.signal_new_work()
        if self._store is not None:
            self._store.announce()

    async def run_blocking(self, work: Callable[[], T]) -> T:
        """Runs *work*, which waits for the database, in a thread; on the loop if the queue is inline."""
        return work() if self.inline else await asyncio.get_running_loop().run_in_executor(None, work)

    # -- opening and closing -------------------------------------------------------------------------------------

    def queues(self) -> frozenset[str]:
        """The queues of declared jobs, and those of the constructor's *queues*."""
        return frozenset(kind.queue for kind in self._kinds.values()) | self._more_queues

    def _database(self) -> Store:
        clock = self._given_clock
        return open_store(
            self.url,
            now=clock.now,
            driver=self._driver,
            virtual=clock is not SYSTEM,
            listen_url=self._listen_url,
        )

    def _opened(self) -> Store:
        protocol.refuse_at_import("the queue is used")
        left = _OPENINGS
        while True:
            left -= 1
            store = self._database()
            try:
                migrate(store, core_migrations())
                store.keep_steady(self.clock)
                self._store_id = identify(store)
                for db in self._dbs.values():
                    db.attach(store)
            except StoreBusy:
                # The database may be restarting. Each step is idempotent.
                store.close()
                if not left:
                    raise
            except BaseException:
                store.close()
                raise
            else:
                self._batcher = InsertBatcher(store)
                return store

    def _migrations(self) -> list[Migration]:
        return [*core_migrations(), *(step for db in self._dbs.values() for step in db.migrations)]

    def close(self) -> None:
        with self._lock:
            self._closed = True
            store, self._store = self._store, None
        if store is not None:
            store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()


def _queue_names(queues: Iterable[str]) -> set[str]:
    given: object = queues
    if isinstance(given, str) or not isinstance(given, Iterable):
        hint = f"; did you mean [{given!r:.60}]?" if isinstance(given, str) else ""
        raise TypeError(f"queues must be a list of names, got {given!r:.60}{hint}")
    return {valid_name(queue, field="queues") for queue in queues}


def _older_than(store: Store, tx: Tx, age: float) -> float:
    return store.older_than(age, now_of(tx)) if store.check_clock(tx) else 0.0
