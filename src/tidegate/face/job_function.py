"""A declared job: the function itself, and how to put work in for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tidegate.core.checks import whole
from tidegate.core.duration import Duration, seconds
from tidegate.core.job import NewJob, while_mask
from tidegate.core.serial import encode
from tidegate.runtime.job_kinds import JobKind
from tidegate.store import intake
from tidegate.store.intake import Taken
from tidegate.store.tx import Tx

if TYPE_CHECKING:
    from tidegate.face.queue import Queue

A = TypeVar("A")
R = TypeVar("R")
Due = float | str | timedelta | datetime | None


@dataclass(frozen=True, slots=True)
class Enqueued:
    """The job that stands for what was asked; `created` is False when it is a twin that was there already."""

    id: int
    created: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """How the jobs of a kind are put in."""

    key: Callable[[Any], Hashable] | None
    unique: Callable[[Any], Hashable] | None
    unique_while: int
    expires: float | None
    most: int


class JobFunction(Generic[A, R]):
    """Calling it runs the function here and now; `enqueue` puts a job in."""

    def __init__(self, queue: Queue, kind: JobKind, put: Intake) -> None:
        self._queue, self.kind, self._put = queue, kind, put
        update_wrapper(self, kind.handler)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.kind.handler(*args, **kwargs)

    def enqueue(
        self,
        args: A,
        *,
        after: Iterable[Enqueued | int] = (),
        due: Due = None,
        priority: int = 0,
        connection: Any = None,
    ) -> Enqueued:
        """Puts one job in; when this returns it is on disk. On a *connection* of yours it is when you commit."""
        return self._enqueue([self._new(args, after, due, priority)], connection)[0]

    async def aenqueue(self, args: A, **options: Any) -> Enqueued:
        """As `enqueue`, without blocking the loop."""
        return await asyncio.get_running_loop().run_in_executor(None, partial(self.enqueue, args, **options))

    def enqueue_many(
        self, many: Sequence[A], *, due: Due = None, priority: int = 0, connection: Any = None
    ) -> list[Enqueued]:
        """Puts many jobs in, in one transaction: all of them or none."""
        return self._enqueue([self._new(args, (), due, priority) for args in many], connection)

    def refuse(self, args: A, code: str, message: str = "", *, connection: Any = None) -> Enqueued:
        """Records a job that failed at intake: it is never tried, and holds no unique."""
        new = self._new(args, (), None, 0)
        known = self._queue.code_book(self.kind).get(code)
        text = message or (known.message if known is not None else code)
        return Enqueued(
            self._queue.put(partial(intake.refuse, job=new, code=code, message=text), connection), created=True
        )

    def _enqueue(self, jobs: list[NewJob], connection: Any) -> list[Enqueued]:
        def work(tx: Tx) -> list[Taken]:
            return intake.enqueue(tx, jobs)

        taken = self._queue.put(work, connection)
        return [Enqueued(each.id, each.created) for each in taken]

    def _new(self, args: A, after: Iterable[Enqueued | int], due: Due, priority: int) -> NewJob:
        put, kind = self._put, self.kind
        now = self._queue.clock.now()
        return NewJob(
            queue=kind.queue,
            kind=kind.name,
            target=kind.target,
            lane="" if put.key is None else str(put.key(args)),
            args=encode(args, most=put.most),
            priority=whole(priority, field="priority", least=-1000, most=1000),
            due_at=_moment(due, now),
            expires_at=None if put.expires is None else now + put.expires,
            most_attempts=kind.policy.attempts,
            unique_key=None if put.unique is None else json.dumps(put.unique(args), default=str),
            unique_while=put.unique_while if put.unique is not None else 0,
            parents=tuple(each if isinstance(each, int) else each.id for each in after),
        )


def _moment(due: Due, now: float) -> float | None:
    if due is None:
        return None
    if isinstance(due, datetime):
        return due.timestamp()
    return now + seconds(due, field="due") if isinstance(due, (str, timedelta)) else float(due)


def intake_of(
    key: Callable[[Any], Hashable] | None,
    unique: Callable[[Any], Hashable] | None,
    while_: Any,
    expires: Duration | None,
    most: int,
) -> Intake:
    held = {"queued", "running"} if while_ is None else set(while_)
    return Intake(
        key=key, unique=unique, unique_while=while_mask(held),
        expires=None if expires is None else seconds(expires, field="expires", least=0.001), most=most,
    )  # fmt: skip
