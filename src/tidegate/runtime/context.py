"""What a handler knows of the job it works on."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tidegate.core.job import Claimed
from tidegate.errors import LeaseLost

Save = Callable[[Claimed, str], Awaitable[bool]]


class Context:
    """One attempt of one job. Handed to the handler as its second argument."""

    __slots__ = ("_job", "_save", "_saved", "_store_id", "cancelled", "lost", "parent_results")

    def __init__(self, job: Claimed, store_id: str, parent_results: Mapping[int, Any], save: Save) -> None:
        self._job = job
        self._store_id = store_id
        self._save = save
        self._saved: dict[str, Any] = json.loads(job.saved) if job.saved else {}
        self.parent_results = parent_results
        self.cancelled = False  # a person asked to stop, or the worker stops
        self.lost = False  # the lease is gone

    @property
    def id(self) -> int:
        return self._job.id

    @property
    def attempt(self) -> int:
        """1 for the first dispatch."""
        return self._job.attempt

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
        """Whether an earlier attempt may have sent something."""
        return self._job.attempt > 1 or self._job.deaths > 0

    @property
    def saved(self) -> Mapping[str, Any]:
        """What an earlier attempt saved."""
        return self._saved

    async def save(self, **values: Any) -> None:
        """Keeps small values for the next attempt, under the lease; raises LeaseLost when that is gone."""
        kept = {**self._saved, **values}
        if self.lost or not await self._save(self._job, json.dumps(kept)):
            self.lost = True
            raise LeaseLost(self._job.id, self._job.fence)
        self._saved = kept
