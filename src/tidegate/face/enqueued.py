"""A job that was put in, as a handle that tells what has become of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from tidegate.core.duration import Duration, seconds
from tidegate.core.job import Job, JobState
from tidegate.core.serial import Serial
from tidegate.errors import NotThere

if TYPE_CHECKING:
    from tidegate.face.queue import Queue

R = TypeVar("R")

_MOST_IDS = 2**63  # what a database can count to
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
        """The job as it stands; NotThere when it is gone."""
        return self._queue.get(self.id)

    def state(self) -> JobState:
        return self._queue.row(self.id).state

    def result(self) -> R | None:
        """What the handler returned, with its type; None while the job is not done."""
        text = self._queue.row(self.id).result
        return None if text is None else self._result.decode(text)

    async def wait(self, timeout: Duration | None = None) -> Job:
        """The job, once it is done, failed or cancelled; TimeoutError when it is not within *timeout*.

        It runs nothing: a worker must do that, here or elsewhere.
        """
        clock = self._queue.clock
        end = None if timeout is None else clock.monotonic() + seconds(timeout, field="timeout")
        pause = _FIRST
        if self.created:  # a look at once finds nothing, and is in the way of the worker that begins it
            await clock.asleep(pause if end is None else max(0.0, min(pause, end - clock.monotonic())))
        while not (job := await self._queue.at_store(lambda: self._queue.row(self.id))).state.final:
            left = pause if end is None else min(pause, end - clock.monotonic())
            if left <= 0:
                raise TimeoutError(f"job {self.id} is still {job.state} after {timeout}")
            await clock.asleep(left)
            pause = min(pause * _GROWTH, _LONGEST)
        return job.read()


def id_of(job: Enqueued[R] | int, *, field: str = "job") -> int:
    """The number of a job, however it was given."""
    if isinstance(job, Enqueued):
        return job.id
    if isinstance(job, bool) or not isinstance(job, int):
        raise TypeError(f"{field}: {job!r:.60} is no job; give what enqueue returned, or its number")
    if not -_MOST_IDS <= job < _MOST_IDS:
        raise NotThere("there is no job with a number of so many digits")
    return job
