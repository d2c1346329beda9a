"""A job that was put in, as a handle that tells what has become of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from tidegate.core.duration import Duration, seconds
from tidegate.core.job import Job, JobState
from tidegate.core.serial import Serial
from tidegate.errors import JobCancelled, JobFailed, JobForgotten, NotFound
from tidegate.runtime.clock import Clock

if TYPE_CHECKING:
    from tidegate.face.queue import Queue

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
