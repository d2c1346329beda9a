"""A worker: claims what may go, runs it, settles it, keeps its leases, and stops gently."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import random
import socket
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from tidegate.core.codes import CORE
from tidegate.core.fault import Reach
from tidegate.core.job import Claimed, Stage
from tidegate.errors import StoreBusy, StoreError, StoreFull
from tidegate.machine import lifecycle
from tidegate.runtime import job_attempts as trying
from tidegate.runtime.asking import Asker
from tidegate.runtime.clock import Clock
from tidegate.runtime.context import Context
from tidegate.runtime.cycle import Ended, Turn, Wish, turn
from tidegate.runtime.ending import Ending
from tidegate.runtime.job_attempts import Attempt
from tidegate.runtime.job_gates import JobGates
from tidegate.runtime.job_kinds import JobKind
from tidegate.runtime.keeper import Keeper
from tidegate.runtime.slots import Slots
from tidegate.runtime.sweeper import Sweeper
from tidegate.runtime.threads import Threads
from tidegate.runtime.wake import Wake
from tidegate.runtime.worker_policy import Tally, WorkerPolicy
from tidegate.store import claims
from tidegate.store.claims import MOST_DEATHS, START
from tidegate.store.tx import Store, Tx

T = TypeVar("T")
_log = logging.getLogger("tidegate.worker")

_PATIENCE = (0.05, 5.0)  # seconds between tries at a store that does not answer, first and longest
_LISTEN_EVERY = 1.0  # seconds between two looks for jobs that a person wants stopped
_UNHEARD_FOR = 15.0  # seconds after a turn whose outcome is unknown: its claims may show up late
_ADOPT_EVERY = 1.0
_GATHER = 0.004
_BUFFERED = 1.0  # seconds that a job may wait for a slot here, while another worker may be free
_SUSPECT_WAIT = 1.0
_AFTER = 0.001


class Worker:
    """Runs jobs until it is told to stop. One per event loop; any number on any number of hosts."""

    def __init__(
        self,
        store: Store,
        kinds: Mapping[str, JobKind],
        gates: JobGates,
        *,
        clock: Clock,
        threads: Threads,
        wake: Wake,
        policy: WorkerPolicy,
        queues: frozenset[str],
        store_id: str,
        dice: Callable[[], float] = random.random,
        beside: Sequence[Callable[[Worker], Coroutine[Any, Any, None]]] = (),
    ) -> None:
        self.id = f"{socket.gethostname()[:40]}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self.policy, self.queues = policy, queues
        self.store, self.clock, self.threads, self.wake, self.dice = store, clock, threads, wake, dice
        self.tally = Tally()
        self.attempts: dict[tuple[int, int], Attempt] = {}  # everything under a lease of ours, until it is settled
        self.stopping = False
        self.newest: int | None = None  # of the jobs that a cycle may take
        self._kinds, self._gates, self._store_id = kinds, gates, store_id
        self._more = beside  # what else runs for as long as it works
        self._ended: list[Ended] = []
        self._given_up: set[tuple[int, int]] = set()
        self._cursor = START
        self._next_due: float | None = None
        self._next_look = -math.inf
        self._next_listen = -math.inf
        self._next_adopt = -math.inf
        self._unheard_until = -math.inf
        self._slots = Slots(policy.concurrency, self._attempt)
        self.keeper = Keeper(self)
        self.sweeper = Sweeper(self)
        self.asker = Asker(self, gates)

    # -- running -------------------------------------------------------------------------------------------------

    async def run(self, stop: asyncio.Event) -> None:
        """Until *stop* is set; then finishes or gives back what it holds. So it does when it is cancelled, in haste."""
        async with self.wake.listening():
            waiting = asyncio.create_task(stop.wait())
            waiting.add_done_callback(lambda _: self.wake.poke())
            try:
                others = [self.sweeper.run(), self.asker.run(), *(each(self) for each in self._more)]
                await self._beside(self._pump(stop, self.policy.grace), *others)
            finally:
                waiting.cancel()

    async def drain(self) -> Tally:
        """One cycle: every job that is there and may go, once, and what that frees; then it returns."""
        await self.sweeper.sweep()
        await self.clock.asleep(_AFTER)  # what an earlier cycle saw is older than this one, on a virtual clock, too
        self.newest = await self.at_store(_begin_cycle)
        self._gates.cycle = float((await self.at_store(lambda tx: tx.all("clock")))[0][0])
        async with self.wake.listening(others=False):
            await self.asker.once()
            await self._beside(self._cycle())
        return self.tally

    async def _beside(self, main: Coroutine[Any, Any, None], *others: Coroutine[Any, Any, None]) -> None:
        """Runs *main* with the heartbeat beside it; when one of them breaks, all end, and loudly."""
        await self._publish()
        await self.keeper.try_to_beat()  # before the first claim: it also brings the store's clock
        always = (self.keeper.run(), self.keeper.watch(), self._slots.broken())
        beside = {asyncio.create_task(each) for each in (*always, *others)}
        pump = asyncio.create_task(main)
        try:
            done, _ = await asyncio.wait({pump, *beside}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        except BaseException:
            pump.cancel()
            await asyncio.gather(pump, return_exceptions=True)
            await self._hurry()
            raise
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            await self._slots.close()
            await self.asker.close()
            await self.keeper.goodbye()

    async def _publish(self) -> None:
        try:
            await self.at_store(self._gates.publish)
        except StoreError as error:
            _log.warning("numbers_not_published error=%s", type(error).__name__)

    async def _hurry(self) -> None:
        """Gives back what it can before it ends for a reason that cannot wait."""
        now = asyncio.Event()
        now.set()
        try:
            await self._pump(now, 0.0)
        except Exception:
            _log.exception("leases_not_given_back n=%s", len(self.attempts))

    async def _pump(self, stop: asyncio.Event, grace: float) -> None:
        patience = _PATIENCE[0]
        ending: Ending | None = None
        while True:
            if stop.is_set():
                ending = ending or Ending(self, grace)
                if ending.over():
                    return
            if self.wake.take():
                self._next_look = -math.inf
            if not self._wanted():
                await self.wake.wait(self._patience(ending))
                continue
            if ending is None and self._slots.fed:
                await self.clock.asleep(_GATHER)  # more will end meanwhile, and be settled with it
            try:
                await self._turn()
                patience = _PATIENCE[0]
            except StoreError as error:
                _log.warning("store_unavailable error=%s", type(error).__name__)
                await self._rest(patience, stop, ending)
                patience = min(patience * 2, _PATIENCE[1])

    async def _cycle(self) -> None:
        patience = _PATIENCE[0]
        while True:
            self.wake.take()
            try:
                done = await self._turn()
                patience = _PATIENCE[0]
            except StoreError as error:
                if not self._ours():
                    raise
                _log.warning("store_unavailable error=%s", type(error).__name__)
                await self.clock.asleep(patience)
                patience = min(patience * 2, _PATIENCE[1])
                continue
            busy = bool(self.attempts) or self.asker.busy
            if done is not None and not done.claimed and not done.failed_fast and not busy:
                return
            if busy and not self._ended:
                await self.wake.wait(self.policy.poll_every)

    async def _rest(self, patience: float, stop: asyncio.Event, ending: Ending | None) -> None:
        """Waits before the store is asked again; a stop is heard at once."""
        if ending is not None:
            await self.clock.asleep(min(patience, 0.5))
            return
        try:
            await asyncio.wait_for(stop.wait(), patience)
        except TimeoutError:
            return

    # -- a turn at the store -------------------------------------------------------------------------------------

    async def _turn(self) -> Turn | None:
        """One turn; None when all of its time went to what could not be written."""
        ended, self._ended = _one_each(self._ended)
        now = self.clock.monotonic()
        room = 0 if self.stopping else self._room(len(ended))
        look = self._due(now) and self.newest is None
        wish = Wish(
            worker=self.id,
            queues=self.queues,
            room=room,
            slots=min(room, max(0, self.policy.concurrency - len(self.attempts) + len(ended))),
            lease=self.policy.lease,
            cursor=self._cursor,
            promote=look,
            adopt=self._next_adopt <= now < self._unheard_until,
            given_up=frozenset(self._given_up),
            listen=bool(self.attempts) and now >= self._next_listen,
            newest=self.newest,
        )
        try:
            done = await self._at_turn(ended, wish)
        except BaseException as error:
            self._ended = ended + self._ended
            self._unheard_until = self.clock.monotonic() + _UNHEARD_FOR
            if not ended or not isinstance(error, Exception) or isinstance(error, (StoreBusy, StoreFull)):
                raise
            await self._one_by_one()
            return None
        if wish.adopt:
            self._next_adopt = now + _ADOPT_EVERY
        if wish.listen:
            self._next_listen = now + _LISTEN_EVERY
        if look:
            self._next_due = done.next_due
        if room and len(done.claimed) < room:
            self._next_look = now + self.policy.poll_every  # nothing more for now; news ends the wait
        self._after(ended, done, now)
        return done

    async def _at_turn(self, ended: list[Ended], wish: Wish) -> Turn:
        now = self.keeper.store_now()
        return await self.at_store(lambda tx: turn(tx, self._gates, ended, wish, now))

    async def _one_by_one(self) -> None:
        """Something that ended cannot be written, and keeps the others from it: each alone, and that one without."""
        ended, self._ended = self._ended, []
        wish = Wish(worker=self.id, queues=self.queues, room=0, lease=self.policy.lease, promote=False)
        for each in ended:
            if not await self._alone(each, wish) and not await self._alone(self._unwritable(each), wish):
                key = each.outcome.job.id, each.outcome.job.fence
                self.attempts.pop(key, None)
                self._given_up.add(key)  # its lease ends by itself; to begin it again under that would be worse

    async def _alone(self, each: Ended, wish: Wish) -> bool:
        try:
            self._after([each], await self._at_turn([each], wish), self.clock.monotonic())
        except (StoreBusy, StoreFull):
            self._ended.append(each)
        except Exception:
            _log.exception("outcome_not_written job=%s ending=%s", each.outcome.job.id, each.outcome.ending)
            return False
        return True

    def _unwritable(self, each: Ended) -> Ended:
        job = each.outcome.job
        kind = self._kinds.get(job.kind)
        fault = CORE["unexpected"].fault("settle", reach=Reach.SELF)
        policy = lifecycle.KindPolicy() if kind is None else kind.policy
        return Ended(lifecycle.after_fault(job, fault, policy, self.dice()), each.note)

    def _after(self, ended: list[Ended], done: Turn, sent: float) -> None:
        self._cursor = done.cursor
        now = self.keeper.store_now()
        late = {id(outcome) for outcome in done.settled.late}
        for each in ended:
            outcome = each.outcome
            self.attempts.pop((outcome.job.id, outcome.job.fence), None)
            self._count(each, late=id(outcome) in late)
            if outcome.wait is not None:
                self._next_due = min(now + outcome.wait, math.inf if self._next_due is None else self._next_due)
        if done.opens_at is not None:
            self._next_due = min(done.opens_at, math.inf if self._next_due is None else self._next_due)
        self._gates.tell(done.events)
        self.asker.ask(done.asks)
        for job in done.claimed:
            self._start(job, done, sent)
        for job in done.mine:
            if (job.id, job.fence) not in self.attempts:
                _log.warning("claim_adopted job=%s fence=%s", job.id, job.fence)
                self._start(job, done, sent)
        if done.asked:
            asked = set(done.asked)
            for attempt in [each for each in self.attempts.values() if each.job.id in asked]:
                self.asked_to_stop(attempt)

    def _count(self, each: Ended, *, late: bool) -> None:
        ending = each.outcome.ending
        if late:
            self.tally.lost += 1
            _log.warning("lease_lost job=%s fence=%s", each.outcome.job.id, each.outcome.job.fence)
            return
        setattr(self.tally, ending, getattr(self.tally, ending) + 1)
        self.tally.held += each.held

    # -- attempts ------------------------------------------------------------------------------------------------

    def _start(self, job: Claimed, done: Turn, sent: float) -> None:
        """Begins an attempt at a job that was just claimed, or buffers it until a slot is free."""
        parents = trying.parent_results(done.parent_results.get(job.id, {}))
        context = Context(job, self._store_id, parents, self)
        kind = self._kinds.get(job.kind)
        attempt = Attempt(job, kind, context, done.generations.get(job.id, 0), sent, self.policy.lease)
        suspect = job.deaths >= MOST_DEATHS - 1 and any(_suspect(each) for each in self.attempts.values())
        self.attempts[attempt.key] = attempt
        if self.stopping:
            self._give_back(attempt)
        elif suspect:
            # One more death fails it. Whoever kills workers must do so alone, or those beside it fail for nothing.
            self._give_back(attempt, wait=_SUSPECT_WAIT)
        else:
            self._slots.put(attempt)

    async def _attempt(self, attempt: Attempt) -> None:
        """What a slot does with an attempt."""
        began = self.clock.monotonic()
        ended = self._unbegun(attempt, began)
        if ended is None and attempt.stop not in ("fenced", "lost"):
            task = attempt.task = asyncio.current_task()
            rules = self._gates.rules.get(attempt.job.target)
            try:
                ended = await trying.run(attempt, self.threads, None if rules is None else rules.pack, self.dice)
            finally:
                attempt.task = None
            if attempt.stop is not None and task is not None:
                while task.cancelling():
                    task.uncancel()  # the attempt was cancelled, not the slot
            self._slots.took(self.clock.monotonic() - began)
        if ended is not None:
            self._end(attempt, ended)
        else:
            self.attempts.pop(attempt.key, None)
            self.tally.lost += 1
            self.wake.poke()

    def _unbegun(self, attempt: Attempt, now: float) -> Ended | None:
        """Why an attempt is over before it has begun."""
        job = attempt.job
        if attempt.stop == "person":
            return Ended(lifecycle.stopped(job))
        if attempt.stop == "fenced" or now + self.policy.margin >= attempt.deadline:
            return Ended(lifecycle.given_back(job, unsent=True))
        if job.attempt > job.most_attempts:
            code = CORE["worker_lost"]
            return Ended(lifecycle.not_begun(job, code.name, "It was cut short, and no attempt is left."))
        if job.expires_at is not None and self.keeper.store_now() >= job.expires_at:
            code = CORE["expired"]
            return Ended(lifecycle.not_begun(job, code.name, code.message))
        return None

    def _end(self, attempt: Attempt, ended: Ended) -> None:
        attempt.ended = True
        if ended.note is not None and ended.note.fault is not None:
            self.asker.heard(ended.note.target, ended.note.fault)
        if self.newest is not None and ended.outcome.stage is Stage.READY:
            # In a cycle each job has one turn: what is ready again waits for the next one.
            ended = replace(ended, outcome=replace(ended.outcome, stage=Stage.WAITING, wait=0.0))
        self._ended.append(ended)
        self.wake.poke()

    def _give_back(self, attempt: Attempt, *, wait: float | None = None) -> None:
        """Ends an attempt that has not begun; the job gets its attempt back."""
        self._end(attempt, Ended(lifecycle.given_back(attempt.job, unsent=True, wait=wait)))

    def give_back_the_unbegun(self, *, all_of_it: bool = False) -> None:
        """What was claimed ahead and found no slot in time: another worker may be free."""
        limit = None if all_of_it else self.clock.monotonic() - _BUFFERED
        for attempt in self._slots.unbegun(limit):
            self._give_back(attempt)

    def asked_to_stop(self, attempt: Attempt) -> None:
        """By a person."""
        if attempt.stop is None and not attempt.ended:
            attempt.tell("person")

    def let_go(self) -> None:
        """Gives back what has not ended in time. A thread cannot be stopped: what it still does counts no more."""
        for attempt in list(self.attempts.values()):
            if not attempt.ended:
                _log.warning("handler_hangs kind=%s job=%s", attempt.job.kind, attempt.job.id)
                self._end(attempt, Ended(lifecycle.given_back(attempt.job, unsent=False)))

    # -- when to look --------------------------------------------------------------------------------------------

    def _room(self, ended: int) -> int:
        ahead = self._slots.ahead if self.newest is None else 0
        return max(0, self.policy.concurrency + ahead - len(self.attempts) + ended)

    def _due(self, now: float) -> bool:
        return now >= self._next_look or (self._next_due is not None and self.keeper.store_now() >= self._next_due)

    def _wanted(self) -> bool:
        """Whether a turn at the store would do something."""
        now = self.clock.monotonic()
        if self._ended or (self.attempts and now >= self._next_listen):
            return True
        return not self.stopping and self._room(0) > 0 and self._due(now)

    def _patience(self, ending: Ending | None) -> float:
        """Seconds to wait for a wake-up."""
        now = self.clock.monotonic()
        waits = [self.policy.poll_every if ending is None else ending.next_step - now]
        if self.attempts:
            waits.append(self._next_listen - now)
        if ending is None and self._room(0) > 0:
            waits.append(self._next_look - now)
            if self._next_due is not None:
                waits.append(self._next_due - self.keeper.store_now())
        return max(0.001, min(waits))

    # -- at the store --------------------------------------------------------------------------------------------

    async def at_store(self, work: Callable[[Tx], T]) -> T:
        return await self.threads.store(lambda: self.store.write(work))

    async def save(self, job: Claimed, saved: str) -> bool:
        """Keeps what a handler saves; a store that is away for a moment is waited for, as long as the lease lasts."""
        while True:
            try:
                return await self.at_store(lambda tx: claims.save(tx, job.id, job.fence, saved))
            except (StoreBusy, StoreFull):
                if not self._still_held(job):
                    raise
                await self.clock.asleep(_PATIENCE[0])

    def save_now(self, job: Claimed, saved: str) -> bool:
        while True:
            try:
                return self.store.write(lambda tx: claims.save(tx, job.id, job.fence, saved))
            except (StoreBusy, StoreFull):
                if not self._still_held(job):
                    raise
                self.clock.sleep(_PATIENCE[0])

    def _ours(self) -> bool:
        """Whether a lease of ours may still be good."""
        now = self.clock.monotonic()
        return any(now < attempt.deadline for attempt in self.attempts.values())

    def _still_held(self, job: Claimed) -> bool:
        attempt = self.attempts.get((job.id, job.fence))
        return attempt is not None and self.clock.monotonic() + self.policy.margin < attempt.deadline


def _begin_cycle(tx: Tx) -> int:
    """Makes ready what is due, and says which job is the newest: what comes later is for the next cycle."""
    while claims.promote(tx):
        pass
    return int(tx.all("newest")[0][0])


def _one_each(ended: list[Ended]) -> tuple[list[Ended], list[Ended]]:
    """One outcome per job, and the rest: of a job that was lost and taken again, both may end at the same time."""
    seen: set[int] = set()
    now: list[Ended] = []
    later: list[Ended] = []
    for each in ended:
        (later if each.outcome.job.id in seen else now).append(each)
        seen.add(each.outcome.job.id)
    return now, later


def _suspect(attempt: Attempt) -> bool:
    return attempt.job.deaths >= MOST_DEATHS - 1 and not attempt.ended
