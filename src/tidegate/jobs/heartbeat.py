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
from tidegate.store.base import Params, Tx
from tidegate.store.sql import Dialect

if TYPE_CHECKING:
    from tidegate.jobs.attempt import Attempt
    from tidegate.jobs.claim import Renewed
    from tidegate.jobs.worker import Worker


# Heartbeats of workers, and how a database is found out that went back in time by itself.
#
# A server may be replaced by one that lacks the last commits, a file by an older copy of it. A worker knows which of
# its beats were committed, and which leases it was given. A database that does not know one of them is treated as one
# that was put back: no lease from before matches.


@dataclass(frozen=True, slots=True)
class HeartbeatMark:
    """One that was committed, and how often the database had been put back by then."""

    number: int
    epoch: int = 0


class HeartbeatResult(NamedTuple):
    beat: HeartbeatMark
    put_right: Restored | None  # the database had gone back, and this worker was the first to see it


def beat(
    tx: Tx, dialect: Dialect, worker: Params, number: int, last: HeartbeatMark | None, held: Sequence[Claimed] = ()
) -> HeartbeatResult:
    """Says that a worker lives. Its numbers rise with each try; *last* is the last that it knows to be committed."""
    put_right = None if last is None else check(tx, dialect, worker["id"], last, held)
    tx.query("worker_seen", {**worker, "beat": number})
    return HeartbeatResult(HeartbeatMark(number, _known(tx, worker["id"]).epoch), put_right)


def check(tx: Tx, dialect: Dialect, worker: str, last: HeartbeatMark, held: Sequence[Claimed] = ()) -> Restored | None:
    """Puts a database right that does not know the last beat or a lease of a worker, unless another has done so."""
    if _went_back(tx, dialect, worker, last, held):
        tx.lock_migrations()
        if _went_back(tx, dialect, worker, last, held):
            return restored(tx, dialect)
    return None


def _went_back(tx: Tx, dialect: Dialect, worker: str, last: HeartbeatMark, held: Sequence[Claimed]) -> bool:
    known = _known(tx, worker)
    if known.epoch != last.epoch:  # whoever puts a database back counts the epoch up, and removes the workers
        return known.epoch < last.epoch
    return known.number < last.number or _lacks(tx, dialect, worker, held)


def _lacks(tx: Tx, dialect: Dialect, worker: str, held: Sequence[Claimed]) -> bool:
    """Whether a lease that was committed is not known: another worker could be given the same fence, or the same id."""
    leases = [{"id": each.id, "fence": each.fence} for each in held]
    if tx.query_many("unknown_leases", leases, {"worker": worker}):
        return True
    newest = max((each.id for each in held), default=0)
    return dialect is Dialect.POSTGRES and newest > int(tx.query("last_id_postgres")[0][0])


def _known(tx: Tx, worker: str) -> HeartbeatMark:
    number, epoch = tx.query("worker_beat", {"id": worker})[0]
    return HeartbeatMark(int(number or 0), int(epoch or 0))


# Keeps a worker's leases: renews them, hears of cancellations, and stops what it can no longer be sure of.

_log = logging.getLogger("tidegate.worker")

_RETRY_SECONDS = 1.0  # seconds: how soon a failed heartbeat is tried again, and how often leases are looked at
_LOOP_DELAY_LIMIT = 1.0  # seconds that the loop may stand still before it is said
_MARK_LIFETIME = 3600.0  # seconds in which the store must know a beat; who is silent for a day is forgotten


@dataclass(frozen=True, slots=True)
class _HeartbeatReading:
    """What a heartbeat brought."""

    beaten: HeartbeatResult
    renewed: list[Renewed]
    now: float  # of the store
    paused: set[str]  # queues


class Heartbeat:
    """The heartbeat of one worker."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        # From a clock of ours to the store's. Where that is its own, a step of our wall clock must not seem to be one.
        self._ours = worker.clock.monotonic if worker.store.keeps_time else worker.clock.now
        self._offset = worker.clock.now() - self._ours()  # until the store is heard of
        self._heard = True  # the last heartbeat reached the store
        self._beats = 0  # that were tried
        self._last: tuple[HeartbeatMark, float, float] | None = None  # that reached the store, and when, by two clocks
        self._signed_off = False
        self._put_right: dict[int, int] = {}  # by epoch: jobs that were queued again, since the store had gone back

    def store_now(self) -> float:
        """The store's clock, as well as we know it."""
        return self._ours() + self._offset

    async def run(self) -> None:
        """Renews what is held, for ever."""
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
        """Looks at the leases, for ever. Apart from the heartbeat, which may hang when the store does."""
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
        """One renewal of everything that is held."""
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
        alive = {each.id: each for each in heard.renewed}
        for attempt in held:
            found = alive.get(attempt.job.id)
            if found is None:
                # One that has ended was perhaps settled meanwhile; if it was not, its settling will tell.
                if not attempt.ended and attempt.key in worker.in_flight.attempts and attempt.stop != "lost":
                    _log.warning("lease_lost job=%s fence=%s", *attempt.key)
                    attempt.interrupt("lost")
                continue
            if found.extended:
                attempt.deadline = sent + worker.policy.lease
            if found.stop_asked:
                attempt.request_cancel()
            if attempt.job.queue in heard.paused:
                attempt.context.stopping = True

    def _held(self) -> list[Attempt]:
        """What may still be ours: of a job that was lost and taken again, only the newer attempt."""
        newest = {attempt.job.id: attempt for attempt in sorted(self._worker.in_flight.attempts.values(), key=_fence)}
        return [attempt for attempt in newest.values() if attempt.stop != "lost"]

    def _check(self, tx: Tx) -> None:
        """Whether the server that is there now knows what the one before did: no lease counts before that is sure."""
        last, worker = self._must_be_known(), self._worker
        held = [attempt.job for attempt in self._held()]
        found = None if last is None else check(tx, worker.store.dialect, worker.id, last, held)
        if found is not None:
            self._put_right[found.epoch] = found.requeued

    def _tell(self, found: Restored | None) -> None:
        """Once, when it is sure to be committed."""
        if found is not None:
            self._put_right[found.epoch] = found.requeued
        while self._put_right:
            epoch, requeued = self._put_right.popitem()
            hint = "it lacks its last commits; no lease from before holds"
            _log.error("database_went_back epoch=%s queued_again=%s hint=%s", epoch, requeued, hint)

    def _must_be_known(self) -> HeartbeatMark | None:
        """The last beat, unless it is long ago. A machine that sleeps counts that by one of its clocks only."""
        if self._last is None:
            return None
        beat, sent, at = self._last
        clock = self._worker.clock
        return beat if max(clock.monotonic() - sent, clock.now() - at) < _MARK_LIFETIME else None

    def _renew(self, tx: Tx, held: list[Claimed], number: int, last: HeartbeatMark | None) -> _HeartbeatReading:
        worker = self._worker
        if self._signed_off:  # its row is gone, and would seem to be lost by a database that went back
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
        claim.survive(tx, worker.id)
        now = float(tx.query("clock")[0][0])
        paused = {name for name, _, until, _ in tx.query("queue_rows") if until is not None and now < until}
        return _HeartbeatReading(beaten, claim.renew(tx, held, worker.policy.lease), now, paused)

    def _self_fence(self) -> None:
        """Stops attempts whose lease may end before it is renewed: nobody else must find them still at work."""
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
