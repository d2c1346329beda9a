"""When a worker goes to the store, what it brings there, and what it takes home."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidegate.core.job import Claimed
from tidegate.core.logs import logger
from tidegate.errors import StoreBusy, StoreFull
from tidegate.runtime.cycle import Ended, Turn, Wish, turn
from tidegate.runtime.job_gates import JobGates
from tidegate.store.claims import START

if TYPE_CHECKING:
    from tidegate.runtime.worker import Worker

_log = logger("tidegate.worker")

_UNHEARD_FOR = 15.0  # seconds after a turn whose outcome is unknown: its claims may show up late
_ADOPT_EVERY = 1.0  # seconds between two looks for those


class Turns:
    """The turns of one worker at the store: each settles what has ended and claims what there is room for."""

    def __init__(self, worker: Worker, gates: JobGates) -> None:
        self._worker, self._leased, self._gates = worker, worker.leased, gates
        self._given_up: set[tuple[int, int]] = set()
        self._cursor = START
        self._next_due: float | None = None
        self._next_look = -math.inf
        self._next_listen = -math.inf
        self._next_adopt = -math.inf
        self._unheard_until = -math.inf
        self._said_outdated = False

    # -- when ----------------------------------------------------------------------------------------------------

    def news(self) -> None:
        """There may be something to claim."""
        self._next_look = -math.inf

    def wanted(self) -> bool:
        """Whether a turn would do something."""
        now = self._worker.clock.monotonic()
        if self._leased.ended or self._leased.clearable() or (self._leased.attempts and now >= self._next_listen):
            return True
        return not self._worker.stopping and self._leased.room() > 0 and self._due(now)

    def patience(self) -> float:
        """Seconds until a turn may do something without news."""
        now = self._worker.clock.monotonic()
        waits = [self._worker.policy.poll_every]
        if self._leased.attempts:
            waits.append(self._next_listen - now)
        if not self._worker.stopping and self._leased.room() > 0:
            waits.append(self._next_look - now)
            if self._next_due is not None:
                waits.append(self._next_due - self._worker.keeper.store_now())
        return min(waits)

    def _due(self, now: float) -> bool:
        if now >= self._next_look:
            return True
        return self._next_due is not None and self._worker.keeper.store_now() >= self._next_due

    def _due_at(self, moment: float) -> None:
        self._next_due = moment if self._next_due is None else min(moment, self._next_due)

    # -- a turn --------------------------------------------------------------------------------------------------

    async def take(self) -> Turn | None:
        """One turn; None when all of its time went to what could not be written."""
        ended = self._leased.take_ended()
        now = self._worker.clock.monotonic()
        wish = self._wish(len(ended), now)
        try:
            done = await self._at_store(ended, wish)
        except BaseException as error:
            self._leased.ended = ended + self._leased.ended
            self._unheard_until = self._worker.clock.monotonic() + _UNHEARD_FOR
            if not ended or not isinstance(error, Exception) or isinstance(error, (StoreBusy, StoreFull)):
                raise
            await self._one_by_one()
            return None
        if wish.adopt:
            self._next_adopt = now + _ADOPT_EVERY
        if wish.listen:
            self._next_listen = now + self._worker.policy.listen_every
        if wish.promote:
            self._next_due = done.next_due
        if wish.room and len(done.claimed) < wish.room:
            self._next_look = now + self._worker.policy.poll_every  # nothing more for now; news ends the wait
        for key in wish.cleared:
            if key in self._leased.attempts:
                self._leased.attempts[key].suspect = False
        self._leased.in_flight.wait_to_be_alone(self._leased, waits=done.waits_to_be_alone)
        self._say_if_outdated()
        self._after(ended, done, now)
        return done

    def _say_if_outdated(self) -> None:
        """Once: from then on this worker claims nothing."""
        if self._worker.outdated and not self._said_outdated:
            self._said_outdated = True
            hint = "it claims nothing more, and settles what it has; update and restart it"
            _log.error("schema_too_new reason=%s hint=%s", self._worker.schema.too_new, hint)

    def _wish(self, ended: int, now: float) -> Wish:
        worker, held = self._worker, len(self._leased.attempts)
        room = 0 if worker.stopping else self._leased.room(ended)
        return Wish(
            worker=worker.id,
            queues=worker.queues,
            room=room,
            slots=min(room, max(0, worker.policy.concurrency - held + ended)),
            lease=worker.policy.lease,
            cursor=self._cursor,
            promote=self._due(now) and worker.cycle is None,
            adopt=self._next_adopt <= now < self._unheard_until,
            given_up=frozenset(self._given_up),
            listen=held > 0 and now >= self._next_listen,
            cycle=worker.cycle,
            alone=self._leased.in_flight.admits_suspect(self._leased, now),
            cleared=tuple(each.key for each in self._leased.clearable()),
        )

    async def _at_store(self, ended: list[Ended], wish: Wish) -> Turn:
        now = self._worker.keeper.store_now()
        return await self._worker.at_store(lambda tx: turn(tx, self._gates, ended, wish, now, self._worker.schema))

    async def _one_by_one(self) -> None:
        """Something that ended cannot be written, and keeps the others from it: each alone, and that one without."""
        leased, worker = self._leased, self._worker
        ended, leased.ended = leased.ended, []
        wish = Wish(worker=worker.id, queues=worker.queues, room=0, lease=worker.policy.lease, promote=False)
        for each in ended:
            if not await self._alone(each, wish) and not await self._alone(leased.unwritable(each), wish):
                leased.settled(each)
                # Its lease ends by itself; to begin it again under that would be worse.
                self._given_up.add((each.outcome.job.id, each.outcome.job.fence))

    async def _alone(self, each: Ended, wish: Wish) -> bool:
        try:
            self._after([each], await self._at_store([each], wish), self._worker.clock.monotonic())
        except (StoreBusy, StoreFull):
            self._leased.ended.append(each)
        except Exception:
            _log.exception("outcome_not_written job=%s ending=%s", each.outcome.job.id, each.outcome.ending)
            return False
        return True

    # -- what it brought -----------------------------------------------------------------------------------------

    def _after(self, ended: list[Ended], done: Turn, sent: float) -> None:
        self._cursor = done.cursor
        now = self._worker.keeper.store_now()
        late = {id(outcome) for outcome in done.settled.late}
        for each in ended:
            self._leased.settled(each)
            self._count(each, late=id(each.outcome) in late)
            if each.after is not None and id(each.outcome) not in late:
                _call(each.after, each.outcome.job)
            if each.outcome.wait is not None:
                self._due_at(now + each.outcome.wait)
        if done.opens_at is not None:
            self._due_at(done.opens_at)
        self._gates.tell(done.events)
        self._worker.asker.ask(done.asks)
        for job in done.claimed:
            self._leased.start(job, done, sent)
        for job in done.mine:
            if (job.id, job.fence) not in self._leased.attempts:
                _log.warning("claim_adopted job=%s fence=%s", job.id, job.fence)
                self._leased.start(job, done, sent)
        if done.asked:
            asked = set(done.asked)
            for attempt in [each for each in self._leased.attempts.values() if each.job.id in asked]:
                attempt.asked_to_stop()

    def _count(self, each: Ended, *, late: bool) -> None:
        tally, ending = self._worker.tally, each.outcome.ending
        if late:
            tally.lost += 1
            _log.warning("lease_lost job=%s fence=%s", each.outcome.job.id, each.outcome.job.fence)
            return
        setattr(tally, ending, getattr(tally, ending) + 1)
        tally.held += each.held


def _call(after: Callable[[], object], job: Claimed) -> None:
    try:
        after()
    except Exception:  # of the application; what is settled stays so, and the worker has others to settle
        _log.exception("after_raised kind=%s job=%s", job.kind, job.id)
