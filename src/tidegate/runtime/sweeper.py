"""What somebody must do now and then: take back lost leases, expire, prune, add up. The last two only the leader does."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tidegate.core.codes import CORE
from tidegate.core.job import Stage
from tidegate.errors import StoreError
from tidegate.store import claims, people, tallies

if TYPE_CHECKING:
    from tidegate.runtime.worker import Worker
    from tidegate.store.tx import Tx

_log = logging.getLogger("tidegate.worker")

_DAY = 86400.0
RETENTION = {Stage.DONE: 7 * _DAY, Stage.FAILED: 30 * _DAY, Stage.CANCELLED: 30 * _DAY}
_SLICE = 200


class Sweeper:
    """The maintenance of one worker."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._swept = 0

    async def run(self) -> None:
        worker = self._worker
        while True:
            # Not all workers at the same moment.
            await worker._clock.asleep(worker.policy.sweep_every * (0.5 + worker._dice()))
            try:
                await worker._threads.store(lambda: worker._store.write(self.sweep))
            except StoreError as error:
                _log.warning("sweep_failed error=%s", type(error).__name__)

    def sweep(self, tx: Tx) -> int:
        """One sweep, in one short transaction; returns how many jobs it touched."""
        lost, old = CORE["worker_lost"], CORE["expired"]
        touched = claims.take_back(tx, lost.name, lost.message)
        touched += claims.expire(tx, old.name, old.message)
        if touched:
            self._worker._wake.set_from_thread()
        if tx.all("lead", {"name": "sweeper", "holder": self._worker.id, "lease": self._worker.policy.sweep_every * 4}):
            touched += self._keep_house(tx)
        return touched

    def _keep_house(self, tx: Tx) -> int:
        self._swept += 1
        tallies.fold(tx)
        now = self._worker.keeper.store_now()
        pruned = 0
        for queue in sorted(self._worker._queues):
            for stage, kept in {**RETENTION, **self._worker.policy.retention.get(queue, {})}.items():
                pruned += people.prune(tx, queue, stage, now - kept, _SLICE)
        return pruned
