"""A worker: claims what may go, runs it, settles it, keeps its leases, and stops gently."""

from __future__ import annotations

import asyncio
import math
import os
import random
import socket
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from tidegate.core.logs import logger
from tidegate.errors import StoreError
from tidegate.runtime.asking import Asker
from tidegate.runtime.clock import Clock
from tidegate.runtime.cycle import Turn
from tidegate.runtime.ending import Ending
from tidegate.runtime.in_flight import InFlightAttempts
from tidegate.runtime.job_gates import JobGates
from tidegate.runtime.job_kinds import JobKind
from tidegate.runtime.keeper import Keeper
from tidegate.runtime.leased import Leased
from tidegate.runtime.sweeper import Sweeper
from tidegate.runtime.threads import Threads
from tidegate.runtime.turns import Turns
from tidegate.runtime.wake import Wake
from tidegate.runtime.worker_policy import Tally, WorkerPolicy
from tidegate.store import claims
from tidegate.store.claims import Cycle
from tidegate.store.migrate import Schema, core_migrations
from tidegate.store.tx import Store, Tx

T = TypeVar("T")
_log = logger("tidegate.worker")

_PATIENCE = (0.05, 5.0)  # seconds between tries at a store that does not answer, first and longest
_GATHER = 0.004  # seconds to wait for more outcomes, while every slot has something to do
_AFTER = 0.001
_LEAST = 0.001  # seconds: a wait that is no spin


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
        cycled: frozenset[str] = frozenset(),
        in_flight: InFlightAttempts | None = None,
        schema: Schema | None = None,
    ) -> None:
        self.id = f"{socket.gethostname()[:40]}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self.policy, self.queues = policy, queues
        self.cycled = cycled  # queues that its jobs work on, a cycle at a time; it claims nothing of them itself
        self.store, self.clock, self.threads, self.wake, self.dice = store, clock, threads, wake, dice
        self.tally = Tally()
        self.stopping = False
        self.cycle: Cycle | None = None  # what it may take, when it works for one cycle
        self._gates = gates
        self._more = beside  # what else runs for as long as it works
        self.kinds = kinds
        self.schema = schema or Schema(core_migrations())
        self.leased = Leased(self, kinds, gates, store_id, in_flight or InFlightAttempts())
        self._turns = Turns(self, gates)
        self.keeper = Keeper(self)
        self.sweeper = Sweeper(self)
        self.asker = Asker(self, gates)

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

    async def drain(self, stop: asyncio.Event | None = None) -> Tally:
        """One cycle: every job that is there and may go, once, and what that frees; then it returns.

        After a *stop* nothing more is claimed, and what was begun ends as it would.
        """
        await self.sweeper.sweep()
        await self.clock.asleep(_AFTER)  # what an earlier cycle saw is older than this one, on a virtual clock, too
        self.cycle = await self.at_store(_begin_cycle)
        self._gates.cycle = self.cycle.began
        async with self.wake.listening(others=False):
            await self.asker.once()
            await self._beside(self._cycle(stop or asyncio.Event()))
        if stop is None or not stop.is_set():
            await self.sweeper.tidy()
        return self.tally

    async def _beside(self, main: Coroutine[Any, Any, None], *others: Coroutine[Any, Any, None]) -> None:
        """Runs *main* with the heartbeat beside it; when one of them breaks, all end, and loudly."""
        with self.leased.in_flight.joined(self.leased):
            await self._work_beside(main, others)

    async def _work_beside(self, main: Coroutine[Any, Any, None], others: Sequence[Coroutine[Any, Any, None]]) -> None:
        await self._publish()
        await self.keeper.try_to_beat()  # before the first claim: it also brings the store's clock
        always = (self.keeper.run(), self.keeper.watch(), self.leased.slots.broken())
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
            await self.leased.slots.close()
            await self.asker.close()
            await self.keeper.goodbye()

    async def _publish(self) -> None:
        try:
            self._gates.tell(await self.at_store(self._gates.publish))
        except StoreError as error:
            _log.warning("numbers_not_published error=%s", type(error).__name__)

    async def _hurry(self) -> None:
        """Gives back what it can before it ends for a reason that cannot wait."""
        now = asyncio.Event()
        now.set()
        try:
            await self._pump(now, 0.0)
        except Exception:
            _log.exception("leases_not_given_back n=%s", len(self.leased.attempts))

    async def _pump(self, stop: asyncio.Event, grace: float) -> None:
        patience = _PATIENCE[0]
        ending: Ending | None = None
        while True:
            if stop.is_set():
                ending = ending or Ending(self, grace)
                if ending.over():
                    return
            if self.wake.take():
                self._turns.news()
            if not self._turns.wanted():
                step = math.inf if ending is None else ending.next_step - self.clock.monotonic()
                await self.wake.wait(max(_LEAST, min(step, self._turns.patience())))
                continue
            if ending is None and self.leased.slots.fed:
                await self.clock.asleep(_GATHER)  # more will end meanwhile, and be settled with it
            try:
                await self._turns.take()
                patience = _PATIENCE[0]
            except StoreError as error:
                _log.warning("store_unavailable error=%s", type(error).__name__)
                await self._rest(patience, stop, ending)
                patience = min(patience * 2, _PATIENCE[1])

    async def _cycle(self, stop: asyncio.Event) -> None:
        patience = _PATIENCE[0]
        while True:
            self.wake.take()
            self.stopping = stop.is_set()
            try:
                done = await self._turns.take()
                patience = _PATIENCE[0]
            except StoreError as error:
                if not self.leased.any_good:
                    raise
                _log.warning("store_unavailable error=%s", type(error).__name__)
                await self.clock.asleep(patience)
                patience = min(patience * 2, _PATIENCE[1])
                continue
            busy = bool(self.leased.attempts) or self.asker.busy or self._must_wait(done)
            if done is not None and not done.claimed and not done.failed_fast and not busy:
                return
            if busy and not self.leased.ended:
                await self.wake.wait(self.policy.poll_every)

    def _must_wait(self, done: Turn | None) -> bool:
        """Whether jobs of this cycle wait for other workers of the process, so that a suspect can run alone."""
        held_up = done is not None and done.waits_to_be_alone
        return not self.stopping and (held_up or not self.leased.in_flight.admits_others(self.leased))

    @property
    def outdated(self) -> bool:
        """The schema is newer than this worker: it claims nothing, and goes on with what it has."""
        return self.schema.too_new is not None

    async def _rest(self, patience: float, stop: asyncio.Event, ending: Ending | None) -> None:
        """Waits before the store is asked again; a stop is heard at once."""
        if ending is not None:
            await self.clock.asleep(min(patience, 0.5))
            return
        try:
            await asyncio.wait_for(stop.wait(), patience)
        except TimeoutError:
            return

    async def at_store(self, work: Callable[[Tx], T]) -> T:
        return await self.threads.store(lambda: self.store.write(work))


def _begin_cycle(tx: Tx) -> Cycle:
    """Makes ready what is due. What comes or falls due later is for the next cycle, also when others make it ready."""
    while claims.promote(tx):
        pass
    return Cycle(int(tx.all("newest")[0][0]), float(tx.all("clock")[0][0]))
