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
from tidegate.errors import JobCancelled, JobFailed, JobForgotten, NotFound
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


# A kind of job: its handler, and everything that was said about it when it was declared.


@dataclass(frozen=True, slots=True, kw_only=True)
class JobKind:
    """One declared kind."""

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
    place: str = ""  # where a child process finds the handler
    limits: Limits = DEFAULT  # of a child process
    fail_fast_code: str = "overloaded"  # of a job that is not tried, because its target is shut
    lost_code: str = WORKER_LOST  # of a job whose work was cut short too often
    max_crashes: int = DEFAULT_CRASHES  # deaths of workers while it ran alone that fail it


# A job that was put in, as a handle that tells what has become of it.

R = TypeVar("R")

_MAX_IDS = 2**63  # what a database can count to
_FIRST, _LONGEST, _GROWTH = 0.005, 0.25, 1.5  # seconds between two looks


@dataclass(slots=True, unsafe_hash=True)
class Enqueued(Generic[R]):
    """The job that stands for what was asked; `created` is False when it is a twin that was there already.

    Nobody changes one; a frozen class would take three times as long to make it.
    """

    id: int
    created: bool
    _queue: Queue = field(repr=False, compare=False)
    _result: Serial = field(repr=False, compare=False)

    def get(self) -> Job:
        """The job as it stands; NotFound when it is gone."""
        return self._queue.get(self.id)

    def state(self) -> JobState:
        return self._queue.row(self.id).state

    def result(self, timeout: Duration | None = None) -> R:
        """What the function returned, with its type. It waits for the end of the job, as a worker must run it.

        print(job.result(timeout="30s"))

        JobFailed when it failed, JobCancelled, JobForgotten when it was removed, TimeoutError when it is not finished
        within *timeout*. Without one it waits as long as it takes. On a running event loop: RuntimeError, use
        `await job.aresult(...)`.
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
        """The job, once it is done, failed or cancelled; TimeoutError when it is not within *timeout*.

        It runs nothing: a worker must do that, here or elsewhere.
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
        """What a final job returned; raises where it returned nothing."""
        if job.state is JobState.CANCELLED:
            raise JobCancelled(job.id)
        if job.state is JobState.FAILED:
            raise JobFailed(job.id, job.kind, self._queue.fault_of_job(job))
        value: R = None if job.result is None else self._result.decode(job.result)  # type: ignore[assignment]
        return value


class _Looks:
    """When to look at a job again, until its time is over."""

    __slots__ = ("_clock", "_end", "_pause", "_timeout")

    def __init__(self, clock: Clock, timeout: Duration | None) -> None:
        self._clock, self._timeout = clock, timeout
        self._end = None if timeout is None else clock.monotonic() + seconds(timeout, field="timeout")
        self._pause = _FIRST

    def first(self) -> float:
        """Seconds until the first look."""
        return self._pause if self._end is None else max(0.0, min(self._pause, self._end - self._clock.monotonic()))

    def pause(self, job: Job) -> float:
        """Seconds until the next look; TimeoutError when the time is over."""
        left = self._pause if self._end is None else min(self._pause, self._end - self._clock.monotonic())
        if left <= 0:
            raise TimeoutError(f"job {job.id} is still {job.state} after {self._timeout}")
        self._pause = min(self._pause * _GROWTH, _LONGEST)
        return left


def no_loop(instead: str) -> None:
    """RuntimeError on a running event loop, which would be blocked."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(f"a loop is running in this thread, and this would block it; `await {instead}(...)` does not")


def id_of(job: Enqueued[R] | int, *, field: str = "job") -> int:
    """The number of a job, however it was given."""
    if isinstance(job, Enqueued):
        return job.id
    if isinstance(job, bool) or not isinstance(job, int):
        raise TypeError(f"{field}: {job!r:.60} is no job; give what enqueue returned, or its number")
    if not -_MAX_IDS <= job < _MAX_IDS:
        raise NotFound("there is no job with a number of so many digits")
    return job


# A declared job: the function itself, and how to put work in for it.

P = ParamSpec("P")
Due = Duration | datetime | None
Parent = Enqueued[Any] | int
# The arguments of one call as a value: a tuple of positional ones, or a dict by name.
Call = tuple[Any, ...] | dict[str, Any]

_A_DATE = 1e9  # nobody waits for thirty years: such a number is UNIX time
_MAX_KEY_LENGTH = 200  # what an index can hold is bounded, and what a page can show
_AS_DECLARED: Any = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInserter:
    """How the jobs of a kind are put in."""

    parameters: Parameters
    result: Serial
    key: Hook | None = None
    unique: Hook | None = None
    unique_while: int = 0
    expires: float | None = None
    max_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What is said of one job beside its arguments, checked."""

    queue: str | None = None  # None: as declared
    due_at: float | None = None
    due_in: float | None = None
    priority: int = 0
    parents: tuple[int, ...] = ()
    unique: Any = _AS_DECLARED
    connection: Any = None


_NO_OPTIONS = Options()


class _Enqueues(Generic[P, R]):
    """Puts jobs of one kind in, with these options."""

    def __init__(self, queue: Queue, kind: JobKind, put: JobInserter, options: Options) -> None:
        self._queue, self.kind, self._put, self._options = queue, kind, put, options

    def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> Enqueued[R]:
        """Puts one job in; when this returns it is on disk. TypeError when the arguments do not fit the function.

        With `options(connection=...)` it is on disk when you commit.
        """
        new = self._new(self._put.parameters.bind(args, kwargs), self._options)
        id_, created = self._queue.insert(new, self._options.connection)
        return Enqueued(id_, created, self._queue, self._put.result)

    async def aenqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> Enqueued[R]:
        """As `enqueue`, without blocking the loop, except on a connection of yours to SQLite: it is used here."""
        # What is asked for is checked and read off here, before anybody can change it.
        new = self._new(self._put.parameters.bind(args, kwargs), self._options)
        id_, created = await self._queue.ainsert(new, self._options.connection)
        return Enqueued(id_, created, self._queue, self._put.result)

    def enqueue_many(
        self, calls: Iterable[Call], *, after_each: Sequence[Iterable[Parent] | Parent] | None = None
    ) -> list[Enqueued[R]]:
        """Puts many jobs in, in one transaction: all of them or none.

        send.enqueue_many([("ada@example.org",), {"to": "bob@example.org", "urgent": True}])

        Each call is a tuple of arguments, or a dict of arguments by name. *after_each* has the parents of each job, in
        order.
        """
        jobs = self._many(calls, after_each)
        return self._handles(
            self._queue.run_in_transaction(partial(insert.enqueue, jobs=jobs), self._options.connection)
        )

    async def aenqueue_many(
        self, calls: Iterable[Call], *, after_each: Sequence[Iterable[Parent] | Parent] | None = None
    ) -> list[Enqueued[R]]:
        """As `enqueue_many`, without blocking the loop, except on a connection of yours to SQLite."""
        jobs = self._many(calls, after_each)
        return self._handles(
            await self._queue.arun_in_transaction(partial(insert.enqueue, jobs=jobs), self._options.connection)
        )

    def refuse(self, call: Call, code: str, message: str = "") -> Enqueued[R]:
        """Records a job that failed at intake: it is never tried, and holds no unique.

        send.refuse(("ada@example.org",), "bad_request", "There is no such address.")
        """
        valid_code(code, field="code")
        new = self._new(self._put.parameters.bind_call(call, field="call"), self._options)
        known = self._queue.code_book(self.kind).get(code)
        text = message or (known.message if known is not None else code)
        work = partial(insert.refuse, job=new, code=code, message=text)
        made = self._queue.run_in_transaction(work, self._options.connection)
        return Enqueued(made, created=True, _queue=self._queue, _result=self._put.result)

    def _handles(self, found: Iterable[insert.InsertResult]) -> list[Enqueued[R]]:
        return [Enqueued(each.id, each.created, self._queue, self._put.result) for each in found]

    def _many(self, calls: Iterable[Call], after_each: Sequence[Iterable[Parent] | Parent] | None) -> list[NewJob]:
        if isinstance(calls, (str, bytes, Mapping)):
            raise TypeError(f"calls: {calls!r:.60} is not a list of calls; give one such as [('a',), ('b',)]")
        parameters, options, new = self._put.parameters, self._options, self._new
        bind, none = parameters.bind, dict[str, Any]()
        jobs = [
            new(bind(call, none) if type(call) is tuple else parameters.bind_call(call, field=f"calls[{i}]"), options)
            for i, call in enumerate(calls)
        ]
        if after_each is None:
            return jobs
        if len(after_each) != len(jobs):
            raise ValueError(f"after_each: it is for {len(after_each)} jobs, and there are {len(jobs)}")
        for job, parents in zip(jobs, after_each, strict=True):
            job.parents += _ids(parents, "after_each")
        return jobs

    def _new(self, bound: Bound, options: Options) -> NewJob:
        put, kind = self._put, self.kind
        encoded = put.parameters.encode(bound, put.max_bytes)  # before functions of the user's see what does not fit
        unique = options.unique
        if put.key is not None or (put.unique is not None and unique is _AS_DECLARED):
            bound = put.parameters.complete(bound)
        if unique is _AS_DECLARED:
            unique = None if put.unique is None else put.unique(bound, None)
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
    """A job with options: `enqueue`, `aenqueue`, `enqueue_many`, `aenqueue_many` and `refuse` use them."""

    def __repr__(self) -> str:
        return f"<job {self.kind.name} with options>"


class JobFunction(_Enqueues[P, R]):
    """Calling it runs the function here and now; `enqueue` puts a job in."""

    def __init__(self, queue: Queue, kind: JobKind, put: JobInserter) -> None:
        super().__init__(queue, kind, put, _NO_OPTIONS)
        update_wrapper(self, kind.handler)
        self.__signature__ = put.parameters.signature

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        """What the function returns: nothing is queued. Where it wants a Context it is given a local one.

        That one is at its first attempt, and keeps in memory what is saved.
        """
        parameters = self.kind.parameters
        if parameters.context is None:
            return self.kind.handler(*args, **kwargs)
        return parameters.call(self.kind.handler, parameters.bind(args, kwargs), local_context(self.kind.name))

    def __repr__(self) -> str:
        return f"<job {self.kind.name}>"

    @property
    def pack(self) -> Pack | None:
        """The rules of its target."""
        return self._queue.pack_of(self.kind)

    def options(
        self,
        *,
        due: Due = None,
        priority: int = 0,
        after: Iterable[Parent] | Parent = (),
        unique: Hashable = _AS_DECLARED,
        queue: str | None = None,
        connection: Any = None,
    ) -> ConfiguredJob[P, R]:
        """This job with options for what is put in.

        send.options(due="5m", priority=5).enqueue("ada@example.org")

        *due*: not before that time (a datetime, UNIX time), or not for that long (30, "5m", a timedelta). The higher
        *priority* goes first, from -1000 to 1000. *after*: jobs that must be done first. *unique*: a value that takes
        the place of what the declaration would make of the arguments, or None for a job that may have twins. *queue*:
        another queue than the declared one. *connection*: your own open connection, or the transaction of `db.write`.
        """
        due_at, due_in = _moment(due)
        said = Options(
            queue=None if queue is None else self._queue.known_queue(queue),
            due_at=due_at,
            due_in=due_in,
            priority=whole(priority, field="priority", minimum=-1000, maximum=1000),
            parents=_ids(after, "after"),
            unique=unique,
            connection=connection,
        )
        return ConfiguredJob(self._queue, self.kind, self._put, said)

    def new_job(self, /, *args: P.args, **kwargs: P.kwargs) -> NewJob:
        """The row of a job that a transaction of the caller's is to insert."""
        return self._new(self._put.parameters.bind(args, kwargs), _NO_OPTIONS)

    def scheduled(self, call: Call | Callable[[datetime], Call]) -> Callable[[datetime], NewJob]:
        """How the job of a tick is made: from the same arguments each time, or from a function of its time."""
        bind = self._put.parameters.bind_call
        if not callable(call):
            self._new(bind(call, field="args"), _NO_OPTIONS)  # what does not fit is refused now, not at a tick
        return lambda tick: self._new(bind(call(tick) if callable(call) else call, field="args"), _NO_OPTIONS)


def _ids(parents: Iterable[Parent] | Parent, field: str) -> tuple[int, ...]:
    if isinstance(parents, (int, Enqueued)):
        parents = (parents,)
    return tuple([id_of(parent, field=field) for parent in parents])


def _moment(due: Due) -> tuple[float | None, float | None]:
    """A time, or how long from now: how late it is says the store, as it does when it looks for what is due."""
    if due is None:
        return None, None
    if isinstance(due, datetime):
        return due.timestamp(), None
    if isinstance(due, (int, float)) and _A_DATE < due < math.inf:
        return float(due), None
    return None, seconds(due, field="due")


def lane_of(key: Hashable) -> str:
    """A key of a target as the store has it."""
    return _short(key, "key")


def _short(value: Hashable, what: str) -> str:
    """A key as text that an index can hold; a long one as its digest."""
    plain = what == "key" and isinstance(value, str) and value.isprintable()
    text = str(value) if plain else encode(value, what=what)
    if len(text) <= _MAX_KEY_LENGTH:
        return text
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
