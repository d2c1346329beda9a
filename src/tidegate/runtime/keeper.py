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
    from tidegate.runtime.job_attempts import Attempt
    from tidegate.runtime.worker import Worker
    from tidegate.store.claims import Renewed
    from tidegate.store.tx import Tx

_log = logging.getLogger("tidegate.worker")

_SOON = 1.0  # seconds: how soon a failed heartbeat is tried again, and how often leases are looked at
_TOO_LATE = 1.0  # seconds that the loop may stand still before it is said


class Keeper:
    """The heartbeat of one worker."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        # From a clock of ours to the store's. Where that is its own, a step of our wall clock must not seem to be one.
        self._ours = worker.clock.monotonic if worker.store.keeps_time else worker.clock.now
        self._offset = worker.clock.now() - self._ours()  # until the store is heard of
        self._heard = True  # the last heartbeat reached the store

    def store_now(self) -> float:
        """The store's clock, as well as we know it."""
        return self._ours() + self._offset

    async def run(self) -> None:
        """Renews what is held, for ever."""
        while True:
            every = self._worker.policy.renew_every
            await self._worker.clock.asleep(every if self._heard else min(_SOON, every))
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
        often = max(0.05, min(_SOON, worker.policy.margin / 2))
        seldom = max(often, min(2 * often, (worker.policy.lease - worker.policy.margin) / 3))
        while True:
            every = often if worker.leased.attempts else seldom
            expected = worker.clock.monotonic() + every
            await worker.clock.asleep(every)
            late = worker.clock.monotonic() - expected
            if late > _TOO_LATE:
                _log.warning("loop_stood_still seconds=%.1f hint=an `async def` handler did not await", late)
            self._self_fence()
            worker.leased.give_back_the_unbegun()

    async def beat(self) -> None:
        """One renewal of everything that is held."""
        worker = self._worker
        held = self._held()
        jobs = [attempt.job for attempt in held]
        sent = worker.clock.monotonic()
        renewed, now, paused = await worker.threads.beat(lambda: worker.store.write(lambda tx: self._renew(tx, jobs)))
        self._offset = now - self._ours()
        alive = {each.id: each for each in renewed}
        for attempt in held:
            found = alive.get(attempt.job.id)
            if found is None:
                # One that has ended was perhaps settled meanwhile; if it was not, its settling will tell.
                if not attempt.ended and attempt.key in worker.leased.attempts and attempt.stop != "lost":
                    _log.warning("lease_lost job=%s fence=%s", *attempt.key)
                    attempt.tell("lost")
                continue
            if found.extended:
                attempt.deadline = sent + worker.policy.lease
            if found.stop_asked:
                attempt.asked_to_stop()
            if attempt.job.queue in paused:
                attempt.context.stopping = True

    def _held(self) -> list[Attempt]:
        """What may still be ours: of a job that was lost and taken again, only the newer attempt."""
        newest = {attempt.job.id: attempt for attempt in sorted(self._worker.leased.attempts.values(), key=_fence)}
        return [attempt for attempt in newest.values() if attempt.stop != "lost"]

    def _renew(self, tx: Tx, held: list[Claimed]) -> tuple[list[Renewed], float, set[str]]:
        """What was renewed, the time of the store, and the queues that somebody has paused."""
        worker = self._worker
        tx.all("worker_seen", {
            "id": worker.id, "host": socket.gethostname(), "pid": os.getpid(),
            "queues": json.dumps(sorted(worker.queues | worker.cycled)), "stopping": int(worker.stopping),
        })  # fmt: skip
        now = float(tx.all("clock")[0][0])
        paused = {name for name, _, until, _ in tx.all("queue_rows") if until is not None and now < until}
        return claims.renew(tx, held, worker.policy.lease), now, paused

    def _self_fence(self) -> None:
        """Stops attempts whose lease may end before it is renewed: nobody else must find them still at work."""
        worker = self._worker
        surely = worker.clock.monotonic() + worker.policy.margin
        for attempt in list(worker.leased.attempts.values()):
            if surely >= attempt.deadline and not attempt.ended and attempt.stop not in ("fenced", "lost"):
                _log.warning("lease_uncertain job=%s fence=%s", *attempt.key)
                attempt.tell("fenced")

    async def goodbye(self) -> None:
        worker = self._worker
        try:
            gone = {"id": worker.id}
            await asyncio.wait_for(
                worker.threads.beat(lambda: worker.store.write(lambda tx: tx.all("worker_gone", gone))), 5
            )
        except (StoreError, TimeoutError):
            _log.warning("worker_not_signed_off id=%s", worker.id)


def _fence(attempt: Attempt) -> int:
    return attempt.job.fence
