"""Heartbeats of a worker: renews leases, reads cancellations, fences itself."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tidegate.errors import StoreError
from tidegate.jobs import claim
from tidegate.jobs.job import Claimed
from tidegate.jobs.restore import Restored, restored
from tidegate.store.base import Params, Tx, now_of
from tidegate.store.sql import Dialect

if TYPE_CHECKING:
    from tidegate.jobs.attempt import Attempt
    from tidegate.jobs.claim import Renewed
    from tidegate.jobs.worker import Worker


# -- database rollback -----------------------------------------------------------------------------------------------
# A failover may promote a server that lacks the last commits, and a file may be replaced by an older copy. A worker
# knows which of its heartbeats and leases were committed. A database that lacks one of them is treated as restored from
# a backup: no earlier lease is valid.


@dataclass(frozen=True, slots=True)
class HeartbeatMark:
    """The number of a committed heartbeat, and the restore epoch of the database at that time."""

    number: int
    epoch: int = 0


class HeartbeatResult(NamedTuple):
    beat: HeartbeatMark
    put_right: Restored | None  # the database was rolled back, and this worker detected it first


def beat(
    tx: Tx, dialect: Dialect, worker: Params, number: int, last: HeartbeatMark | None, held: Sequence[Claimed] = ()
) -> HeartbeatResult:
    """Writes a heartbeat. *number* grows with each try; *last* is the last one that is known to be committed."""
    id_ = str(worker["id"])
    put_right = None if last is None else check(tx, dialect, id_, last, held)
    tx.query("worker_seen", {**worker, "beat": number})
    return HeartbeatResult(HeartbeatMark(number, _known(tx, id_).epoch), put_right)


def check(tx: Tx, dialect: Dialect, worker: str, last: HeartbeatMark, held: Sequence[Claimed] = ()) -> Restored | None:
    """Repairs a database that lacks the last heartbeat or a lease of a worker, unless another worker has done so."""
    if _went_back(tx, dialect, worker, last, held):
        tx.lock_migrations()
        if _went_back(tx, dialect, worker, last, held):
            return restored(tx, dialect)
    return None


def _went_back(tx: Tx, dialect: Dialect, worker: str, last: HeartbeatMark, held: Sequence[Claimed]) -> bool:
    known = _known(tx, worker)
    if known.epoch != last.epoch:  # a restore increments the epoch and removes the workers
        return known.epoch < last.epoch
    return known.number < last.number or _lacks(tx, dialect, worker, held)


def _lacks(tx: Tx, dialect: Dialect, worker: str, held: Sequence[Claimed]) -> bool:
    """Whether the database lacks a committed lease. Another worker could then get the same fence or job ID."""
    leases = [{"id": job.id, "fence": job.fence} for job in held]
    if tx.query_many("unknown_leases", leases, {"worker": worker}):
        return True
    newest = max((job.id for job in held), default=0)
    return dialect is Dialect.POSTGRES and newest > tx.scalar(int, "last_id_postgres")


def _known(tx: Tx, worker: str) -> HeartbeatMark:
    number, epoch = tx.query("worker_beat", {"id": worker})[0]
    return HeartbeatMark(int(number or 0), int(epoch or 0))


# -- heartbeat -------------------------------------------------------------------------------------------------------

_log = logging.getLogger("tidegate.worker")

_RETRY_SECONDS = 1.0  # before a failed heartbeat is retried, and between two checks of the leases
_LOOP_DELAY_LIMIT = 1.0  # seconds that the loop may be blocked before a warning
_MARK_LIFETIME = 3600.0  # seconds in which the store must know a heartbeat; it prunes silent workers after a day


@dataclass(frozen=True, slots=True)
class _HeartbeatReading:
    """What a heartbeat read from the store."""

    beaten: HeartbeatResult
    renewed: list[Renewed]
    now: float  # of the store
    paused: set[str]  # queues


class Heartbeat:
    """The heartbeat of one worker."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        # The local clock from which store time is estimated. If the store has its own clock, a step of the local wall
        # clock must not shift the estimate.
        self._ours = worker.clock.monotonic if worker.store.keeps_time else worker.clock.now
        self._offset = worker.clock.now() - self._ours()  # until the first heartbeat
        self._heard = True  # the last heartbeat reached the store
        self._beats = 0  # heartbeats tried
        self._last: tuple[HeartbeatMark, float, float] | None = None  # last committed: mark, monotonic and wall time
        self._signed_off = False
        self._put_right: dict[int, int] = {}  # jobs that were queued again after a rollback, by epoch

    def store_now(self) -> float:
        """The estimated time of the store's clock."""
        return self._ours() + self._offset

    async def run(self) -> None:
        """Sends heartbeats for ever."""
        while True:
            every = self._worker.policy.renew_every
            await self._worker.clock.asleep(every if self._heard else min(_RETRY_SECONDS, every))
            await self.try_to_beat()

    async def try_to_beat(self) -> None:
        try:
            await self.beat()
            self._heard = True
        except StoreError as error:
            self._heard = False
            _log.warning("heartbeat_failed error=%s", type(error).__name__)

    async def watch(self) -> None:
        """Checks the leases for ever. This is separate from `run`, which hangs when the store does."""
        worker = self._worker
        often = max(0.05, min(_RETRY_SECONDS, worker.policy.margin / 2))
        seldom = max(often, min(2 * often, (worker.policy.lease - worker.policy.margin) / 3))
        while True:
            every = often if worker.in_flight.attempts else seldom
            expected = worker.clock.monotonic() + every
            await worker.clock.asleep(every)
            late = worker.clock.monotonic() - expected
            if late > _LOOP_DELAY_LIMIT:
                _log.warning("loop_stood_still seconds=%.1f hint=an `async def` handler did not await", late)
            self._self_fence()
            worker.in_flight.release_unstarted()

    async def beat(self) -> None:
        """Renews all leases once, and applies cancellations and pauses."""
        worker = self._worker
        held = self._held()
        jobs = [attempt.job for attempt in held]
        sent, at, last = worker.clock.monotonic(), worker.clock.now(), self._must_be_known()
        self._beats += 1
        number = self._beats
        heard = await worker.executors.beat(lambda: worker.store.write(lambda tx: self._renew(tx, jobs, number, last)))
        self._last = heard.beaten.beat, sent, at
        worker.store.checks.add(self._check)
        self._tell(heard.beaten.put_right)
        self._offset = heard.now - self._ours()
        alive = {renewal.id: renewal for renewal in heard.renewed}
        for attempt in held:
            renewed = alive.get(attempt.job.id)
            if renewed is None:
                # An attempt that has ended may have been settled meanwhile. If not, settling reports the loss.
                if not attempt.ended and attempt.key in worker.in_flight.attempts and attempt.stop != "lost":
                    _log.warning("lease_lost job=%s fence=%s", *attempt.key)
                    attempt.interrupt("lost")
                continue
            if renewed.extended:
                attempt.deadline = sent + worker.policy.lease
            if renewed.stop_asked:
                attempt.request_cancel()
            if attempt.job.queue in heard.paused:
                attempt.context.stopping = True

    def _held(self) -> list[Attempt]:
        """Attempts that may still hold a lease: of a job that was lost and claimed again, only the newer one."""
        newest = {attempt.job.id: attempt for attempt in sorted(self._worker.in_flight.attempts.values(), key=_fence)}
        return [attempt for attempt in newest.values() if attempt.stop != "lost"]

    def _check(self, tx: Tx) -> None:
        """Checks a newly connected server for a rollback, before any lease on it counts."""
        last, worker = self._must_be_known(), self._worker
        held = [attempt.job for attempt in self._held()]
        rollback = None if last is None else check(tx, worker.store.dialect, worker.id, last, held)
        if rollback is not None:
            self._put_right[rollback.epoch] = rollback.requeued

    def _tell(self, rollback: Restored | None) -> None:
        """Logs each rollback once, after the repair is committed."""
        if rollback is not None:
            self._put_right[rollback.epoch] = rollback.requeued
        while self._put_right:
            epoch, requeued = self._put_right.popitem()
            hint = "it lacks its last commits; no lease from before holds"
            _log.error("database_went_back epoch=%s queued_again=%s hint=%s", epoch, requeued, hint)

    def _must_be_known(self) -> HeartbeatMark | None:
        """The last heartbeat, unless it is too old. While a machine sleeps, only one of the two clocks may run."""
        if self._last is None:
            return None
        beat, sent, at = self._last
        clock = self._worker.clock
        return beat if max(clock.monotonic() - sent, clock.now() - at) < _MARK_LIFETIME else None

    def _renew(self, tx: Tx, held: list[Claimed], number: int, last: HeartbeatMark | None) -> _HeartbeatReading:
        worker = self._worker
        if self._signed_off:  # its row is deleted, which would look like a rollback
            raise StoreError("a heartbeat was held up until its worker had signed off")
        worker.store.check_clock(tx)
        beaten = beat(
            tx,
            worker.store.dialect,
            {
                "id": worker.id,
                "host": socket.gethostname(),
                "pid": os.getpid(),
                "queues": json.dumps(sorted(worker.queues | worker.batch_only_queues)),
                "stopping": int(worker.stopping),
                "outdated": int(worker.outdated),
            },
            number,
            last,
            held,
        )
        renewed = claim.renew(tx, held, worker.policy.lease)
        fences = {job.id: job.fence for job in held}
        claim.survive(tx, worker.id, {(lease.id, fences[lease.id]) for lease in renewed if lease.extended})
        now = now_of(tx)
        paused = {name for name, _, until, _ in tx.query("queue_rows") if until is not None and now < until}
        return _HeartbeatReading(beaten, renewed, now, paused)

    def _self_fence(self) -> None:
        """Interrupts attempts whose lease may end before it is renewed, so that no other worker runs them twice."""
        worker = self._worker
        surely = worker.clock.monotonic() + worker.policy.margin
        for attempt in list(worker.in_flight.attempts.values()):
            if surely >= attempt.deadline and not attempt.ended and attempt.stop not in ("fenced", "lost"):
                _log.warning("lease_uncertain job=%s fence=%s", *attempt.key)
                attempt.interrupt("fenced")

    async def sign_off(self) -> None:
        worker, self._signed_off = self._worker, True
        worker.store.checks.discard(self._check)
        try:
            gone = {"id": worker.id}
            await asyncio.wait_for(
                worker.executors.beat(lambda: worker.store.write(lambda tx: tx.query("worker_gone", gone))), 5
            )
        except (StoreError, TimeoutError):
            _log.warning("worker_not_signed_off id=%s", worker.id)


def _fence(attempt: Attempt) -> int:
    return attempt.job.fence
