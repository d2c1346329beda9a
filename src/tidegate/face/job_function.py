"""A declared job: the function itself, and how to put work in for it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tidegate.core.checks import valid_code, whole
from tidegate.core.duration import Duration, seconds
from tidegate.core.job import NewJob
from tidegate.core.pack import Pack
from tidegate.core.serial import Serial, encode
from tidegate.face.enqueued import Enqueued, id_of
from tidegate.runtime.job_kinds import JobKind
from tidegate.store import intake

if TYPE_CHECKING:
    from tidegate.face.queue import Queue

A = TypeVar("A")
R = TypeVar("R")
Due = Duration | datetime | None
Parent = Enqueued[Any] | int

_A_DATE = 1e9  # nobody waits for thirty years: such a number is UNIX time
_LONGEST_KEY = 200  # what an index can hold is bounded, and what a page can show


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """How the jobs of a kind are put in."""

    arguments: Serial
    result: Serial
    key: Callable[[Any], Hashable] | None = None
    unique: Callable[[Any], Hashable] | None = None
    unique_while: int = 0
    expires: float | None = None
    most: int


class JobFunction(Generic[A, R]):
    """Calling it runs the function here and now; `enqueue` puts a job in."""

    def __init__(self, queue: Queue, kind: JobKind, put: Intake) -> None:
        self._queue, self.kind, self._put = queue, kind, put
        update_wrapper(self, kind.handler)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.kind.handler(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<job {self.kind.name}>"

    @property
    def pack(self) -> Pack | None:
        """The rules of its target."""
        return self._queue.pack_of(self.kind)

    def enqueue(
        self,
        args: A,
        *,
        after: Iterable[Parent] | Parent = (),
        due: Due = None,
        priority: int = 0,
        connection: Any = None,
    ) -> Enqueued[R]:
        """Puts one job in; when this returns it is on disk. On a *connection* of yours it is when you commit.

        *after*: jobs that must be done first. *due*: not before that time (a datetime, UNIX time), or not for that long
        (30, "5m", a timedelta).
        The higher *priority* goes first, from -1000 to 1000.
        """
        new = self._new(args, after, due, priority)
        id_, created = self._queue.put_one(new, connection)
        return Enqueued(id_, created, self._queue, self._put.result)

    async def aenqueue(
        self,
        args: A,
        *,
        after: Iterable[Parent] | Parent = (),
        due: Due = None,
        priority: int = 0,
        connection: Any = None,
    ) -> Enqueued[R]:
        """As `enqueue`, without blocking the loop, except on a *connection* of yours to SQLite: it is used here."""
        # What is asked for is checked and read off here, before anybody can change it.
        new = self._new(args, after, due, priority)
        id_, created = await self._queue.aput_one(new, connection)
        return Enqueued(id_, created, self._queue, self._put.result)

    def enqueue_many(
        self,
        many: Sequence[A],
        *,
        after: Sequence[Iterable[Parent] | Parent] | None = None,
        due: Due = None,
        priority: int = 0,
        connection: Any = None,
    ) -> list[Enqueued[R]]:
        """Puts many jobs in, in one transaction: all of them or none. *after* has the parents of each, in order."""
        parents = [()] * len(many) if after is None else after
        if len(parents) != len(many):
            raise ValueError(f"after: it is for {len(parents)} jobs, and there are {len(many)}")
        jobs = [self._new(args, of, due, priority) for args, of in zip(many, parents, strict=True)]
        found = self._queue.put(partial(intake.enqueue, jobs=jobs), connection)
        return [Enqueued(each.id, each.created, self._queue, self._put.result) for each in found]

    def scheduled(self, args: A | Callable[[datetime], A]) -> Callable[[datetime], NewJob]:
        """How the job of a tick is made: from the same arguments each time, or from a function of its time."""
        if not callable(args):
            self._new(args, (), None, 0)  # what cannot be stored is refused now, not at three in the morning
        return lambda tick: self._new(args(tick) if callable(args) else args, (), None, 0)

    def refuse(self, args: A, code: str, message: str = "", *, connection: Any = None) -> Enqueued[R]:
        """Records a job that failed at intake: it is never tried, and holds no unique."""
        valid_code(code, field="code")
        new = self._new(args, (), None, 0)
        known = self._queue.code_book(self.kind).get(code)
        text = message or (known.message if known is not None else code)
        made = self._queue.put(partial(intake.refuse, job=new, code=code, message=text), connection)
        return Enqueued(made, created=True, _queue=self._queue, _result=self._put.result)

    def _new(self, args: A, after: Iterable[Parent] | Parent, due: Due, priority: int) -> NewJob:
        put, kind = self._put, self.kind
        encoded = put.arguments.encode(args, most=put.most)  # before functions of the user's see what does not fit
        parents = (after,) if isinstance(after, (int, Enqueued)) else after
        unique = None if put.unique is None else put.unique(args)
        due_at, due_in = _moment(due)
        return NewJob(
            queue=kind.queue,
            kind=kind.name,
            target=kind.target,
            lane="" if put.key is None else lane_of(put.key(args)),
            args=encoded,
            priority=whole(priority, field="priority", least=-1000, most=1000),
            due_at=due_at,
            due_in=due_in,
            expires_in=put.expires,
            most_attempts=kind.policy.attempts,
            unique_key=None if unique is None else _short(unique, "unique"),
            unique_while=0 if unique is None else put.unique_while,
            parents=tuple([id_of(each, field="after") for each in parents]) if parents else (),
            cancellable=kind.cancellable,
        )


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
    if len(text) <= _LONGEST_KEY:
        return text
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
