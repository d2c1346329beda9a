"""Periodic maintenance: every worker rescues and expires jobs, and the leader prunes rows and sums up counters."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tidegate import audit, idempotency, outbox
from tidegate.errors import StoreError, UniqueTaken
from tidegate.faults.codes import CORE
from tidegate.jobs import actions, claim, history, settle
from tidegate.jobs.bulk import table
from tidegate.jobs.job import StoredState
from tidegate.logs import logger
from tidegate.store.base import now_of
from tidegate.targets import table as target_table

if TYPE_CHECKING:
    from tidegate.jobs.worker import Worker
    from tidegate.store.base import Tx

_log = logger("tidegate.worker")

_DAY = 86400.0
RETENTION = {StoredState.DONE: 7 * _DAY, StoredState.FAILED: 30 * _DAY, StoredState.CANCELLED: 30 * _DAY}
EVENT_RETENTION = 30 * _DAY  # of queues and targets
NOTICE_RETENTION = 30 * _DAY  # after they are resolved
_WORKER_RETENTION = _DAY  # after the last heartbeat
_BATCH_SIZE = 200
_KEY_BATCH_SIZE = 1000  # keys that one pass checks
_BATCH_PAUSE = 0.1  # seconds between two batches, while there are more
_MAX_SLICES = 50  # batches per drain
# Runs between two prunes: rows are kept for days, and a prune costs many statements.
_PRUNE_EVERY = 6


class Maintenance:
    """The maintenance of one worker."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._put_down = 0  # the last slot with a rollup
        self._until_old = 0  # runs before the next prune
        self._held_from = ("", "")  # the key that was checked last

    async def run(self) -> None:
        """Runs the maintenance for ever."""
        worker = self._worker
        wait = worker.policy.sweep_every * worker.rng()  # spreads the workers over time
        while True:
            await worker.clock.asleep(wait)
            wait = worker.policy.sweep_every * (0.75 + worker.rng() / 2)
            try:
                await self.rescue_and_expire()
                if not worker.outdated and await self._tidied() | await self.continue_bulk_actions():
                    wait = _BATCH_PAUSE
            except StoreError as error:
                _log.warning("sweep_failed error=%s", type(error).__name__)

    async def tidy(self) -> None:
        """Prunes and sums up once, for a program that only drains, up to a number of batches."""
        try:
            for _ in range(_MAX_SLICES):
                if not await self._tidied():
                    return
        except StoreError as error:
            _log.warning("sweep_failed error=%s", type(error).__name__)

    async def rescue_and_expire(self) -> int:
        """Rescues jobs whose lease ended and fails expired ones. Returns how many."""
        touched = 0
        while count := await self._worker.at_store(self._rescue_lost):
            touched += count
        if touched:
            self._worker.wake.signal_new_work()
        return touched

    async def _tidied(self) -> bool:
        """Sums up, and periodically prunes. Returns True when there is more to do."""
        old = self._until_old <= 0
        more = await self._worker.at_store(lambda tx: self._tidied_in(tx, old=old))
        if old and not more:
            self._until_old = _PRUNE_EVERY
        self._until_old -= 1
        return more

    def _tidied_in(self, tx: Tx, *, old: bool) -> bool:
        old = old and self._worker.store.check_clock(tx)
        return (old and self._prune(tx)) | self.acquire_leadership(tx, old=old)

    async def continue_bulk_actions(self) -> bool:
        """Runs one batch of each bulk action that no other process is running. Returns True when there was one."""
        worker, worked = self._worker, False
        for id_ in await worker.at_store(table.running):
            try:
                operation = await worker.at_store(partial(table.run_batch, id_=id_, holder=worker.id))
            except UniqueTaken:
                operation = await worker.at_store(partial(table.run_singly, id_=id_, holder=worker.id))
            except StoreError:
                raise
            except Exception:
                # A bulk action that always fails must not end every worker that tries it.
                _log.exception("bulk_failed id=%s", id_)
                says = "something went wrong; the log of the worker says more"
                await worker.at_store(partial(table.end, id_=id_, state=table.FAILED, says=says))
                continue
            worked |= operation is not None
        if worked:
            worker.wake.signal_new_work()
        return worked

    def _rescue_lost(self, tx: Tx) -> int:
        lost, old, store = CORE["worker_lost"], CORE["expired"], self._worker.store
        if not self._worker.schema.fits(tx):
            return 0  # a newer worker may have other rules
        if not store.check_clock(tx):
            return 0
        of_kinds = {
            name: claim.LostRule(kind.lost_code, kind.max_crashes, kind.policy.counts_every_attempt)
            for name, kind in self._worker.kinds.items()
        }
        taken = claim.rescue_lost(tx, claim.LostRule(lost.name), lost.message, of_kinds, self._worker.policy.lease)
        sure = store.older_than(0.0, now_of(tx)) > 0
        return taken + (claim.expire(tx, old.name, old.message) if sure else 0)

    def acquire_leadership(self, tx: Tx, *, old: bool) -> bool:
        """Does the leader's work if this worker leads; prunes if *old*. Returns True when there is more to do."""
        worker = self._worker
        if not self.try_lead(tx, "sweeper"):
            return False
        settle.fold_counters(tx)
        now = worker.heartbeat.store_now()
        if history.slot_of(now) != self._put_down:
            self._put_down = history.take(tx, now)
        more = settle.fold_failures(tx)
        if not old:
            return more
        older_than = partial(worker.store.older_than, now=now_of(tx))
        slices = [
            history.prune(tx, older_than, _BATCH_SIZE),
            settle.prune(tx, older_than, EVENT_RETENTION, _BATCH_SIZE),
            target_table.prune_events(tx, older_than(EVENT_RETENTION), _BATCH_SIZE),
            outbox.prune(tx, older_than(NOTICE_RETENTION), _BATCH_SIZE),
            idempotency.prune(tx, older_than(idempotency.RETENTION), _BATCH_SIZE),
            table.prune(tx, older_than(table.RETENTION), _BATCH_SIZE),
            audit.prune(tx, older_than(audit.RETENTION), _BATCH_SIZE),
            len(tx.query("leads_forget", {"n": _BATCH_SIZE})),
            len(tx.query("workers_forget", {"before": older_than(_WORKER_RETENTION), "n": _BATCH_SIZE})),
        ]
        idle, self._held_from = target_table.prune_holds(tx, self._held_from, now, _KEY_BATCH_SIZE)
        return more or idle > 0 or _BATCH_SIZE in slices

    def _prune(self, tx: Tx) -> bool:
        """Prunes old jobs. Each queue has its own leader, because only workers that serve it know its retention."""
        worker, retention = self._worker, self._worker.policy.retention
        now = now_of(tx)
        slices = [
            actions.prune(tx, queue, stage, worker.store.older_than(seconds, now), _BATCH_SIZE)
            for queue in sorted(worker.queues | worker.batch_only_queues)
            if self.try_lead(tx, f"retention {queue}")
            for stage, seconds in {**RETENTION, **retention.get("*", {}), **retention.get(queue, {})}.items()
        ]
        return _BATCH_SIZE in slices

    def try_lead(self, tx: Tx, what: str) -> bool:
        lease = self._worker.policy.sweep_every * 4
        return bool(tx.query("lead", {"name": what, "holder": self._worker.id, "lease": lease}))
