"""The context of an attempt, for its handler."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Protocol

from tidegate.errors import LeaseLost
from tidegate.jobs.job import Claimed
from tidegate.serialization import MAX_BYTES, encode

_TURN_SECONDS = 3600.0
_BEFORE_TICK = 2.0  # seconds before the minute in which a schedule inserts the next job


_current: ContextVar[Context | None] = ContextVar("tidegate_context")


def enter(context: Context | None) -> None:
    """Makes *context* the current one of this task or thread."""
    _current.set(context)


class Saver(Protocol):
    """Stores the values that a handler saves, under the lease. Returns False when the lease is lost."""

    async def save(self, job: Claimed, saved: str) -> bool: ...

    def save_now(self, job: Claimed, saved: str) -> bool: ...


class Context:
    """One attempt of one job. A handler receives it in the parameter with this annotation.

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
        self.cancelled = False  # a user cancelled the job, the worker stops, or the lease is lost
        # The worker stops, or the queue is paused: a long-running handler returns at the next consistent point.
        self.stopping = False
        # The worker drains: a handler without an end returns when no work is left.
        self.in_cycle = False
        self.lost = False  # the lease is lost or about to expire: make no more external calls

    @staticmethod
    def current() -> Context:
        """The context of the job that runs here, for a function without a Context parameter.

        Outside of a worker, a local context at its first attempt, as for a plain call.
        """
        return _current.get(None) or local_context("")

    @property
    def id(self) -> int:
        return self._job.id

    @property
    def attempt(self) -> int:
        """The number of the attempt, from 1."""
        return self._job.attempt

    @property
    def deaths(self) -> int:
        """How many earlier attempts ended because their worker crashed."""
        return self._job.deaths

    @property
    def fence(self) -> int:
        """The fencing token. It grows with every claim; pass it to a service that can reject an older one."""
        return self._job.fence

    @property
    def idempotency_key(self) -> str:
        """A key that all attempts of this job share, and no other job has."""
        return f"tidegate-{self._store_id}-{self._job.id}"

    @property
    def deadline(self) -> float | None:
        """When the job expires, UNIX time; None if it does not."""
        return self._job.expires_at

    @property
    def retried(self) -> bool:
        """Whether the job was claimed before, so that an earlier attempt may have sent something."""
        # A manual retry resets the attempt number, but not the fence.
        return self._job.fence > 1

    @property
    def saved(self) -> Mapping[str, Any]:
        """The values that this and earlier attempts saved."""
        return self._saved

    @staticmethod
    def end_of_turn(now: float) -> float:
        """When a handler without an end that starts *now* returns: in an hour, just before a full minute.

        A schedule that runs every minute then inserts the next job without a gap.
        """
        return (now + _TURN_SECONDS) // 60 * 60 + 60 - _BEFORE_TICK

    async def save(self, **values: Any) -> None:
        """Saves small values for the next attempt. Raises LeaseLost when the lease is lost."""
        merged = {**self._saved, **values}
        self._settled(
            merged, ok=not self.lost and await self._saver.save(self._job, encode(merged, what="save", limit=MAX_BYTES))
        )

    def save_now(self, **values: Any) -> None:
        """As `save`, for a synchronous handler."""
        merged = {**self._saved, **values}
        self._settled(
            merged, ok=not self.lost and self._saver.save_now(self._job, encode(merged, what="save", limit=MAX_BYTES))
        )

    def _settled(self, merged: dict[str, Any], *, ok: bool) -> None:
        if not ok:
            self.lost = True
            raise LeaseLost(self._job.id, self._job.fence)
        self._saved = merged


class _InMemory:
    """The saver of a handler that is called without a queue."""

    async def save(self, job: Claimed, saved: str) -> bool:
        return True

    def save_now(self, job: Claimed, saved: str) -> bool:
        return True


def local_context(kind: str) -> Context:
    """The Context of a direct call: a first attempt that is not in the database. It saves in memory."""
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
