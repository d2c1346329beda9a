"""What a handler knows of the job it works on."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any, Protocol

from tidegate.errors import LeaseLost
from tidegate.jobs.job import Claimed
from tidegate.serialization import MAX_BYTES, encode

_TURN_SECONDS = 3600.0  # seconds
_BEFORE_TICK = 2.0  # seconds before the minute in which a schedule puts in the next


class Saver(Protocol):
    """Keeps what a handler saves, under the lease; False when that is lost."""

    async def save(self, job: Claimed, saved: str) -> bool: ...

    def save_now(self, job: Claimed, saved: str) -> bool: ...


class Context:
    """One attempt of one job, for a handler that has a parameter with this annotation.

    @q.job
    async def send(job: Context, to: str) -> None:
        await service.send(to, idempotency_key=job.idempotency_key)
    """

    __slots__ = ("_job", "_saved", "_saver", "_store_id", "cancelled", "in_cycle", "lost", "parent_results", "stopping")

    def __init__(self, job: Claimed, store_id: str, parent_results: Mapping[int, Any], saver: Saver) -> None:
        self._job = job
        self._store_id = store_id
        self._saver = saver
        self._saved: dict[str, Any] = json.loads(job.saved) if job.saved else {}
        self.parent_results = parent_results
        self.cancelled = False  # a person asked to stop, or the worker stops, or the lease is gone
        # The worker is to end, or the queue is paused: work that could go on for long ends where nothing is half done.
        self.stopping = False
        # It is `drain` that waits: work that would go on for ever ends when nothing is left to do.
        self.in_cycle = False
        self.lost = False  # the lease is gone, or soon may be: touch nothing outside any more

    @property
    def id(self) -> int:
        return self._job.id

    @property
    def attempt(self) -> int:
        """1 for the first dispatch."""
        return self._job.attempt

    @property
    def deaths(self) -> int:
        """How many attempts before this one were cut short because their worker died."""
        return self._job.deaths

    @property
    def fence(self) -> int:
        """Grows with every claim; give it to a service that can refuse an older one."""
        return self._job.fence

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of this job, and for no other job."""
        return f"tidegate-{self._store_id}-{self._job.id}"

    @property
    def deadline(self) -> float | None:
        """When the job is of no use any more, UNIX time."""
        return self._job.expires_at

    @property
    def retried(self) -> bool:
        """Whether it was claimed before, so that an earlier attempt may have sent something."""
        # Not the attempt: that starts again when a person retries the job.
        return self._job.fence > 1

    @property
    def saved(self) -> Mapping[str, Any]:
        """What an earlier attempt saved."""
        return self._saved

    @staticmethod
    def end_of_turn(now: float) -> float:
        """When work without an end that begins *now* makes room for a fresh job: in an hour, just before a full minute.

        A schedule of every minute puts the next one in then, and nothing waits.
        """
        return (now + _TURN_SECONDS) // 60 * 60 + 60 - _BEFORE_TICK

    async def save(self, **values: Any) -> None:
        """Keeps small values for the next attempt, under the lease; raises LeaseLost when that is gone."""
        kept = {**self._saved, **values}
        self._settled(
            kept, ok=not self.lost and await self._saver.save(self._job, encode(kept, what="save", limit=MAX_BYTES))
        )

    def save_now(self, **values: Any) -> None:
        """As `save`, for a handler that is a plain `def`."""
        kept = {**self._saved, **values}
        self._settled(
            kept, ok=not self.lost and self._saver.save_now(self._job, encode(kept, what="save", limit=MAX_BYTES))
        )

    def _settled(self, kept: dict[str, Any], *, ok: bool) -> None:
        if not ok:
            self.lost = True
            raise LeaseLost(self._job.id, self._job.fence)
        self._saved = kept


class _InMemory:
    """Keeps what a handler saves that runs without a queue."""

    async def save(self, job: Claimed, saved: str) -> bool:
        return True

    def save_now(self, job: Claimed, saved: str) -> bool:
        return True


def local_context(kind: str) -> Context:
    """The Context of a plain call: its first attempt, which no database knows. It saves in memory."""
    job = Claimed(
        id=0,
        queue="",
        kind=kind,
        target="",
        lane="",
        priority=0,
        attempt=1,
        most_attempts=1,
        deaths=0,
        suspect=0,
        fence=1,
        lease_until=0.0,
        claimed_at=0.0,
        args="{}",
        saved=None,
        parents=0,
        children=0,
        created_at=0.0,
        expires_at=None,
        last_code=None,
    )
    return Context(job, f"local-{uuid.uuid4().hex}", {}, _InMemory())
