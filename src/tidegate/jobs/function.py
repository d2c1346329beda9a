"""Declared jobs: the kind, the function that inserts, and the handle of an inserted job."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from tidegate.children.pool import DEFAULT, Limits
from tidegate.clock import Clock
from tidegate.durations import Duration, seconds
from tidegate.errors import JobCancelled, JobFailed, JobForgotten, NotFound, ResultMismatch
from tidegate.faults.redaction import redact
from tidegate.faults.rule import Pack
from tidegate.jobs import insert
from tidegate.jobs.context import local_context
from tidegate.jobs.job import DEFAULT_CRASHES, Job, JobState, NewJob
from tidegate.jobs.outcome import WORKER_LOST, KindPolicy
from tidegate.serialization import Serial, encode
from tidegate.serialization.arguments import Bound, Hook, Parameters
from tidegate.validation import valid_code, whole

if TYPE_CHECKING:
    from tidegate.jobs.queue import Queue


@dataclass(frozen=True, slots=True, kw_only=True)
class JobKind:
    """A declared kind of job: its handler and its options."""

    name: str
    queue: str
    handler: Callable[..., Any]
    parameters: Parameters
    encode_result: Callable[[Any], str | None]
    colour: str  # "async", "thread" or "process"
    policy: KindPolicy = field(default_factory=KindPolicy)
    target: str = ""
    verify: Hook | None = None
    verify_is_async: bool = False
    cancellable: bool = True
    place: str = ""  # the import path of the handler, for a child process
    limits: Limits = DEFAULT  # of a child process
    fail_fast_code: str = "overloaded"  # of a job that is not tried because its target fails fast
    lost_code: str = WORKER_LOST  # of a job that fails because its workers crashed
    max_crashes: int = DEFAULT_CRASHES  # worker crashes while it ran alone that make it fail


# -- handles ---------------------------------------------------------------------------------------------------------

R = TypeVar("R")

_MAX_IDS = 2**63  # the range of a database integer
_MAX_SHOWN = 100  # characters of a stored result in an error
_FIRST, _LONGEST, _GROWTH = 0.005, 0.25, 1.5  # seconds between two polls


@dataclass(slots=True, unsafe_hash=True)
class Enqueued(Generic[R]):
    """The handle of a job. `created` is False if `enqueue` found a duplicate instead of inserting.

    Treat it as immutable: a frozen dataclass takes three times as long to construct.
    """

    id: int
    created: bool
    _queue: Queue = field(repr=False, compare=False)
    _result: Serial = field(repr=False, compare=False)

    def get(self) -> Job:
        """The current job. Raises NotFound when it was removed."""
        return self._queue.get(self.id)

    def state(self) -> JobState:
        return self._queue.row(self.id).state

    def result(self, timeout: Duration | None = None) -> R:
        """Waits until a worker has run the job, and returns the function's result with its type.

        print(job.result(timeout="30s"))

        Raises JobFailed, JobCancelled, JobForgotten when the job was removed, and TimeoutError when it is not finished
        within *timeout* (the default is to wait without a limit). Raises ResultMismatch when another version of the
        function stored a value that does not fit. Raises RuntimeError on a running event loop; use
        `await job.aresult(...)` there.
        """
        no_loop("job.aresult")
        looks = _Looks(self._queue.clock, timeout)
        while not (job := self._row()).state.final:
            if self._queue.inline and timeout is None:
                raise RuntimeError(
                    f"job {self.id} is {job.state}, and a queue with inline=True runs nothing in the background; "
                    "drain it first, or give a timeout"
                )
            self._queue.clock.sleep(looks.pause(job))
        return self._value(job)

    async def aresult(self, timeout: Duration | None = None) -> R:
        """As `result`, awaited."""
        looks = _Looks(self._queue.clock, timeout)
        if self.created:  # a look at once finds nothing, and is in the way of the worker that begins it
            await self._queue.clock.asleep(looks.first())
        while not (job := await self._queue.run_blocking(self._row)).state.final:
            await self._queue.clock.asleep(looks.pause(job))
        return self._value(job)

    async def wait(self, timeout: Duration | None = None) -> Job:
        """Waits until a worker has ended the job, and returns it: done, failed or cancelled.

        Raises TimeoutError when the job has not ended within *timeout*.
        """
        looks = _Looks(self._queue.clock, timeout)
        if self.created:  # a look at once finds nothing, and is in the way of the worker that begins it
            await self._queue.clock.asleep(looks.first())
        while not (job := await self._queue.run_blocking(lambda: self._queue.row(self.id))).state.final:
            await self._queue.clock.asleep(looks.pause(job))
        return job.read()

    def _row(self) -> Job:
        try:
            return self._queue.row(self.id)
        except NotFound:
            raise JobForgotten(self.id) from None

    def _value(self, job: Job) -> R:
        """The decoded result of a final job. Raises JobCancelled, JobFailed or ResultMismatch."""
        if job.state is JobState.CANCELLED:
            raise JobCancelled(job.id)
        if job.state is JobState.FAILED:
            fault, origin = self._queue.fault_of_job(job)
            raise JobFailed(job.id, job.kind, fault, *origin)
        try:
            value: R = None if job.result is None else self._result.decode(job.result)  # type: ignore[assignment]
        except ValueError as error:
            stored = redact(job.result or "", _MAX_SHOWN)
            raise ResultMismatch(job.id, job.kind, self._result.name, stored, str(error)) from error
        return value


class _Looks:
    """The intervals at which a caller polls a job, up to a timeout."""

    __slots__ = ("_clock", "_end", "_pause", "_timeout")

    def __init__(self, clock: Clock, timeout: Duration | None) -> None:
        self._clock, self._timeout = clock, timeout
        self._end = None if timeout is None else clock.monotonic() + seconds(timeout, field="timeout")
        self._pause = _FIRST

    def first(self) -> float:
        """Seconds until the first poll."""
        return self._pause if self._end is None else max(0.0, min(self._pause, self._end - self._clock.monotonic()))

    def pause(self, job: Job) -> float:
        """Seconds until the next poll. Raises TimeoutError at the timeout."""
        left = self._pause if self._end is None else min(self._pause, self._end - self._clock.monotonic())
        if left <= 0:
            raise TimeoutError(f"job {job.id} is still {job.state} after {self._timeout}")
        self._pause = min(self._pause * _GROWTH, _LONGEST)
        return left


def no_loop(instead: str) -> None:
    """Raises RuntimeError on a running event loop, which the caller would block."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(f"a loop is running in this thread, and this would block it; `await {instead}(...)` does not")


def id_of(job: Enqueued[R] | int, *, field: str = "job") -> int:
    """The ID of a job that the caller gave as a handle or as an ID."""
    if isinstance(job, Enqueued):
        return job.id
    if isinstance(job, bool) or not isinstance(job, int):
        raise TypeError(f"{field}: {job!r:.60} is no job; give what enqueue returned, or its number")
    if not -_MAX_IDS <= job < _MAX_IDS:
        raise NotFound("there is no job with a number of so many digits")
    return job


# -- enqueueing ------------------------------------------------------------------------------------------------------

P = ParamSpec("P")
Due = Duration | datetime | None
Parent = Enqueued[Any] | int
# The arguments of one call: a tuple of positional ones, or a dict by name.
Call = tuple[Any, ...] | dict[str, object]

_A_DATE = 1e9  # a larger number is UNIX time: as a delay it would be over thirty years
_MAX_KEY_LENGTH = 200  # characters, so that an index can hold it and a page can show it
_AS_DECLARED: Any = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInserter:
    """How arguments of a kind become a new job: encoding, key, unique key and expiry."""

    parameters: Parameters
    result: Serial
    key: Hook | None = None
    unique: Hook | None = None
    unique_while: int = 0
    expires: float | None = None
    max_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The validated options of one `enqueue`."""

    queue: str | None = None  # None: as declared
    due_at: float | None = None
    due_in: float | None = None
    priority: int = 0
    parents: tuple[int, ...] = ()
    unique: Any = _AS_DECLARED
    connection: Any = None


_NO_OPTIONS = Options()


class _Enqueues(Generic[P, R]):
    """Inserts jobs of one kind with the given options."""

    def __init__(self, queue: Queue, kind: JobKind, put: JobInserter, options: Options) -> None:
        self._queue, self.kind, self._put, self._options = queue, kind, put, options

    def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> Enqueued[R]:
        """Inserts one job. It is on disk when this returns. Raises TypeError when the arguments do not fit.

        With `options(connection=...)` the job is on disk when you commit.
        """
        new = self._new(self._put.parameters.bind(args, kwargs), self._options)
        id_, created = self._queue.insert(new, self._options.connection)
        return Enqueued(id_, created, self._queue, self._put.result)

    async def aenqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> Enqueued[R]:
        """As `enqueue`, without blocking the loop. With your own SQLite connection it blocks."""
        # Encodes the arguments before the first await, so that later changes by the caller have no effect.
        new = self._new(self._put.parameters.bind(args, kwargs), self._options)
        id_, created = await self._queue.ainsert(new, self._options.connection)
        return Enqueued(id_, created, self._queue, self._put.result)

    def enqueue_many(
        self, calls: Iterable[Call], *, after_each: Sequence[Iterable[Parent] | Parent] | None = None
    ) -> list[Enqueued[R]]:
        """Inserts many jobs in one transaction: all of them or none.

        send.enqueue_many([("ada@example.org",), {"to": "bob@example.org", "urgent": True}])

        Each call is a tuple of arguments, or a dict of arguments by name. *after_each*: the parents of each job, in
        the same order.
        """
        jobs = self._many(calls, after_each)
        return self._handles(
            self._queue.run_in_transaction(partial(insert.enqueue, jobs=jobs), self._options.connection)
        )

    async def aenqueue_many(
        self, calls: Iterable[Call], *, after_each: Sequence[Iterable[Parent] | Parent] | None = None
    ) -> list[Enqueued[R]]:
        """As `enqueue_many`, without blocking the loop. With your own SQLite connection it blocks."""
        jobs = self._many(calls, after_each)
        return self._handles(
            await self._queue.arun_in_transaction(partial(insert.enqueue, jobs=jobs), self._options.connection)
        )

    def refuse(self, call: Call, code: str, message: str = "") -> Enqueued[R]:
        """Inserts a job that has already failed. It is never tried and holds no unique key.

        send.refuse(("ada@example.org",), "bad_request", "There is no such address.")
        """
        valid_code(code, field="code")
        new = self._new(self._put.parameters.bind_call(call, field="call"), self._options)
        known = self._queue.code_book(self.kind).get(code)
        text = message or (known.message if known is not None else code)
        work = partial(insert.refuse, job=new, code=code, message=text)
        made = self._queue.run_in_transaction(work, self._options.connection)
        return Enqueued(made, created=True, _queue=self._queue, _result=self._put.result)

    def _handles(self, results: Iterable[insert.InsertResult]) -> list[Enqueued[R]]:
        return [Enqueued(result.id, result.created, self._queue, self._put.result) for result in results]

    def _many(self, calls: Iterable[Call], after_each: Sequence[Iterable[Parent] | Parent] | None) -> list[NewJob]:
        if isinstance(calls, (str, bytes, Mapping)) or not isinstance(calls, Iterable):
            raise TypeError(f"calls: {calls!r:.60} is not a list of calls; give one such as [('a',), ('b',)]")
        parameters, options, new = self._put.parameters, self._options, self._new
        bind, none = parameters.bind, dict[str, object]()
        jobs = [
            new(bind(call, none) if type(call) is tuple else parameters.bind_call(call, field=f"calls[{i}]"), options)
            for i, call in enumerate(calls)
        ]
        if after_each is None:
            return jobs
        if len(after_each) != len(jobs):
            raise ValueError(
                f"after_each: got parents for {len(after_each)} jobs, there are {len(jobs)}; give one entry for each"
            )
        for job, parents in zip(jobs, after_each, strict=True):
            job.parents += _ids(parents, "after_each")
        return jobs

    def _new(self, bound: Bound, options: Options) -> NewJob:
        put, kind = self._put, self.kind
        encoded = put.parameters.encode(bound, put.max_bytes)  # rejects bad arguments before the user's hooks see them
        unique = options.unique
        if put.key is not None or (put.unique is not None and unique is _AS_DECLARED):
            bound = put.parameters.complete(bound)
        if unique is _AS_DECLARED:
            unique = None if put.unique is None else put.unique(bound, None)
        elif unique is True:
            unique = put.parameters.identity(bound)
        return NewJob(
            queue=options.queue or kind.queue,
            kind=kind.name,
            target=kind.target,
            lane="" if put.key is None else lane_of(put.key(bound, None)),
            args=encoded,
            priority=options.priority,
            due_at=options.due_at,
            due_in=options.due_in,
            expires_in=put.expires,
            most_attempts=kind.policy.attempts,
            unique_key=None if unique is None else _short(unique, "unique"),
            unique_while=0 if unique is None else put.unique_while,
            parents=options.parents,
            cancellable=kind.cancellable,
        )


class ConfiguredJob(_Enqueues[P, R]):
    """A job function with options, which `enqueue` and the other methods apply."""

    def __repr__(self) -> str:
        return f"<job {self.kind.name} with options>"


class JobFunction(_Enqueues[P, R]):
    """A declared job. Calling it runs the function directly; `enqueue` inserts a job."""

    def __init__(self, queue: Queue, kind: JobKind, put: JobInserter) -> None:
        super().__init__(queue, kind, put, _NO_OPTIONS)
        update_wrapper(self, kind.handler)
        self.__signature__ = put.parameters.signature

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Runs the function directly and returns its result. Nothing is queued.

        A function with a Context parameter receives a local context at its first attempt, which saves in memory.
        """
        parameters = self.kind.parameters
        if parameters.context is None:
            return self.kind.handler(*args, **kwargs)
        return parameters.call(self.kind.handler, parameters.bind(args, kwargs), local_context(self.kind.name))

    def __repr__(self) -> str:
        return f"<job {self.kind.name}>"

    @property
    def pack(self) -> Pack | None:
        """The rule pack of its target, if it has one."""
        return self._queue.pack_of(self.kind)

    def options(
        self,
        *,
        due: Due = None,
        priority: int = 0,
        after: Iterable[Parent] | Parent | None = None,
        unique: Hashable = _AS_DECLARED,
        queue: str | None = None,
        connection: Any = None,
    ) -> ConfiguredJob[P, R]:
        """Returns this job with options for `enqueue`.

        send.options(due="5m", priority=5).enqueue("ada@example.org")

        *due*: the earliest time (a datetime, UNIX time) or a delay (30, "5m", a timedelta). *priority*: from -1000 to
        1000, higher first. *after*: parents, jobs that must be done first. *unique*: a value that replaces the declared
        unique key, True for all arguments, or None for a job that may have duplicates. *queue*: replaces the declared
        queue. *connection*: your own open connection, or the transaction of `db.write`.
        """
        due_at, due_in = _moment(due)
        options = Options(
            queue=None if queue is None else self._queue.known_queue(queue),
            due_at=due_at,
            due_in=due_in,
            priority=whole(priority, field="priority", minimum=-1000, maximum=1000),
            parents=_ids(after, "after"),
            unique=None if unique is False else unique,
            connection=connection,
        )
        return ConfiguredJob(self._queue, self.kind, self._put, options)

    def new_job(self, /, *args: P.args, **kwargs: P.kwargs) -> NewJob:
        """The job for these arguments, for the caller to insert in its own transaction."""
        return self._new(self._put.parameters.bind(args, kwargs), _NO_OPTIONS)

    def scheduled(self, call: Call | Callable[[datetime], Call]) -> Callable[[datetime], NewJob]:
        """A function that makes the job of a tick, from fixed arguments or from a function of the tick's time."""
        bind = self._put.parameters.bind_call
        if not callable(call):
            self._new(bind(call, field="args"), _NO_OPTIONS)  # rejects bad arguments now, not at the first tick
        return lambda tick: self._new(bind(call(tick) if callable(call) else call, field="args"), _NO_OPTIONS)


def _ids(parents: Iterable[Parent] | Parent | None, field: str) -> tuple[int, ...]:
    if parents is None:
        return ()
    if not isinstance(parents, Iterable):
        parents = (parents,)
    return tuple([id_of(parent, field=field) for parent in parents])


def _moment(due: Due) -> tuple[float | None, float | None]:
    """Splits *due* into a UNIX time or a delay in seconds. The store adds the delay to its own clock."""
    if due is None:
        return None, None
    if isinstance(due, datetime):
        return due.timestamp(), None
    if isinstance(due, (int, float)) and _A_DATE < due < math.inf:
        return float(due), None
    return None, seconds(due, field="due")


def lane_of(key: Hashable) -> str:
    """The text of a target's key, as stored."""
    return _short(key, "key")


def _short(value: Hashable, what: str) -> str:
    """A key as text that fits into an index. A long one becomes its digest."""
    plain = what == "key" and isinstance(value, str) and value.isprintable()
    text = str(value) if plain else encode(value, what=what)
    if len(text) <= _MAX_KEY_LENGTH:
        return text
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
