"""Keeps a worker's leases: renews them, hears of cancellations, and stops what it can no longer be sure of."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
from typing import TYPE_CHECKING

from tidegate.errors import StoreError
from tidegate.store import claims

if TYPE_CHECKING:
    from tidegate.core.job import Claimed
    from tidegate.runtime.worker import Worker
    from tidegate.store.claims import Renewed
    from tidegate.store.tx import Tx

_log = logging.getLogger("tidegate.worker")


class Keeper:
    """The heartbeat of one worker."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._offset = 0.0  # from our wall clock to the store's
        self._unheard = False

    def store_now(self) -> float:
        """The store's clock, as well as we know it."""
        return self._worker._clock.now() + self._offset

    def look_for_unheard(self) -> None:
        """A turn failed and may have been committed all the same: there may be jobs of ours that we know nothing of."""
        self._unheard = True

    async def run(self) -> None:
        worker = self._worker
        while True:
            wait = worker.policy.renew_every
            try:
                await self.beat()
            except StoreError as error:
                _log.warning("heartbeat_failed error=%s", type(error).__name__)
                wait = 1.0
            self._self_fence()
            await worker._clock.asleep(wait)

    async def beat(self) -> None:
        """One renewal of everything that is held."""
        worker = self._worker
        held = [attempt.job for attempt in worker._attempts.values()]
        sent = worker._clock.monotonic()
        renewed, mine, now = await worker._threads.store(lambda: worker._store.write(lambda tx: self._renew(tx, held)))
        self._offset = now - worker._clock.now()
        alive = {each.id: each for each in renewed}
        for job in held:
            attempt = worker._attempts.get(job.id)
            if attempt is None or attempt.job is not job:
                continue
            if job.id not in alive:
                _log.warning("lease_lost job=%s fence=%s", job.id, job.fence)
                attempt.tell("lost")
                continue
            attempt.deadline = sent + worker.policy.lease
            if alive[job.id].stop_asked and attempt.stop is None:
                attempt.tell("person")
        for job in mine:
            if job.id not in worker._attempts:
                worker.start(job, 0, sent, {})

    def _renew(self, tx: Tx, held: list[Claimed]) -> tuple[list[Renewed], list[Claimed], float]:
        worker = self._worker
        tx.all("worker_seen", {
            "id": worker.id, "host": socket.gethostname(), "pid": os.getpid(),
            "queues": json.dumps(sorted(worker._queues)), "stopping": int(worker._stopping),
        })  # fmt: skip
        renewed = claims.renew(tx, held, worker.policy.lease)
        mine: list[Claimed] = []
        if self._unheard:
            mine = claims.mine(tx, worker.id)
            self._unheard = False
        return renewed, mine, float(tx.all("clock")[0][0])

    def _self_fence(self) -> None:
        """Stops attempts whose lease may end before the next heartbeat: nobody else must find them still at work."""
        now = self._worker._clock.monotonic()
        for attempt in self._worker._attempts.values():
            if now >= attempt.deadline - self._worker.policy.margin and attempt.stop != "lost":
                attempt.tell("lost")

    async def goodbye(self) -> None:
        worker = self._worker
        try:
            gone = {"id": worker.id}
            await asyncio.wait_for(
                worker._threads.store(lambda: worker._store.write(lambda tx: tx.all("worker_gone", gone))), 5
            )
        except (StoreError, TimeoutError):
            _log.warning("worker_not_signed_off id=%s", worker.id)
